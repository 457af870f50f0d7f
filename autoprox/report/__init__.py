"""Reports: runs shown in the terminal, or as a page.

Both show the same summaries of runs: `terminal` as text and tables, `html` as one file with
figures.
"""
