"""Engine: evaluates many trees on many networks, every distinct subtree once.

May import: the language, primitives, scoring and statistics.
Gives: `evaluator.Engine`; what of a proxy only compares networks (`comparison`).
"""
