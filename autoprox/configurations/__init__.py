"""Configurations: the options of each command, with their types, defaults, rules and help.

May import: the declared options, files, and the strategies, whose options are options of commands.
Gives: a configuration for each command that makes a run.
"""
