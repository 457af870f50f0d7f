"""Runs: the folder that keeps a run, and the proxy files in it.

May import: files, the language and its forms.
Gives: `folder.Run`, its environment, proxy files read and written, and `load`.
"""

from autoprox.runs.loading import load

__all__ = ["load"]
