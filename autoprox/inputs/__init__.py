"""Inputs: what networks see, images, texts or noise, a batch of it or a whole dataset.

May import: errors, files, searchspaces; `classes` is there for those who do without torch.
Gives: batches for the datasets of a benchmark, and datasets to train on with a held-out part.
"""
