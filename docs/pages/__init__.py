"""The pages that are written from the code, a file for each kind."""
