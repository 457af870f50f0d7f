"""The search for a known proxy by its scores."""
