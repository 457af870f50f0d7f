"""Rediscovery: the search for a known proxy by its scores, and the evidence that it was found.

May import: the language, the engine, scoring and evolution.
Gives: `FormulaSearch`, and evidence of equality by tree, by sympy and by fresh networks.
"""
