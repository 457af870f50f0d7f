"""The evolution of proxies."""
