"""Searches a search space: from a configuration to the spaces of all rounds, and the best network.

The folder of a run has one for each round: the space, the supernet's weights, the errors of random
architectures, and how the options moved.
"""

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from autoprox.errors import ConfigError
from autoprox.files.atomic import write_json
from autoprox.files.sizes import read_range
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
from autoprox.searchspaces import SPACES, Architecture, SearchSpace, get_space
from autoprox.searchspaces.limits import LimitsError, SizeLimits
from autoprox.searchspaces.sampler import Sampler
from autoprox.searchspaces.swin import SwinSpace
from autoprox.shortfalls import Shortfall, shortfalls
from autoprox.statistics.collector import resolve_device
from autoprox.tasks.base import Task, completed
from autoprox.tasks.s3_configuration import S3Config
from autoprox.tasks.supernet_train import read_images, step_count

SPACE, ERRORS, EVOLUTION, SEARCHED = "space.json", "errors.jsonl", "evolution.json", "search.jsonl"
BEST = "best.json"
SANDWICH = "sandwich"


class S3(Task[S3Config]):
    """The space, the images, the limits, and how supernets are trained and searched."""

    def __init__(self, config: S3Config) -> None:
        self.space = evolving(config.space)
        device = resolve_device(config.device)
        super().__init__(completed(config, space=self.space.name, device=device))
        self.data, self.recipe = read_images(Path(config.images), self.space, config)
        names = SubnetSearchSettings.model_fields
        self.settings = SubnetSearchSettings(**{name: getattr(config, name) for name in names})
        self.sampler(self.space).require()

    @property
    def name(self) -> str:
        return f"s3-{self.config.space}-seed{self.config.seed}"

    @property
    def counts(self) -> list[Shortfall]:
        return [step_count(self.recipe, self.data)]

    def work(self, run: Run, progress: Progress) -> dict[str, Any]:
        """All rounds, and the search in the last space; what is on the disk isn't done again.

        Rounds end before a space that has no network within the limits.
        """
        run.check_log()
        started, log = time.monotonic(), run.read_log()
        run.truncate_log(len(log))
        before = float(log[-1]["seconds"]) if log else 0.0

        def seconds() -> float:
            return round(before + time.monotonic() - started, 3)

        space, rounds, errors = self.space, list[dict[str, Any]](), list[list[float]]()
        dropped: dict[str, tuple[float, ...]] = {}
        ended = None
        for number in range(self.config.rounds):
            folder = run.path / f"round{number}"
            folder.mkdir(exist_ok=True)
            write_json(folder / SPACE, space.options)
            self._train(space, folder, number, progress)
            found = self._measure(space, folder, number, progress)
            errors.append(list(found.values()))
            measured = space_quality(errors[-1], self.config.top).to_json()
            counts = self._asked_and_measured(space, found)
            rounds.append({**measured, **counts, "options": space.options, "dropped": dropped})
            if number >= len(log):
                run.log({"round": number, **measured, "seconds": seconds()})
            if number + 1 < self.config.rounds:
                following, dropped = self._evolved(space, found, folder)
                if ended := self._unreachable(following):
                    break
                space = following
        best = self._search(space, folder, progress)
        write_json(run.path / BEST, best["arch"])
        return {
            "space": self.space.name,
            "dataset": self.data.name,
            "classes": self.data.classes,
            "rounds": rounds,
            "ended": ended,
            "best": best,
            "shortfalls": shortfalls(self._counts(rounds, best)),
            "plots": plots(run.path, rounds, errors),
            "seconds": seconds(),
        }

    def _train(self, space: SwinSpace, folder: Path, number: int, progress: Progress) -> None:
        config = self.config
        images = Path(config.images).absolute()
        plan = SupernetPlan(space, images, self.recipe, SANDWICH, (), config.seed)

        def report(epoch: int, loss: float) -> None:
            task = f"train space {number}"
            note = Note(f"loss {loss:.4f}", value=loss, of="loss")
            progress(task, epoch, self.recipe.epochs, note)

        device, file = str(config.device), folder / CHECKPOINT_FILE
        run_distributed(config.processes, device, folder, report, train_to_checkpoint, plan, file)

    def _measure(
        self, space: SwinSpace, folder: Path, number: int, progress: Progress
    ) -> dict[Architecture, float]:
        """The errors of random architectures within the limits."""
        rng = random.Random(f"{self.config.seed} {number}")
        different = self.sampler(space).sample(self.config.samples, rng)
        task = f"measure space {number}"
        evaluations = self._evaluations(space, folder, ERRORS, task, len(different), progress)
        return dict(zip(different, evaluations.errors(different), strict=True))

    def _asked_and_measured(
        self, space: SwinSpace, errors: Mapping[Architecture, float]
    ) -> dict[str, int]:
        """Count the samples asked for, and the options of the networks whose errors are known."""
        found = option_qualities(space, errors, self.config.top)
        measured = sum(len(own) for own in found.values())
        return {"samples": self.config.samples, "options_measured": measured}

    def _evolved(
        self, space: SwinSpace, errors: Mapping[Architecture, float], folder: Path
    ) -> tuple[SwinSpace, dict[str, tuple[float, ...]]]:
        """The next space, and the options that it lacks because they were below the least."""
        found = shift_all_options(
            space, option_qualities(space, errors, self.config.top), self.config.tau
        )
        write_json(folder / EVOLUTION, {name: own.to_json() for name, own in found.items()})
        dropped = {name: own.dropped for name, own in found.items() if own.dropped}
        return evolve_space(space, found), dropped

    def _unreachable(self, space: SwinSpace) -> str | None:
        """Why a space has no network within the limits, if so."""
        try:
            self.sampler(space).require()
        except LimitsError as error:
            return str(error)
        return None

    def _search(self, space: SwinSpace, folder: Path, progress: Progress) -> dict[str, Any]:
        """The best architecture of the last space, within the limits."""
        config, sampler = self.config, self.sampler(space)
        total = self.settings.population * (self.settings.generations + 1)
        evaluations = self._evaluations(space, folder, SEARCHED, "search", total, progress)
        rng = random.Random(f"{config.seed} search")
        generations = list[int]()

        def evaluate(members: Sequence[Architecture]) -> Sequence[float]:
            generations.append(len(members))
            return evaluations.errors(members)

        found = search_subnets(sampler, evaluate, self.settings, rng)
        best = min(found, key=found.__getitem__)
        sizes = sampler.limits.sizes(best)._asdict()
        return {
            "arch": best.to_json(),
            **sizes,
            "accuracy": round(100 - found[best], 4),
            "asked": total,
            "evaluated": len(found),
            "generations": generations,
        }

    def _counts(
        self, rounds: Sequence[Mapping[str, Any]], best: Mapping[str, Any]
    ) -> Iterator[Shortfall]:
        """Compare what was asked for with what the rounds and the search have done."""
        config = self.config
        yield Shortfall("rounds", config.rounds, len(rounds), "had a space within the limits")
        for number, row in enumerate(rounds):
            measured = row["architectures"]
            where = f"of space {number}"
            yield Shortfall(
                f"samples {where}", config.samples, measured, "different ones were found"
            )
            options = sum(len(own) for own in row["options"].values())
            seen = row["options_measured"]
            yield Shortfall(f"options {where}", options, seen, "have a network that was measured")
            top = min(config.top, measured)
            yield Shortfall(f"top {where}", config.top, top, "architectures were measured")
        evaluated = best["evaluated"]
        yield Shortfall(
            "search, population in each generation",
            best["asked"],
            evaluated,
            "different architectures were found and evaluated",
        )
        first = min(config.parents, best["generations"][0])
        yield Shortfall(
            "parents", config.parents, first, "were evaluated before the first children"
        )
        yield from held_out_shortfalls(self.data, config.limit)
        yield from self.recipe.counts(self.data)

    def _evaluations(
        self,
        space: SwinSpace,
        folder: Path,
        file: str,
        task: str,
        total: int,
        progress: Progress,
    ) -> SubnetEvaluator:
        supernet = read_supernet(folder / CHECKPOINT_FILE, space)
        config = self.config
        return SubnetEvaluator(
            supernet, self.data, folder / file, config.limit, self.crew, task, total, progress
        )

    def sampler(self, space: SearchSpace) -> Sampler:
        """Return what draws networks of a space within the limits."""
        config = self.config
        params, flops = read_range("params", config.params), read_range("flops", config.flops)
        return Sampler(SizeLimits(space, self.data.classes, params, flops))


def evolving(name: str) -> SwinSpace:
    """The space of this name, which must be one whose options move by steps."""
    space = get_space(name)
    if not isinstance(space, SwinSpace):
        names = ", ".join(name for name, other in SPACES.items() if isinstance(other, SwinSpace))
        rule = "the search of the search space needs a space whose options move by steps"
        raise ConfigError(f"{rule}, which {space.name} is not; choose from {names}")
    return space


def plots(
    folder: Path, rounds: Sequence[Mapping[str, Any]], errors: Sequence[Sequence[float]]
) -> dict[str, str | None]:
    """Where the options over the rounds and the distributions of errors are drawn; or why not."""
    if find_spec("matplotlib") is None:
        reason = "plots need matplotlib: pip install 'autoprox[plots]'"
        return {"options": None, "errors": None, "reason": reason}
    drawing = import_module("autoprox.report.terminal.spaces")  # matplotlib is optional
    found = {"options": folder / "options.png", "errors": folder / "errors.png"}
    drawing.plot_options([own["options"] for own in rounds], found["options"])
    drawing.plot_errors(errors, found["errors"])
    return {name: str(file) for name, file in found.items()}
