"""Searches architectures with a proxy: a strategy is a function of a `searcher.Searcher`."""
