"""One way to say that a rule is broken."""


def assert_rule(holds: object, rule: str) -> None:
    """Raise AssertionError with the rule, unless it holds."""
    if not holds:
        raise AssertionError(rule)
