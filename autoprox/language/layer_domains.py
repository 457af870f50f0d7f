"""Domains: the layers of a network that a statistic is of.

The domains of blocks, ``msa``, ``mlp`` and both as ``all``, are what formulas are made of by
default. The others are read where a formula names them:

- ``qkv``: what makes the queries, keys and values of the blocks; these layers are in ``msa`` too
- ``stem``: the convolutions before the first block, which embed patches
- ``pool``: the layers between stages; ``keep`` are the linear ones as wide as the stage before,
  ``widen`` the others
- ``head``: the classifier, where it isn't the embedding
- ``diverse`` and ``salient``: the layers whose diversity, and whose saliency, the published code
  of DSS measures, which tells linear layers by their shape: `DOMAIN_PARTS`
- ``net``: every linear layer and convolution, with the ``other`` ones that are in none of these

A convolution is a matrix of its outputs and of all the weights of each. A network may lack a domain
other than those of blocks: every reduction over no layers is 0.
"""

from collections.abc import Mapping

BLOCK_DOMAINS = ("msa", "mlp", "all")
SINGLE_DOMAINS = ("msa", "mlp", "qkv", "stem", "keep", "widen", "head", "other")
DOMAIN_PARTS: Mapping[str, tuple[str, ...]] = {  # of the domains that are several
    "all": ("msa", "mlp"),
    "pool": ("keep", "widen"),
    "diverse": ("msa", "keep"),
    "salient": ("mlp", "widen", "head"),
    "net": ("msa", "mlp", "stem", "keep", "widen", "head", "other"),
}
DOMAINS = (*BLOCK_DOMAINS, *(d for d in (*SINGLE_DOMAINS, *DOMAIN_PARTS) if d not in BLOCK_DOMAINS))


def single_domains_of(domain: str) -> tuple[str, ...]:
    """The single domains that a domain is made of."""
    return DOMAIN_PARTS.get(domain, (domain,))
