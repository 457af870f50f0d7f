"""Work on several threads."""
