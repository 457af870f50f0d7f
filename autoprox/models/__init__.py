"""Models of other libraries: which of their layers are measured, and how they are called.

It imports errors and files, and gives `layers.find_layers`, `foreign.Foreign` and `loading`.
"""
