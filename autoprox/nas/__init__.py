"""Searches architectures with a proxy: a strategy is a function of a `searcher.Searcher`.

May import: all that measures and scores; nothing that runs a command.
Gives: the registry `strategies.STRATEGIES`, and candidates measured by own or by sliced weights.
"""
