"""How the letters, superscripts and indices of formulas are written, and what they mean."""

from sympy.printing.pretty.pretty_symbology import greek_unicode

MEANINGS = {
    "msa": ("ₘₛₐ", "qkv and proj of each block"),
    "mlp": ("ₘₗₚ", "fc1 and fc2 of each block"),
    "all": ("ₐₗₗ", "qkv, proj, fc1 and fc2 of each block"),
    "qkv": ("qkv", "what makes the queries, keys and values of each block"),
    "stem": ("stem", "the convolutions that embed patches"),
    "pool": ("pool", "the layers between stages"),
    "keep": ("keep", "the linear layers between stages that keep the width"),
    "widen": ("widen", "the other layers between stages"),
    "head": ("head", "the classifier"),
    "diverse": ("diverse", "qkv and proj of each block, linear layers that keep the width"),
    "salient": ("salient", "fc1 and fc2 of each block, other layers between stages, classifier"),
    "other": ("other", "linear layers and convolutions in no other domain"),
    "net": ("net", "all linear layers and convolutions"),
    "ones": ("ᵒⁿᵉˢ", "absolute weights, an input of ones, loss: the sum of the outputs"),
    "ntk": ("ⁿᵗᵏ", "loss: the last block's output times random signs"),
    "ij": ("i, j", "elements of a matrix"),
    "l": ("l", "layers"),
    "k": ("k", "blocks"),
}


def unicode(letter: str) -> str:
    """A quantity's letter as one character where it is Greek."""
    return str(greek_unicode.get(letter, letter))
