"""Scoring: how well scores rank networks.

May import: benchmarks and search spaces, for the baselines.
Gives: correlations, the joint metric, the bootstrap, evaluation sets, baselines, reliability.
"""
