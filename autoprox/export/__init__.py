"""Other forms of a proxy."""
