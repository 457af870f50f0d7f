"""The documents that `--json` prints, as models; file formats that the package reads are its own.

A key of a document that isn't here is an error of the test that runs every command.
"""
