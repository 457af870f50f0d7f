"""The registry of proxies: expressions of the language and functions side by side."""

from __future__ import annotations

import re
from dataclasses import dataclass

from autoprox.errors import AutoproxError
from autoprox.registry import Registry

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*")


class ProxyError(AutoproxError):
    """A proxy that breaks a rule of the registry, or that a command can't use."""


@dataclass(frozen=True)
class Proxy:
    """What the registry knows of every proxy: where it comes from."""

    citation: str


def _prove(name: str, proxy: Proxy) -> None:
    if not isinstance(proxy, Proxy) or not proxy.citation:
        raise ProxyError(f"a proxy is a record with a citation, but {name} is {proxy!r}")
    if not NAME.fullmatch(name):
        raise ProxyError(f"a proxy's name is a letter, then letters, digits, _ + -, got {name!r}")


PROXIES: Registry[Proxy] = Registry("proxies", "proxy", ProxyError, _prove)
