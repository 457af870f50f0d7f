"""Published proxies that aren't expressions of the language: one function for each.

Each follows its paper's equation on the layers of a transformer: the linear layers of the blocks,
for convolutions, and the GELU of their MLPs, for ReLU. Its docstring says what else was chosen.
"""

from autoprox.zoo import expression_proxies  # noqa: F401  # before: they come first in the registry
from autoprox.zoo.functions import (  # noqa: F401
    activation_proxies,
    az_nas_proxies,
    gradient_proxies,
    jacobian_proxies,
    robustness_proxies,
)
from autoprox.zoo.functions.function_proxy_registration import (
    FUNCTION_PROXIES,
    FunctionProxy,
    function_proxy,
    measure_function_proxies,
    register_function,
)
from autoprox.zoo.functions.rank_combinations import RANK_COMBINATIONS, RankCombination
from autoprox.zoo.functions.shared_network_passes import FunctionProxyError, SharedNetworkPasses

__all__ = [
    "FUNCTION_PROXIES",
    "RANK_COMBINATIONS",
    "FunctionProxy",
    "FunctionProxyError",
    "RankCombination",
    "SharedNetworkPasses",
    "function_proxy",
    "measure_function_proxies",
    "register_function",
]
