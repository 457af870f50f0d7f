"""The command `prenas`: prefer architectures before training, and train a supernet on them."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from autoprox.commands.search import dataset_class_count
from autoprox.commands.supernet import (
    TrainedSupernet,
    read_images_and_recipe,
    train_supernet_in_run,
    training_shortfalls,
)
from autoprox.commands.task_interface import CommandTask
from autoprox.configurations.shared_options import completed, require_choice
from autoprox.configurations.supernets import PrenasConfig
from autoprox.errors import ConfigError
from autoprox.files.atomic_writes import write_json
from autoprox.files.human_readable_sizes import format_with_unit, parse_series, parse_size
from autoprox.files.json_documents import JSONDocument, read_json, validate_json
from autoprox.oneshot.prenas.convolutional_selection import ConvolutionalSelector
from autoprox.oneshot.prenas.isomer_selection import (
    NORMALISERS,
    RELEASED,
    IsomerFields,
    IsomerSelector,
    preferred_by_size,
    require_reachable_size,
)
from autoprox.oneshot.prenas.supernet_saliency import measure_saliency
from autoprox.oneshot.supernet.shared_weights import require_entangled
from autoprox.oneshot.supernet.subnet_samplers import read_subnets
from autoprox.oneshot.supernet.training import SupernetPlan
from autoprox.progress import Progress
from autoprox.runs.folder import Run
from autoprox.runs.summary import Choices, Summary
from autoprox.searchspaces import get_space
from autoprox.searchspaces.bignas import BigNASSpace
from autoprox.shortfalls import Shortfall, unmet
from autoprox.statistics.collector import resolve_device

PREFERRED_FILE, PREFERRED_FOLDER = "preferred.json", "preferred"


class PreferredSubnet(JSONDocument):
    """An architecture that is preferred: the least size below which it is, and its scores."""

    arch: Choices
    size: int
    params: int
    flops: int
    snip: float
    normalised: float


class PreferredBelowSize(JSONDocument):
    """The architectures that are preferred below a size, by their numbers from 1 on."""

    size: int
    asked: int
    found: int
    preferred: list[int]


class PrenasSummary(Summary):
    """The preferred architectures, and the supernet that was trained on them, if any."""

    space: str
    normaliser: str
    preferred: tuple[PreferredSubnet, ...]
    sizes: tuple[PreferredBelowSize, ...]
    file: str
    training: TrainedSupernet | None
    seconds: float


class PrenasTask(CommandTask[PrenasConfig, PrenasSummary]):
    """The selection of architectures below each size, and perhaps a training on images."""

    summary = PrenasSummary

    def __init__(self, config: PrenasConfig) -> None:
        self.space = get_space(config.space)
        require_entangled(self.space)
        if not isinstance(self.space, BigNASSpace):
            IsomerFields(self.space)
        elif config.normaliser == RELEASED:
            rule = f"the normaliser {RELEASED} compares isomers"
            raise ConfigError(f"{rule}, of which {config.space} has hardly any: leave it out")
        require_choice("normaliser", config.normaliser, NORMALISERS)
        super().__init__(
            completed(config, space=self.space.name, device=resolve_device(config.device))
        )
        self.classes = self.space.default_classes
        if config.dataset is not None:
            self.classes = dataset_class_count(config.dataset)
        self.sizes = parse_series("sizes", config.sizes)
        self.plan = None
        if config.images is not None:
            images = Path(config.images).absolute()
            self.data, recipe = read_images_and_recipe(images, self.space, config)
            self.classes = self.data.classes
            self.plan = SupernetPlan(self.space, images, recipe, "preferred", (), config.seed)
        require_reachable_size(self.space, self.classes, max(self.sizes))

    @property
    def name(self) -> str:
        return f"prenas-{self.space.name}-seed{self.config.seed}"

    def work(self, run: Run, progress: Progress) -> PrenasSummary:
        """Choose the architectures unless that is done, and train the supernet on them."""
        started, file = time.monotonic(), run.path / PREFERRED_FILE
        if not file.exists():
            self._choose(run.path, progress)
        subnets = read_subnets(file, self.space)
        training, trained_short = None, tuple[Shortfall, ...]()
        if self.plan is not None:
            plan = replace(self.plan, subnets=subnets)
            training = train_supernet_in_run(plan, self.data, self.config, self.pool, run, progress)
            trained_short = training_shortfalls(plan, self.data, training.steps)
        preferred = tuple(validate_json(read_json(file), list[PreferredSubnet]))
        rows = preferred_by_size(
            [own.model_dump() for own in preferred], self.sizes, self.config.per_size
        )
        sizes = tuple(PreferredBelowSize(**row) for row in rows)
        return PrenasSummary(
            space=self.space.name,
            normaliser=self.config.normaliser,
            preferred=preferred,
            sizes=sizes,
            shortfalls=(*unmet(self._found(sizes, len(preferred))), *trained_short),
            file=str(file),
            training=training,
            seconds=round(time.monotonic() - started, 3),
        )

    def _found(self, sizes: tuple[PreferredBelowSize, ...], different: int) -> Iterator[Shortfall]:
        """Compare what was asked for with what is preferred."""
        asked = parse_size("sizes", self.config.sizes.split(":")[1]) or 0
        yield Shortfall("greatest size", asked, max(self.sizes), "is the last that is reached")
        for own in sizes:
            of = f"per-size below {format_with_unit(own.size)}"
            yield Shortfall(of, own.asked, own.found, "candidates have fewer parameters")
        total = sum(own.found for own in sizes)
        yield Shortfall("preferred for all sizes", total, different, "are different architectures")
        largest = self.space.params(self.space.largest(), self.classes)
        within = sum(own.size <= largest for own in sizes)
        reason = (
            f"are within {self.space.name}, whose largest network has {format_with_unit(largest)} "
            "parameters: below the others the choice is of all networks"
        )
        yield Shortfall("sizes", len(sizes), within, reason)

    def _choose(self, path: Path, progress: Progress) -> None:
        """Measure a random supernet, and write the architectures that it prefers."""
        config = self.config
        progress("measure", 0, 1, "the random supernet")
        released = config.normaliser == RELEASED
        saliency = measure_saliency(self.space, self.classes, config.noise, config.seed, released)
        progress("measure", 1, 1, "the random supernet")
        if isinstance(self.space, BigNASSpace):
            chosen = ConvolutionalSelector(saliency, self.space).choose(self.sizes, config.per_size)
        else:
            chosen = IsomerSelector(saliency, config.normaliser).choose(self.sizes, config.per_size)
        (path / PREFERRED_FOLDER).mkdir(exist_ok=True)
        rows = []
        for number, own in enumerate(chosen, start=1):
            arch = own.architecture.to_json()
            write_json(path / PREFERRED_FOLDER / f"{number}.json", arch)
            row = PreferredSubnet(
                arch=arch["choices"],
                size=own.size,
                params=own.params,
                flops=own.flops,
                snip=own.snip,
                normalised=own.normalised,
            )
            rows.append(row.model_dump(mode="json"))
        write_json(path / PREFERRED_FILE, rows)
