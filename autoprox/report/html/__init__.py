"""Pages: a run, or several, as one self-contained HTML file with formulas, tables and plots.

May import: reports, and what they are of; nothing that runs.
Gives: `document.page_of`, `document.write_page` and the plain-SVG plots that they are made of.
"""
