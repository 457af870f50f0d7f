"""Rediscovery: the search for a known proxy by its scores, and what shows that it was found.

May import: the language, the engine, scoring and evolution.
Gives: `search.FormulaSearch`, and evidence by tree, by sympy and by fresh networks.
"""
