"""Published proxies that aren't expressions of the language: one function for each.

Each follows its paper's equation on the layers of a transformer: the linear layers of the blocks,
for convolutions, and the GELU of their MLPs, for ReLU. Its docstring says what else was chosen.
"""

from autoprox.zoo import expression_proxies  # noqa: F401  # before: they come first in the registry
from autoprox.zoo.functions import activation_proxies, gradient_proxies, jacobian_proxies  # noqa: F401
from autoprox.zoo.functions.function_proxy_registration import (
    FUNCTION_PROXIES,
    FunctionProxy,
    function_proxy,
    measure_function_proxies,
    register_function,
)
from autoprox.zoo.functions.shared_network_passes import FunctionProxyError, SharedNetworkPasses

__all__ = [
    "FUNCTION_PROXIES",
    "FunctionProxy",
    "FunctionProxyError",
    "SharedNetworkPasses",
    "function_proxy",
    "measure_function_proxies",
    "register_function",
]
