"""How well scores rank networks."""
