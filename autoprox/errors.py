"""The errors that a user can cause: one line each, shown without a traceback."""


class AutoproxError(Exception):
    """Wrong use: the message states the rule, the value and the choices (exit code 2)."""
