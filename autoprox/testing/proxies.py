"""What must hold for a proxy, an expression or a function."""

import math
from collections.abc import Mapping

from autoprox.inputs.batch import Batch
from autoprox.language import canonical, parse, require_network
from autoprox.searchspaces import TransformerNetwork
from autoprox.testing.require import require
from autoprox.zoo import EXPRESSIONS, ExpressionProxy
from autoprox.zoo.functions import FunctionProxy, MeasurePasses
from autoprox.zoo.functions.measure_passes import SHARED_PASSES


def check_proxy(proxy: ExpressionProxy) -> None:
    """Its expression is one number for each network, and it says where it comes from."""
    require(proxy.citation.strip(), "a proxy says where it comes from")
    names: Mapping[str, str] = {name: other.expression for name, other in EXPRESSIONS.items()}
    tree = require_network(parse(proxy.expression, names))
    require(parse(str(tree)) == tree, f"a proxy is read as it is written, but not {tree}")
    form = canonical(tree)
    require(canonical(form) == form, f"a canonical form is its own, but not {form}")


def check_function_proxy(
    proxy: FunctionProxy, network: TransformerNetwork, batch: Batch, seed: int = 0
) -> None:
    """It is described, repeatable, finds the passes that it names, and leaves the network alone."""
    name = proxy.name
    for text in (proxy.citation, proxy.equation, proxy.function.__doc__):
        require(text and text.strip(), f"{name} has a citation, an equation and a docstring")
    parameters = [(p, p.detach().clone(), p.requires_grad) for p in network.parameters()]
    passes = MeasurePasses(network, batch, seed)
    value = proxy.function(passes)
    require(isinstance(value, float) and not math.isnan(value), f"{name} is a number, got {value}")
    used = {shared for shared in SHARED_PASSES if shared in vars(passes)}
    require(used == proxy.needs, f"{name} reads {sorted(used)}, but needs {sorted(proxy.needs)}")
    again = proxy.function(MeasurePasses(network, batch, seed))
    require(again == value, f"{name} is {value}, then {again} for the same network")
    for parameter, before, grad in parameters:
        same = bool((parameter == before).all()) and parameter.requires_grad == grad
        require(same and parameter.grad is None, f"{name} leaves the network as it found it")
