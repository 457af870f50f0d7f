"""PreNAS: the architectures that a supernet is to be trained on, chosen before the training.

May import: what is below, the supernet included; nothing that runs a command.
Gives: the saliencies of one random supernet, isomers and their allocation, the preferred set.
"""
