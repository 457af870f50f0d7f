"""Engine: evaluates many trees on many networks, every distinct subtree once.

May import: the language, primitives, scoring and statistics.
Provides: `evaluator.Engine`, and `terms`, the parts of a proxy that depend on one network alone.
"""
