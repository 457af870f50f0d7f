"""Files: written whole, read with care, located in errors; the sizes and functions users name.

May import: errors, registry and what is installed, without torch.
Gives: atomic writing, JSON with the line of every value, documents, JSON lines, sizes, references.
"""
