"""S3, which searches the search space: Chen et al., NeurIPS 2021.

May import: the packages above, supernets included; nothing that runs a command.
Gives: the evolution of a space by the errors of its options, and the search for subnets in it.
"""
