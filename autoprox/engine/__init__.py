"""Evaluates many trees on many networks at once."""
