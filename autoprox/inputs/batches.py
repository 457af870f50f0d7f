"""The mini-batches that networks of a space see, one for each dataset: images, or tokens."""

from collections.abc import Mapping
from pathlib import Path

from autoprox.inputs.batch import Batch, InputError
from autoprox.inputs.images import images_of, load_batch
from autoprox.inputs.text import load_tokens
from autoprox.searchspaces import SearchSpace
from autoprox.searchspaces.language_models import TokenSpace
from autoprox.shortfalls import Shortfall

LENGTH = 64  # of sequences, unless said otherwise: gradients need no more


def batch_counts(asked: int, batches: Mapping[str, Batch]) -> list[Shortfall]:
    """Compare the samples of batches with the number that was asked for.

    Datasets that see the same samples have one count in common.
    """
    found = {batch.source: len(batch.inputs) for batch in batches.values()}
    return [
        Shortfall("batch_size", asked, used, f"is all that {source} has")
        for source, used in found.items()
    ]


def load_batches(
    space: SearchSpace,
    classes: Mapping[str, int],
    *,
    batch_size: int,
    seed: int,
    images: Path | None = None,
    text: Path | None = None,
    length: int | None = None,
) -> dict[str, Batch]:
    """A batch for each dataset: real images or text where a path is given, else noise.

    Language models see the same tokens for every dataset.
    """
    if isinstance(space, TokenSpace):
        _refuse(space, images=images)
        tokens = min(LENGTH, space.context) if length is None else length
        batch = load_tokens(space, batch_size, tokens, seed, text)
        return dict.fromkeys(classes, batch)
    _refuse(space, text=text, length=length)
    paths = images_of(images, list(classes)) if images else {}
    return {
        dataset: load_batch(dataset, space.input_shape, batch_size, seed, paths.get(dataset), count)
        for dataset, count in classes.items()
    }


def _refuse(space: SearchSpace, **options: object) -> None:
    for name, value in options.items():
        if value is not None:
            kind = "tokens" if isinstance(space, TokenSpace) else "images"
            raise InputError(f"{space.name} takes {kind}, which {name} {value} is not for")
