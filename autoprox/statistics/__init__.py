"""Statistics: matrices that are measured of untrained networks, and where they are kept.

May import: the language, inputs, search spaces, parallel and files.
Provides: networks to measure, `Setting`, and sources of matrices: cached or measured at each visit.
"""
