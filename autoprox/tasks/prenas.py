"""PreNAS: prefers architectures, and trains the supernet on them where there are images."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from autoprox.errors import ConfigError, nearest
from autoprox.files.atomic import write_json
from autoprox.files.located_json import read_json
from autoprox.files.sizes import read_series, read_size, short
from autoprox.oneshot.prenas.convolutional_selection import ConvolutionalSelector
from autoprox.oneshot.prenas.isomer_selection import (
    NORMALISERS,
    RELEASED,
    IsomerFields,
    IsomerSelector,
    PreferredArchitecture,
    preferred_by_size,
    require_reachable_size,
)
from autoprox.oneshot.prenas.supernet_saliency import measure_saliency
from autoprox.oneshot.supernet.shared_weights import require_entangled
from autoprox.oneshot.supernet.subnets import read_subnets
from autoprox.oneshot.supernet.training import SupernetPlan
from autoprox.progress import Progress
from autoprox.runs.folder import Run, as_written
from autoprox.searchspaces import get_space
from autoprox.searchspaces.bignas import BigNASSpace
from autoprox.shortfalls import Shortfall, shortfalls
from autoprox.statistics.collector import resolve_device
from autoprox.tasks.base import Task, completed
from autoprox.tasks.search import classes_of
from autoprox.tasks.supernet_configurations import PrenasConfig
from autoprox.tasks.supernet_train import read_images, trained

PREFERRED = "preferred.json"
FOLDER = "preferred"


class Prenas(Task[PrenasConfig]):
    """The space, the sizes, and perhaps the images to train on."""

    def __init__(self, config: PrenasConfig) -> None:
        self.space = get_space(config.space)
        require_entangled(self.space)
        if isinstance(self.space, BigNASSpace):
            _require_no_isomers(config)
        else:
            IsomerFields(self.space)
        if config.normaliser not in NORMALISERS:
            choices = nearest(config.normaliser, NORMALISERS)
            raise ConfigError(f"unknown normaliser {config.normaliser!r}{choices}")
        device = resolve_device(config.device)
        super().__init__(completed(config, space=self.space.name, device=device))
        self.classes = classes_of(config.dataset)
        self.sizes = read_series("sizes", config.sizes)
        self.plan = None
        if config.train is not None:
            images = Path(config.train).absolute()
            self.data, recipe = read_images(images, self.space, config)
            self.classes = self.data.classes
            self.plan = SupernetPlan(self.space, images, recipe, "preferred", (), config.seed)
        require_reachable_size(self.space, self.classes, max(self.sizes))

    @property
    def name(self) -> str:
        return f"prenas-{self.space.name}-seed{self.config.seed}"

    def work(self, run: Run, progress: Progress) -> dict[str, Any]:
        """Choose where it isn't done, and train."""
        started = time.monotonic()
        if not (run.path / PREFERRED).exists():
            self._choose(run, progress)
        subnets = read_subnets(run.path / PREFERRED, self.space)
        training = None
        if self.plan is not None:
            plan = replace(self.plan, subnets=subnets)
            training = trained(plan, self.data, self.config, self.crew, run, progress)
        preferred = read_json(run.path / PREFERRED).plain()
        with as_written(run.path / PREFERRED):
            sizes = preferred_by_size(preferred, self.sizes, self.config.per_size)
        trained_short = [] if training is None else training.pop("shortfalls")
        return {
            "space": self.space.name,
            "normaliser": self.config.normaliser,
            "preferred": preferred,
            "sizes": sizes,
            "shortfalls": [*shortfalls(self._counts(sizes, len(preferred))), *trained_short],
            "file": str(run.path / PREFERRED),
            "training": training,
            "seconds": round(time.monotonic() - started, 3),
        }

    def _counts(self, sizes: Sequence[Mapping[str, Any]], different: int) -> Iterator[Shortfall]:
        """Compare what was asked for with what is preferred."""
        asked = read_size("sizes", self.config.sizes.split(":")[1]) or 0
        yield Shortfall("greatest size", asked, max(self.sizes), "is the last that is reached")
        for own in sizes:
            of = f"per-size below {short(own['size'])}"
            yield Shortfall(of, own["asked"], own["found"], "candidates have fewer parameters")
        total = sum(own["found"] for own in sizes)
        yield Shortfall("preferred for all sizes", total, different, "are different architectures")
        largest = self.space.params(self.space.largest(), self.classes)
        within = sum(own["size"] <= largest for own in sizes)
        reason = (
            f"are within {self.space.name}, whose largest network has {short(largest)} parameters: "
            "below the others the choice is of all networks"
        )
        yield Shortfall("sizes", len(sizes), within, reason)

    def _choose(self, run: Run, progress: Progress) -> None:
        progress("measure", 0, 1, "the random supernet")
        noise, seed, normaliser = (self.config.noise, self.config.seed, self.config.normaliser)
        released = normaliser == RELEASED
        saliency = measure_saliency(self.space, self.classes, noise, seed, released)
        progress("measure", 1, 1, "the random supernet")
        if isinstance(self.space, BigNASSpace):
            chosen = ConvolutionalSelector(saliency, self.space).choose(
                self.sizes, self.config.per_size
            )
        else:
            chosen = IsomerSelector(saliency, normaliser).choose(self.sizes, self.config.per_size)
        folder = run.path / FOLDER
        folder.mkdir(exist_ok=True)
        for number, one in enumerate(chosen, start=1):
            write_json(folder / f"{number}.json", one.architecture.to_json())
        write_json(run.path / PREFERRED, [_entry(one) for one in chosen])


def _require_no_isomers(config: PrenasConfig) -> None:
    if config.normaliser == RELEASED:
        rule = f"the normaliser {RELEASED} compares isomers"
        raise ConfigError(f"{rule}, of which {config.space} has hardly any: leave it out")


def _entry(one: PreferredArchitecture) -> dict[str, Any]:
    """A row of the table."""
    return {
        "arch": one.architecture.to_json()["choices"],
        "size": one.size,
        "params": one.params,
        "flops": one.flops,
        "snip": one.snip,
        "normalised": one.normalised,
    }
