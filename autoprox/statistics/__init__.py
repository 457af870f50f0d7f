"""Statistics: what is measured of untrained networks, and where their matrices are kept.

May import: the language, inputs, search spaces, parallel and files.
Gives: networks to measure, `Setting`, and matrices that are cached or streamed.
"""
