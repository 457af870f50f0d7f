"""Pages: a run, or several, as one self-contained HTML file with formulas, tables and plots.

May import: reports, and what they are of; nothing that runs.
Gives: `page.page_of`, `page.write_page` and `page_formats.write_report`.
"""
