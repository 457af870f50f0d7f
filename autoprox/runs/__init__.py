"""Runs: the folder that keeps a run, the base of all summaries, and proxy files.

May import: files, the language and its formats.
Gives: `folder.Run`, which may write; `loaded_runs.LoadedRun` reads.
"""
