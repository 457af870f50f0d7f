"""The zoo: published proxies, expressions and functions, the papers' figures, and proxy files.

It imports the language, inputs, search spaces and files, and gives the registry `PROXIES`;
`functions` and `proxy_loading`, which need more, are imported by themselves.
"""

from autoprox.zoo.expression_proxies import (
    EXPRESSION_PROXIES,
    PROXIES,
    ExpressionProxy,
    ProxyError,
    PublishedProxy,
    parse_with_zoo_names,
)

__all__ = [
    "EXPRESSION_PROXIES",
    "PROXIES",
    "ExpressionProxy",
    "ProxyError",
    "PublishedProxy",
    "parse_with_zoo_names",
]
