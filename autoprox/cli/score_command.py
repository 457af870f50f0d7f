"""The command `autoprox score`."""

from pathlib import Path
from typing import Annotated

import typer

from autoprox.cli.common_flags import Debug, Json
from autoprox.cli.help_layout import offered
from autoprox.configurations.shared_options import DEFAULT_WEIGHTS, WEIGHTS

SCORE_EXAMPLES = (
    "score --proxy snip --model timm:vit_tiny_patch16_224",
    "score --proxy dss++ --model timm:deit_tiny_patch16_224 --compare timm:deit_small_patch16_224",
    "score --proxy runs/20260102T030405Z-mine --model transformers:bert --length 128",
)
LayerPatterns = Annotated[
    list[str] | None,
    typer.Option(
        help="Pattern of the names of this domain's layers, such as blocks.*.attn.*. Repeat it "
        "for more.",
        metavar="PATTERN",
        show_default="by known families",
    ),
]
ScoredBy = Annotated[
    str,
    typer.Option(
        help="A run, a proxy file, a published name or an expression.", show_default=False
    ),
]
Model = Annotated[
    str,
    typer.Option(
        help="timm:NAME, transformers:NAME (or a kind, such as bert), or MODULE:FUNCTION, a "
        "function that returns a module for tokens or images, or a module with its inputs "
        "and targets.",
        show_default=False,
    ),
]


def score_by_proxy(
    proxy: ScoredBy,
    model: Model,
    compare: Annotated[
        list[str] | None, typer.Option(help="Another model. Repeat it for more.", metavar="MODEL")
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(help="Folder of real images.", metavar="PATH", show_default="noise"),
    ] = None,
    text: Annotated[
        Path | None,
        typer.Option(
            help="A text file, read byte by byte.", metavar="FILE", show_default="random tokens"
        ),
    ] = None,
    msa: LayerPatterns = None,
    mlp: LayerPatterns = None,
    weights: Annotated[
        str,
        typer.Option(
            help="How random weights are drawn: fresh for each model, or shared, as slices of "
            "one draw for all models by the parameters' names.",
            **offered(WEIGHTS),
        ),
    ] = DEFAULT_WEIGHTS,
    pretrained: Annotated[bool, typer.Option("--pretrained", help="Use trained weights.")] = False,
    layers: Annotated[bool, typer.Option("--layers", help="Show which layers are read.")] = False,
    batch_size: Annotated[
        int | None,
        typer.Option(help="Images or sequences that a model sees.", min=1, show_default="4"),
    ] = None,
    length: Annotated[
        int | None, typer.Option(help="Tokens in a sequence.", min=2, show_default="64")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the weights and the noise.", min=0)] = 0,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Score any model by a proxy: one from timm or transformers, or your own."""
    from autoprox.commands.score import ModelInputs, score_model_references
    from autoprox.report.terminal.layout import show_result  # with torch, slow to import
    from autoprox.report.terminal.score_report import score_report
    from autoprox.zoo.proxy_loading import resolve_proxy

    loaded = resolve_proxy(proxy)
    inputs = ModelInputs(images, text, batch_size, length, seed)
    names = [model, *(compare or ())]
    patterns = {domain: given for domain, given in (("msa", msa), ("mlp", mlp)) if given}
    found = score_model_references(loaded.tree, names, inputs, patterns, pretrained, weights)
    if loaded.found is not None:
        known = {"evolved_with": loaded.found.weights, "found_on": loaded.found.space}
        found = found.model_copy(update=known)
    show_result(json, found, lambda: score_report(found, layers))
