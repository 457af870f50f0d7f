"""Evaluation: the fitness of formulas on a benchmark's networks, and their ranking quality.

May import: everything that measures, scores and evolves.
Gives: fitness evaluators, successive halving, measurement at full resolution, published proxies.
"""
