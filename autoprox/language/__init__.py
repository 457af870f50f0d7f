"""The language of proxies: trees, their text, canonical form and grammar."""
