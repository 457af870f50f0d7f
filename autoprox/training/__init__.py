"""Training: how networks are trained and scored, and the tables of true scores that come of it.

May import: what is below, scoring and benchmarks included; nothing that runs a command.
Gives: recipes for images and texts, the plan of a table, and its making.
"""
