"""The command `s3`: search a search space, and then the best network of the last space.

The run's folder has one folder for each round, with the space, the supernet's weights, the errors
of random architectures and the changes of the options.
"""

import random
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from pydantic import Field

from autoprox.commands.supernet import batch_shortfall, read_images_and_recipe
from autoprox.commands.task_interface import CommandTask
from autoprox.configurations.shared_options import completed
from autoprox.configurations.supernets import S3Config
from autoprox.errors import ConfigError
from autoprox.files.atomic_writes import write_json
from autoprox.files.human_readable_sizes import parse_range
from autoprox.files.json_documents import JSONDocument
from autoprox.oneshot.s3.space_evolution import (
    evolve_space,
    option_qualities,
    shift_all_options,
    space_quality,
)
from autoprox.oneshot.s3.subnet_search import SubnetEvaluator, SubnetSearchSettings, search_subnets
from autoprox.oneshot.supernet.inherited_accuracy import held_out_shortfalls
from autoprox.oneshot.supernet.shared_weights import CHECKPOINT_FILE, read_supernet
from autoprox.oneshot.supernet.training import SupernetPlan, run_distributed, train_to_checkpoint
from autoprox.progress import Note, Progress
from autoprox.runs.folder import Run
from autoprox.runs.summary import ArchitectureDocument, Summary
from autoprox.searchspaces import SPACES, Architecture, SearchSpace, get_space
from autoprox.searchspaces.architecture_sampler import ArchitectureSampler
from autoprox.searchspaces.size_limits import LimitsError, SizeLimits
from autoprox.searchspaces.swin import SwinSpace
from autoprox.shortfalls import Shortfall, unmet
from autoprox.statistics.collector import resolve_device

SPACE, ERRORS, EVOLUTION, SEARCHED = "space.json", "errors.jsonl", "evolution.json", "search.jsonl"
BEST_FILE = "best.json"
FieldOptions = dict[str, tuple[int | float, ...]]  # by field of the space


class S3Round(JSONDocument):
    """A round of S3: the errors of the space, in percent, and its options."""

    error: float
    expected: float
    top_tier: float
    architectures: int
    samples: Annotated[int, Field(description="The architectures that were asked for.")]
    options: FieldOptions
    options_measured: int
    dropped: FieldOptions


class BestS3Architecture(JSONDocument):
    """The best architecture that was found in the last space."""

    arch: ArchitectureDocument
    params: int
    flops: int
    accuracy: float
    asked: Annotated[int, Field(description="The evaluations that were asked for.")]
    evaluated: int
    generations: Annotated[
        tuple[int, ...], Field(description="The evaluations of each generation.")
    ]


class SpacePlots(JSONDocument):
    """The files of the plots, or why there are none."""

    options: str | None
    errors: str | None
    reason: str | None


class S3Summary(Summary):
    """The spaces of all rounds, and the best network of the last."""

    space: str
    dataset: str
    classes: int
    rounds: tuple[S3Round, ...]
    ended: str | None
    best: BestS3Architecture
    plots: SpacePlots
    seconds: float


class S3Task(CommandTask[S3Config, S3Summary]):
    """The search of a search space: train, measure and evolve it, then search its networks."""

    summary = S3Summary

    def __init__(self, config: S3Config) -> None:
        self.space = get_stepped_space(config.space)
        super().__init__(
            completed(config, space=self.space.name, device=resolve_device(config.device))
        )
        self.data, self.recipe = read_images_and_recipe(Path(config.images), self.space, config)
        names = SubnetSearchSettings.model_fields
        self.settings = SubnetSearchSettings(**{name: getattr(config, name) for name in names})
        self.sampler(self.space).require()

    @property
    def name(self) -> str:
        return f"s3-{self.config.space}-seed{self.config.seed}"

    @property
    def counts(self) -> list[Shortfall]:
        return [batch_shortfall(self.recipe, self.data)]

    def work(self, run: Run, progress: Progress) -> S3Summary:
        """Do all rounds, and search the last space; what is on the disk isn't done again.

        The rounds end before a space that has no network within the limits.
        """
        run.check_log()
        started, log = time.monotonic(), run.read_log()
        run.truncate_log(len(log))
        before = float(log[-1]["seconds"]) if log else 0.0

        def seconds() -> float:
            return round(before + time.monotonic() - started, 3)

        space, ended = self.space, None
        rounds, errors = list[S3Round](), list[list[float]]()
        dropped: FieldOptions = {}
        for number in range(self.config.rounds):
            folder = run.path / f"round{number}"
            folder.mkdir(exist_ok=True)
            write_json(folder / SPACE, space.options)
            self._train(space, folder, number, progress)
            found = self._measure(space, folder, number, progress)
            errors.append(list(found.values()))
            measured = space_quality(errors[-1], self.config.top_tier).to_json()
            by_option = option_qualities(space, found, self.config.top_tier)
            rounds.append(
                S3Round.model_validate(
                    {
                        **measured,
                        "samples": self.config.samples,
                        "options": space.options,
                        "options_measured": sum(map(len, by_option.values())),
                        "dropped": dropped,
                    }
                )
            )
            if number >= len(log):
                run.log({"round": number, **measured, "seconds": seconds()})
            if number + 1 < self.config.rounds:
                steps = shift_all_options(space, by_option, self.config.threshold)
                write_json(folder / EVOLUTION, {name: own.to_json() for name, own in steps.items()})
                dropped = {name: own.dropped for name, own in steps.items() if own.dropped}
                following = evolve_space(space, steps)
                try:
                    self.sampler(following).require()
                except LimitsError as error:
                    ended = str(error)
                    break
                space = following
        best = self._search(space, folder, progress)
        write_json(run.path / BEST_FILE, best.arch.model_dump(mode="json"))
        return S3Summary(
            space=self.space.name,
            dataset=self.data.name,
            classes=self.data.classes,
            rounds=tuple(rounds),
            ended=ended,
            best=best,
            shortfalls=unmet(self._found(rounds, best)),
            plots=draw_space_plots(run.path, rounds, errors),
            seconds=seconds(),
        )

    def _train(self, space: SwinSpace, folder: Path, number: int, progress: Progress) -> None:
        config, epochs = self.config, self.recipe.epochs
        images = Path(config.images).absolute()
        plan = SupernetPlan(space, images, self.recipe, "sandwich", (), config.seed)

        def report(epoch: int, loss: float) -> None:
            note = Note(f"loss {loss:.4f}", value=loss, of="loss")
            progress(f"train space {number}", epoch, epochs, note)

        device, file = str(config.device), folder / CHECKPOINT_FILE
        run_distributed(config.processes, device, folder, report, train_to_checkpoint, plan, file)

    def _measure(
        self, space: SwinSpace, folder: Path, number: int, progress: Progress
    ) -> dict[Architecture, float]:
        """Return the errors of random architectures within the limits."""
        rng = random.Random(f"{self.config.seed} {number}")
        different = self.sampler(space).sample(self.config.samples, rng)
        task = f"measure space {number}"
        evaluations = self._evaluations(space, folder, ERRORS, task, len(different), progress)
        return dict(zip(different, evaluations.errors(different), strict=True))

    def _search(self, space: SwinSpace, folder: Path, progress: Progress) -> BestS3Architecture:
        """Search the best architecture of the last space within the limits."""
        sampler, total = self.sampler(space), self.config.population * (self.config.generations + 1)
        evaluations = self._evaluations(space, folder, SEARCHED, "search", total, progress)
        generations = list[int]()

        def evaluate(members: Sequence[Architecture]) -> Sequence[float]:
            generations.append(len(members))
            return evaluations.errors(members)

        rng = random.Random(f"{self.config.seed} search")
        found = search_subnets(sampler, evaluate, self.settings, rng)
        best = min(found, key=found.__getitem__)
        return BestS3Architecture(
            arch=ArchitectureDocument(**best.to_json()),
            **sampler.limits.sizes(best)._asdict(),
            accuracy=round(100 - found[best], 4),
            asked=total,
            evaluated=len(found),
            generations=tuple(generations),
        )

    def _found(self, rounds: Sequence[S3Round], best: BestS3Architecture) -> Iterator[Shortfall]:
        """Compare what the rounds and the search did with what was asked for."""
        config = self.config
        yield Shortfall("rounds", config.rounds, len(rounds), "had a space within the limits")
        for number, own in enumerate(rounds):
            of = f"of space {number}"
            measured, options = own.architectures, sum(map(len, own.options.values()))
            reason = "different ones were found"
            yield Shortfall(f"samples {of}", config.samples, measured, reason)
            reason = "have a network that was measured"
            yield Shortfall(f"options {of}", options, own.options_measured, reason)
            top = min(config.top_tier, measured)
            yield Shortfall(f"top-tier {of}", config.top_tier, top, "architectures were measured")
        of, reason = "population in each generation", "architectures were found and evaluated"
        yield Shortfall(f"search, {of}", best.asked, best.evaluated, f"different {reason}")
        first = min(config.parents, best.generations[0])
        reason = "were evaluated before the first children"
        yield Shortfall("parents", config.parents, first, reason)
        yield from held_out_shortfalls(self.data, config.limit)
        yield from self.recipe.counts(self.data)

    def _evaluations(
        self, space: SwinSpace, folder: Path, file: str, task: str, total: int, progress: Progress
    ) -> SubnetEvaluator:
        supernet, limit = read_supernet(folder / CHECKPOINT_FILE, space), self.config.limit
        return SubnetEvaluator(
            supernet, self.data, folder / file, limit, self.pool, task, total, progress
        )

    def sampler(self, space: SearchSpace) -> ArchitectureSampler:
        """Return a sampler of the networks of a space that are within the limits."""
        config = self.config
        params, flops = parse_range("params", config.params), parse_range("flops", config.flops)
        return ArchitectureSampler(SizeLimits(space, self.data.classes, params, flops))


def get_stepped_space(name: str) -> SwinSpace:
    """Return the space of this name, whose options must move by steps."""
    space = get_space(name)
    if not isinstance(space, SwinSpace):
        names = ", ".join(name for name, other in SPACES.items() if isinstance(other, SwinSpace))
        rule = "the search of the search space needs a space whose options move by steps"
        raise ConfigError(f"{rule}, which {space.name} is not; choose from {names}")
    return space


def draw_space_plots(
    folder: Path, rounds: Sequence[S3Round], errors: Sequence[Sequence[float]]
) -> SpacePlots:
    """Plot the options over the rounds and the distributions of errors, if matplotlib is there."""
    if find_spec("matplotlib") is None:
        reason = "plots need matplotlib: pip install 'autoprox[plots]'"
        return SpacePlots(options=None, errors=None, reason=reason)
    plots = import_module("autoprox.commands.s3_space_plots")  # matplotlib is optional
    options_file, errors_file = folder / "options.png", folder / "errors.png"
    plots.plot_option_evolution([own.options for own in rounds], options_file)
    plots.plot_error_distributions(errors, errors_file)
    return SpacePlots(options=str(options_file), errors=str(errors_file), reason=None)
