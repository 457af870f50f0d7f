"""PreNAS: choosing the architectures that a supernet is trained on before the training.

May import: the packages above, supernets included; nothing that runs a command.
Gives: the saliencies of a random supernet, and the preferred architectures by them.
"""
