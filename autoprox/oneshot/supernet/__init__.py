"""One network whose parts are all networks of a space: trained once, its subnets inherit.

May import: what is below, training included; nothing that runs a command.
Gives: the supernet and its slices, samplers, the recipe, the training and its checkpoints.
"""
