"""One-shot methods: one network is trained for all architectures of a space.

`supernet` trains it and takes subnets from it, `prenas` chooses beforehand which architectures to
train it on, and `s3` searches the search space itself.
"""
