"""Trains networks, for benchmarks."""
