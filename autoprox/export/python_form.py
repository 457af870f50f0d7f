"""A proxy as a Python file of its own, which needs nothing but torch."""

from collections.abc import Iterable
from textwrap import fill

from autoprox.export import plain
from autoprox.export.registry import EXPORTERS, ExportError
from autoprox.export.source import Bundle
from autoprox.language import LEAVES, NETWORK, Leaf, Tree, canonical, statistics
from autoprox.language.domains import BLOCK_DOMAINS
from autoprox.language.quantities import QUANTITIES
from autoprox.language.vocabulary import EVERY_STATISTIC
from autoprox.primitives import OPERATIONS

MEASURING = "autoprox.export.measuring"
NAMES = "autoprox.models.measured_layers"
MEASURED = ("weight", "grad", "act", "act_grad")
SIGNS = {"add": "+", "sub": "-", "mul": "*"}
NARROW = 72  # columns of a formula's part beyond which it gets a line of its own
DIMS = {"Matrix": ", MATRIX", "Layers": ", LAYERS", "Network": ""}


def python(tree: Tree) -> str:
    """The tree as a Python file with a function `score`, which needs nothing but torch."""
    if tree.type != NETWORK:
        raise ExportError(f"a proxy in Python is a Network, got {tree.type}: reduce it")
    return _File(canonical(tree)).text(tree)


class _Lines:
    """Assignments for the parts of a tree, and the expressions that stand for them."""

    def __init__(self, bundle: Bundle, prefix: str) -> None:
        self.lines: list[str] = []
        self.known: dict[Tree, str] = {}
        self._bundle = bundle
        self._prefix = prefix

    def of(self, tree: Tree, whole: bool = False) -> str:
        """The expression of a tree, of which `known` has the leaves."""
        uses: dict[Tree, int] = {}
        self._count(tree, uses)
        return self._visit(tree, uses, not whole)

    def _count(self, tree: Tree, uses: dict[Tree, int]) -> None:
        uses[tree] = uses.get(tree, 0) + 1
        if uses[tree] == 1 and tree not in self.known:
            for arg in tree.args:
                self._count(arg, uses)

    def _visit(self, tree: Tree, uses: dict[Tree, int], outermost: bool = False) -> str:
        if tree in self.known:
            return self.known[tree]
        if tree.leaf is not None:
            return tree.leaf.python(self._bundle.add)
        args = [self._visit(arg, uses) for arg in tree.args]
        text = self._applied(tree, args)
        if outermost or (uses[tree] == 1 and len(text) <= NARROW):
            return text
        name = f"{self._prefix}{len(self.lines) + 1}"
        self.lines.append(f"{name} = {text}")
        self.known[tree] = name
        return name

    def _applied(self, tree: Tree, args: list[str]) -> str:
        if tree.symbol in SIGNS:
            pairs = zip(tree.args, args, strict=True)
            left, right = (
                f"({text})" if arg.symbol in SIGNS and arg not in self.known else text
                for arg, text in pairs
            )
            return f"{left} {SIGNS[tree.symbol]} {right}"
        operation = OPERATIONS[tree.symbol]
        function = operation.function
        self._bundle.add(function.__module__, function.__name__)
        dims = DIMS[tree.args[0].type.level] if operation.along_axis else ""
        if dims:
            self._bundle.add(MEASURING, "LAYERS")
        if operation.shared:
            shared = operation.shared
            self._bundle.add(shared.__module__, shared.__name__)
            args, dims = [f"{shared.__name__}({arg}{dims})" for arg in args], ""
        return f"{function.__name__}({', '.join(args)}{dims})"


class _File:
    """The parts of the file of a proxy."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.needs = statistics(tree)
        if foreign := sorted({s.quantity for s in self.needs} - set(MEASURED)):
            raise ExportError(
                f"a proxy in Python reads {', '.join(MEASURED)}, but this one {foreign[0]}"
            )
        self.terms = list(dict.fromkeys(_terms(tree)))
        self.compares = self.terms != [tree]
        self.bundle = Bundle(instead=plain)
        self.bundle.add(MEASURING, "layers_of")
        self.bundle.require("torch")
        self.bundle.require("torch", "Tensor")
        self.bundle.require("torch", "nn")
        self.functions: list[str] = []  # of the matrices of a layer
        self.body = _Lines(self.bundle, "v")

    def text(self, tree: Tree) -> str:
        """The whole file."""
        scores = [self.body.of(self._reduced(term)) for term in self.terms]
        lines = [*self._measurements(), *self.body.lines]
        if self.compares:
            score = self._terms_function(lines, scores) + "\n\n\n" + self._comparison()
        else:
            score = self._score_function(lines, scores[0])
        parts = [_docstring(tree, self.compares), self.bundle.text().rstrip(), *self.functions]
        return "\n\n\n".join([parts[0] + "\n\n" + parts[1], *parts[2:], score]) + "\n"

    def _reduced(self, term: Tree) -> Tree:
        """Define what is computed of the matrices of a layer, and of the structure."""

        def visit(node: Tree, args: list[None]) -> None:
            if node.type.level != "Layers" or node in self.body.known:
                return
            if not node.args:
                self.body.known[node] = node.symbol
            elif node.args[0].type.level == "Matrix":
                self.body.known[node] = self._layer_function(node)

        term.fold(visit)
        return term

    def _layer_function(self, node: Tree) -> str:
        """Write the function of a reduction of matrices; returns its application."""
        self.bundle.add(MEASURING, "each")
        read = sorted(_terminals(node))
        lines = _Lines(self.bundle, "m")
        lines.known = {leaf: leaf.symbol.replace(".", "_") for leaf in _leaves(node)}
        result = lines.of(node)
        name = f"layer_{len(self.functions) + 1}"
        names = ", ".join(f"{symbol.replace('.', '_')}: Tensor" for symbol in read)
        self.functions.append(
            f"def {name}({names}) -> Tensor:\n"
            f'    """{_quoted(str(node), 4)}"""\n'
            + "".join(f"    {line}\n" for line in (*lines.lines, f"return {result}")).rstrip()
        )
        return f"each({name}, {', '.join(map(self._matrices, read, [read] * len(read)))})"

    def _matrices(self, symbol: str, read: list[str]) -> str:
        """Those of a statistic; of a single input of ones repeated beside those of a batch."""
        statistic = EVERY_STATISTIC[symbol]
        text = Leaf(LEAVES["statistic"], statistic).python(self.bundle.add)
        others = (EVERY_STATISTIC[name] for name in read)
        likes = {s.probe for s in others if QUANTITIES[s.quantity].like == "activation"}
        if statistic.probe == "ones" and len(likes) > 1:
            self.bundle.add(MEASURING, "repeated")
            return f"repeated({text}, len(inputs))"
        return text

    def _measurements(self) -> list[str]:
        """A line for each pass, and for each terminal of the structure."""
        lines = ["layers = layers_of(model, patterns)"]
        if self.needs:
            every = any(s.domain not in BLOCK_DOMAINS for s in self.needs)
            function = "every_domain(model, layers)" if every else "block_domains(layers)"
            self.bundle.add(NAMES, function.partition("(")[0])
            lines.append(f"domains = {function}")
        for probe in sorted({statistic.probe for statistic in self.needs}):
            self.bundle.add(MEASURING, "measure")
            quantities = {s.quantity for s in self.needs if s.probe == probe}
            kind = "none" if quantities == {"weight"} else probe
            lines.append(f'{probe} = measure(model, domains, "{kind}", inputs, targets, seed)')
        for node in sorted(_leaves(self.tree), key=str):
            if node.leaf and node.type.level == "Layers":
                lines.append(f"{node} = {node.leaf.python(self.bundle.add)}")
        return lines

    def _score_function(self, lines: list[str], score: str) -> str:
        self.bundle.add(NAMES, "Patterns")
        return _function(
            "score",
            "model: nn.Module",
            "float",
            "The proxy's score of a model, which is left as it was.",
            [*lines, f"return float({score})"],
        )

    def _terms_function(self, lines: list[str], scores: list[str]) -> str:
        self.bundle.add(NAMES, "Patterns")
        return _function(
            "terms",
            "model: nn.Module",
            "list[float]",
            "What is known of a model by itself, which is left as it was.",
            [*lines, "return [", *(f"    float({score})," for score in scores), "]"],
        )

    def _comparison(self) -> str:
        self.bundle.require("collections.abc", "Sequence")
        lines = _Lines(self.bundle, "r")
        lines.known = {term: f"t{number}" for number, term in enumerate(self.terms, start=1)}
        result = lines.of(self.tree)
        names = ", ".join(lines.known[term] for term in self.terms)
        comma = "," if len(self.terms) == 1 else ""
        each = "terms(model, inputs, targets, seed, patterns)"
        return _function(
            "score",
            "models: Sequence[nn.Module]",
            "list[float]",
            "The proxy's scores of models among each other.",
            [
                f"measured = [{each} for model in models]",
                f"{names}{comma} = torch.tensor(measured, dtype=torch.float64).T",
                *lines.lines,
                f"return list(({result}).tolist())",
            ],
        )


def _function(name: str, first: str, returns: str, text: str, body: Iterable[str]) -> str:
    arguments = ("inputs: Tensor", "targets: Tensor", "seed: int = 0")
    given = (first, *arguments, "patterns: Patterns | None = None")
    signature = "".join(f"    {argument},\n" for argument in given)
    lines = "".join(f"    {line}\n" for line in body)
    return f'def {name}(\n{signature}) -> {returns}:\n    """{text}"""\n{lines}'.rstrip()


def _docstring(tree: Tree, compares: bool) -> str:
    call = "score(models, inputs, targets)" if compares else "score(model, inputs, targets)"
    what = (
        f"`{call}` says how an untrained transformer would compare with others if they were "
        "trained: higher is better. Inputs are images [batch, channels, height, width] with "
        "targets [batch], or tokens [batch, length] with a target for each, -100 where there is "
        "none. Layers are found by their names, as FAMILIES has them, or by the patterns given. "
        "It needs nothing but torch."
    )
    formula = fill(str(tree), 96, initial_indent="    ", subsequent_indent="    ")
    return f'"""A zero-cost proxy, written by autoprox:\n\n{formula}\n\n{fill(what, 98)}\n"""'


def _quoted(text: str, indent: int) -> str:
    """A formula as the docstring of a function."""
    room = 92 - indent
    wrapped = fill(text, room, subsequent_indent=" " * indent, break_long_words=False)
    return wrapped if "\n" not in wrapped else f"{wrapped}\n{' ' * indent}"


def _terms(tree: Tree) -> list[Tree]:
    """The largest parts that compare no networks."""
    if not _ranks(tree):
        return [tree]
    return [term for arg in tree.args for term in _terms(arg)]


def _ranks(tree: Tree) -> bool:
    return tree.symbol == "rank" or any(map(_ranks, tree.args))


def _leaves(tree: Tree) -> set[Tree]:
    return {tree} if not tree.args else set().union(*map(_leaves, tree.args))


def _terminals(tree: Tree) -> set[str]:
    return {leaf.symbol for leaf in _leaves(tree)}


EXPORTERS.register("python", python)
EXPORTERS.register("torch", python)
