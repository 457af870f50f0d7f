"""Models of other libraries: how they are loaded and called, and which layers are measured.

May import: errors, files and the domains of the language.
Gives: `load_model`, `ModelAdapter`, `find_layers`, and the memory that a score takes.
"""
