"""Tasks: what each command does, from its configuration to the summary of its run.

May import: everything but the Python functions and the command line.
Gives: `base.start` and `base.resume`; configurations and results, which import no torch.
"""
