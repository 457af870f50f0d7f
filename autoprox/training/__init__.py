"""Training of networks, and the tables of true scores that result from it.

May import: the packages above, scoring and benchmarks included; nothing that runs a command.
Gives: recipes for images and texts, and the planning and training of a table.
"""
