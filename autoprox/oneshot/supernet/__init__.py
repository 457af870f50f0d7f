"""Supernets: one network that contains all networks of a space, which inherit its weights.

May import: the packages above, training included; nothing that runs a command.
Gives: shared weights and their checkpoints, samplers of subnets, training, inherited accuracies.
"""
