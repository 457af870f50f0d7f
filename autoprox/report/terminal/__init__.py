"""Reports: what is printed of a result, and the progress of what runs.

May import: results and what they are of (language, export, scoring, zoo); nothing that runs.
Gives: the parts of each report, `show` and `show_json`, and the bars of `progress_on`.
"""
