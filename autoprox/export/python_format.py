"""A proxy as a Python file of its own, which needs nothing but torch."""

from collections import Counter
from collections.abc import Mapping
from textwrap import fill, indent

from autoprox.export.proxy_formats import ExportError
from autoprox.export.standalone_source import SourceBundle
from autoprox.language import NETWORK, Leaf, Tree, canonical, statistics
from autoprox.language.layer_domains import BLOCK_DOMAINS
from autoprox.language.quantities import QUANTITIES
from autoprox.primitives import OPERATIONS

RUNTIME = "autoprox.export.proxy_runtime"
LAYER_NAMES = "autoprox.models.measured_layers"
MEASURED = ("weight", "grad", "act", "act_grad")
NARROW = 72  # columns of a formula's part beyond which it gets a line of its own


def python_source(tree: Tree) -> str:
    """The tree as a Python file with a function `score`, which needs nothing but torch."""
    if tree.type != NETWORK:
        raise ExportError(f"a proxy in Python is a Network, got {tree.type}: reduce it")
    return _File(canonical(tree)).text(tree)


class _Lines:
    """Assignments for the parts of a tree, and the expressions that stand for them."""

    def __init__(self, bundle: SourceBundle, prefix: str, known: Mapping[Tree, str]) -> None:
        self.lines: list[str] = []
        self.known = dict(known)
        self._bundle = bundle
        self._prefix = prefix

    def expression(self, tree: Tree) -> str:
        """The expression of a tree; parts that are long or used twice get lines of their own."""
        uses = Counter[Tree]()
        self._count(tree, uses)
        return self._visit(tree, uses, outermost=True)

    def _count(self, tree: Tree, uses: Counter[Tree]) -> None:
        uses[tree] += 1
        if uses[tree] == 1 and tree not in self.known:
            for arg in tree.args:
                self._count(arg, uses)

    def _visit(self, tree: Tree, uses: Counter[Tree], outermost: bool = False) -> str:
        if tree in self.known:
            return self.known[tree]
        if tree.leaf is not None:
            return tree.leaf.kind.python(tree.leaf.payload, self._bundle.add)
        text = self._call(tree, [self._visit(arg, uses) for arg in tree.args])
        if outermost or (uses[tree] == 1 and len(text) <= NARROW):
            return text
        self.known[tree] = f"{self._prefix}{len(self.lines) + 1}"
        self.lines.append(f"{self.known[tree]} = {text}")
        return self.known[tree]

    def _call(self, tree: Tree, args: list[str]) -> str:
        """An operation applied to its arguments, by its operator or by its function."""
        operation = OPERATIONS[tree.symbol]
        if operation.operator:
            nested = [arg not in self.known and _has_operator(arg) for arg in tree.args]
            left, right = (f"({a})" if n else a for a, n in zip(args, nested, strict=True))
            return f"{left} {operation.operator} {right}"
        level = tree.args[0].type.level
        dims = f", {level.upper()}" if operation.along_axis and level != "Network" else ""
        if dims:
            self._bundle.add(RUNTIME, "LAYERS")
        if shared := operation.shared:
            self._bundle.add(shared.__module__, shared.__name__)
            args, dims = [f"{shared.__name__}({arg}{dims})" for arg in args], ""
        function = operation.function
        self._bundle.add(function.__module__, function.__name__)
        return f"{function.__name__}({', '.join(args)}{dims})"


def _has_operator(tree: Tree) -> bool:
    return bool(tree.args and OPERATIONS[tree.symbol].operator)


class _File:
    """The parts of the file of a proxy."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.needs = statistics(tree)
        if foreign := sorted({s.quantity for s in self.needs} - set(MEASURED)):
            raise ExportError(
                f"a proxy in Python reads {', '.join(MEASURED)}, but this one {foreign[0]}"
            )
        self.bundle = SourceBundle()
        self.bundle.add(RUNTIME, "layers_of")
        self.bundle.add(LAYER_NAMES, "LayerPatterns")
        self.bundle.require("torch")
        self.bundle.require("torch", "Tensor")
        self.bundle.require("torch", "nn")
        self.functions: list[str] = []  # of the matrices of a layer

    def text(self, tree: Tree) -> str:
        """The whole file."""
        terms = list(dict.fromkeys(_terms(self.tree)))
        body = _Lines(self.bundle, "v", {})
        for term in terms:
            self._reduce_layers(term, body.known)
        scores = [f"float({body.expression(term)})" for term in terms]
        lines = [*self._measurements(), *body.lines]
        if self.tree.compares_networks:
            call = "score(models, inputs, targets)"
            functions = [
                _function(
                    "terms(model: nn.Module) -> list[float]",
                    "Measure the terms of a model by itself, which is left as it was.",
                    [*lines, "return [", *(f"    {score}," for score in scores), "]"],
                ),
                self._comparison(terms),
            ]
        else:
            call = "score(model, inputs, targets)"
            signature = "score(model: nn.Module) -> float"
            what = "The proxy's score of a model, which is left as it was."
            functions = [_function(signature, what, [*lines, f"return {scores[0]}"])]
        what = (
            f"`{call}` predicts how an untrained transformer would compare with others after "
            "training: higher is better. Inputs are images [batch, channels, height, width] with "
            "targets [batch], or tokens [batch, length] with a target for each, -100 where there "
            "is none. Layers are found by their names, as FAMILIES has them, or by the patterns "
            "given. It needs nothing but torch."
        )
        formula = fill(str(tree), 96, initial_indent="    ", subsequent_indent="    ")
        docstring = (
            f'"""A zero-cost proxy, written by autoprox:\n\n{formula}\n\n{fill(what, 98)}\n"""'
        )
        head = f"{docstring}\n\n{self.bundle.text().rstrip()}"
        return "\n\n\n".join([head, *self.functions, *functions]) + "\n"

    def _reduce_layers(self, term: Tree, known: dict[Tree, str]) -> None:
        """Define what is computed of the matrices of a layer, and of the structure."""

        def visit(node: Tree, args: list[None]) -> None:
            if node.type.level != "Layers" or node in known:
                return
            if not node.args:
                known[node] = node.symbol
            elif node.args[0].type.level == "Matrix":
                known[node] = self._layer_function(node)

        term.fold(visit)

    def _layer_function(self, node: Tree) -> str:
        """Write the function of a reduction of matrices, and return its application."""
        self.bundle.add(RUNTIME, "each")
        read = dict(sorted(node.leaves.items(), key=lambda item: item[0].symbol))
        variables = {leaf: leaf.symbol.replace(".", "_") for leaf in read}
        lines = _Lines(self.bundle, "m", variables)
        lines.lines.append(f"return {lines.expression(node)}")
        name = f"layer_{len(self.functions) + 1}"
        arguments = ", ".join(f"{variable}: Tensor" for variable in variables.values())
        docstring = fill(str(node), 88, subsequent_indent="    ", break_long_words=False)
        docstring += "\n    " if "\n" in docstring else ""
        self.functions.append(
            f'def {name}({arguments}) -> Tensor:\n    """{docstring}"""\n'
            + indent("\n".join(lines.lines), "    ")
        )
        likes = {
            leaf.payload.probe
            for leaf in read.values()
            if QUANTITIES[leaf.payload.quantity].like == "activation"
        }
        matrices = [self._matrices(leaf, repeat=len(likes) > 1) for leaf in read.values()]
        return f"each({name}, {', '.join(matrices)})"

    def _matrices(self, leaf: Leaf, repeat: bool) -> str:
        """The matrices of a statistic; a single input of ones is repeated next to a batch's."""
        text = leaf.kind.python(leaf.payload, self.bundle.add)
        if leaf.payload.probe == "ones" and repeat:
            self.bundle.add(RUNTIME, "repeated")
            return f"repeated({text}, len(inputs))"
        return text

    def _measurements(self) -> list[str]:
        """A line for each pass, and for each terminal of the structure."""
        lines = ["layers = layers_of(model, patterns)"]
        if self.needs:
            every = any(s.domain not in BLOCK_DOMAINS for s in self.needs)
            function = (
                "domains_by_layer(model, layers)" if every else "block_domains_by_layer(layers)"
            )
            self.bundle.add(LAYER_NAMES, function.partition("(")[0])
            lines.append(f"domains = {function}")
        for probe in sorted({statistic.probe for statistic in self.needs}):
            self.bundle.add(RUNTIME, "measure_model")
            quantities = {s.quantity for s in self.needs if s.probe == probe}
            kind = "none" if quantities == {"weight"} else probe
            lines.append(
                f'{probe} = measure_model(model, domains, "{kind}", inputs, targets, seed)'
            )
        for node, leaf in sorted(self.tree.leaves.items(), key=lambda item: str(item[0])):
            if node.type.level == "Layers":
                lines.append(f"{node} = {leaf.kind.python(leaf.payload, self.bundle.add)}")
        return lines

    def _comparison(self, terms: list[Tree]) -> str:
        self.bundle.require("collections.abc", "Sequence")
        lines = _Lines(self.bundle, "r", {term: f"t{n}" for n, term in enumerate(terms, start=1)})
        names = ", ".join(lines.known.values()) + ("," if len(terms) == 1 else "")
        result = lines.expression(self.tree)
        return _function(
            "score(models: Sequence[nn.Module]) -> list[float]",
            "The proxy's scores of models among each other.",
            [
                "measured = [terms(model, inputs, targets, seed, patterns) for model in models]",
                f"{names} = torch.tensor(measured, dtype=torch.float64).T",
                *lines.lines,
                f"return list(({result}).tolist())",
            ],
        )


def _function(signature: str, docstring: str, body: list[str]) -> str:
    """A function with the arguments that scores have in common after its own."""
    own, _, returned = signature.partition(")")
    name, _, first = own.partition("(")
    arguments = ("inputs: Tensor", "targets: Tensor", "seed: int = 0")
    listed = (first, *arguments, "patterns: LayerPatterns | None = None")
    lines = "".join(f"    {argument},\n" for argument in listed)
    return f'def {name}(\n{lines}){returned}:\n    """{docstring}"""\n' + indent(
        "\n".join(body), "    "
    )


def _terms(tree: Tree) -> list[Tree]:
    """The largest parts that compare no networks."""
    if not tree.compares_networks:
        return [tree]
    return [term for arg in tree.args for term in _terms(arg)]
