"""Files: written whole, read with care, located in errors; what users write as sizes and functions.

May import: errors, registry and what is installed, without torch.
Gives: atomic writes, JSON documents and lines, folders, human-readable sizes, user functions.
"""
