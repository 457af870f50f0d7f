"""S3, which searches the search space: Chen et al., NeurIPS 2021.

May import: what is below, supernets included; nothing that runs a command.
Gives: the error of spaces and subspaces, spaces that evolve by it, and the search in the last one.
"""
