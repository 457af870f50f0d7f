"""Runs: the folder that keeps a run, and the proxy files in it.

May import: files and the language.
Gives: `folder.Run`, its environment, and proxy files read and written.
"""
