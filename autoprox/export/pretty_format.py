"""A tree as a formula in text."""

import sympy
from sympy.printing.pretty.pretty import PrettyPrinter
from sympy.printing.pretty.pretty_symbology import pretty_use_unicode
from sympy.printing.pretty.stringpict import prettyForm, stringPict

from autoprox.export.proxy_formats import to_sympy
from autoprox.language import Tree
from autoprox.language.statistic_leaves import MatrixSymbol
from autoprox.primitives import SympyOperation
from autoprox.primitives.notation import is_sum

LEAST_WIDTH = 20
TALLEST_FRACTION = 12


def pretty_formula(tree: Tree, width: int | None = None) -> str:
    """The tree as a formula in text, two-dimensional and in Unicode, `width` (80) columns wide."""
    return pretty_expression(to_sympy(tree), width or 80)


def pretty_expression(expression: sympy.Expr, width: int) -> str:
    """An expression of `to_sympy` as a formula in text."""
    columns = max(width, LEAST_WIDTH)
    before = pretty_use_unicode(True)
    try:
        for room in (columns, columns * 3 // 4, columns // 2, columns // 4):
            form = _Pretty(room)._print(expression)
            if form.width() <= columns:
                break
        text = form.render(wrap_line=True, num_columns=columns, use_unicode=True)
    finally:
        pretty_use_unicode(before)
    return "\n".join(line.rstrip() for line in text.splitlines())


class _Pretty(PrettyPrinter):  # type: ignore[misc]
    """Sympy's pretty printer, but sums and products stay in order and break beyond `room` columns.

    Element-wise products of matrices have the sign ⊙.
    """

    def __init__(self, room: int) -> None:
        super().__init__({"use_unicode": True})
        self.room = room

    def _print_Add(self, expr: sympy.Add, order: None = None) -> prettyForm:  # noqa: N802
        first, second = expr.args
        negated = _negated(second)
        if negated is None:
            return self._joined(self._print(first), " + ", self._print(second), prettyForm.ADD)
        subtracted = self._print(negated)
        subtracted = _factor(subtracted) if is_sum(negated) else subtracted
        return self._joined(self._print(first), " - ", subtracted, prettyForm.ADD)

    def _print_Mul(self, product: sympy.Mul) -> prettyForm:  # noqa: N802
        first, second = product.args
        if _negated(product) is not None:
            return prettyForm(*_factor(self._print(second)).left("-"), binding=prettyForm.NEG)
        if second.is_Pow and second.exp == -1:
            return self._fraction(self._print(first), self._print(second.base))
        sign = " ⊙ " if _elementwise(product) else " ⋅ "
        return self._joined(
            _factor(self._print(first)), sign, _factor(self._print(second)), prettyForm.MUL
        )

    def _print_Pow(self, power: sympy.Pow) -> prettyForm:  # noqa: N802
        base = self._print(power.base)
        if power.exp == -1:
            return self._fraction(prettyForm("1"), base)
        if power.exp in (2, 3):
            exponent = "²" if power.exp == 2 else "³"
            return prettyForm(*_atom(base).right(exponent), binding=prettyForm.POW)
        if power.exp == sympy.Rational(1, 2):
            return prettyForm(*_atom(base).left("√"), binding=prettyForm.POW)
        exponent = _atom(self._print(power.exp))
        return prettyForm(
            *prettyForm(*_atom(base).right("^")).right(exponent), binding=prettyForm.POW
        )

    def _print_Integer(self, number: sympy.Integer) -> prettyForm:  # noqa: N802
        return _signed(prettyForm(str(number)), number)

    def _print_Float(self, number: sympy.Float) -> prettyForm:  # noqa: N802
        return _signed(super()._print_Float(number), number)

    def _print_Max(self, expr: sympy.Max) -> prettyForm:  # noqa: N802
        return self._print_Function(expr, func_name="max")

    def _print_exp(self, expr: sympy.exp) -> prettyForm:
        return self._print_Function(expr)

    def _joined(self, left: prettyForm, sign: str, right: prettyForm, binding: int) -> prettyForm:
        if left.width() + len(sign) + right.width() <= self.room:
            return prettyForm(*stringPict.next(left, sign, right), binding=binding)
        below = stringPict(*right.left(sign.lstrip()))
        lines = [*left.picture, *below.picture]
        width = max(map(len, lines))
        return prettyForm("\n".join(line.ljust(width) for line in lines), left.baseline, binding)

    def _fraction(self, over: prettyForm, under: prettyForm) -> prettyForm:
        if over.height() + under.height() < TALLEST_FRACTION:
            return over / under
        return self._joined(_factor(over), " / ", _atom(under), prettyForm.MUL)


def _signed(form: prettyForm, number: sympy.Number) -> prettyForm:
    form.binding = prettyForm.NEG if number.is_negative else prettyForm.ATOM
    return form


def _factor(form: prettyForm) -> prettyForm:
    return prettyForm(*form.parens()) if form.binding > prettyForm.MUL else form


def _atom(form: prettyForm) -> prettyForm:
    return prettyForm(*form.parens()) if form.binding > prettyForm.FUNC else form


def _elementwise(expr: sympy.Expr) -> bool:
    if isinstance(expr, SympyOperation) and expr.reduces:
        return False
    return isinstance(expr, MatrixSymbol) or any(map(_elementwise, expr.args))


def _negated(expr: sympy.Expr) -> sympy.Expr | None:
    """The y of an expression -y."""
    return expr.args[1] if expr.is_Mul and expr.args[0] == -1 else None
