"""Scoring: how well scores rank networks.

May import: benchmarks and search spaces, for the baselines.
Gives: correlations, the joint metric, the split, the ridge regression, tables of correlations.
"""
