"""Searches architectures with a proxy: a strategy is a function of a `searcher.Searcher`.

May import: all that measures and scores; nothing that runs a command.
Provides: the registry `strategies.SEARCH_STRATEGIES`, and the measurement of candidates.
"""
