"""Inputs of networks: images, texts or noise, as a batch or as a whole dataset.

May import: errors, files, searchspaces; `class_counts` is for those who do without torch.
Gives: batches for the datasets of a benchmark, and datasets to train on with a held-out part.
"""
