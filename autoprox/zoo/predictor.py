"""The predictor of a run: a Gaussian process on choices and on the scores of an expression."""

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from autoprox.errors import AutoproxError, ConfigError, RunError
from autoprox.files.atomic_writes import to_json
from autoprox.runs.folder import digest_of
from autoprox.runs.predictor_file import PredictorFile
from autoprox.scoring.baselines import GaussianProcess, regression_features
from autoprox.scoring.correlations import Floats
from autoprox.searchspaces import Architecture, get_space

KIND = "gaussian-process"


def training_logs(scores: Floats) -> Floats:
    """Return the logarithms of magnitudes; those that aren't finite have the mean of the others."""
    logs = _logs(scores)
    known = np.isfinite(logs)
    return np.where(known, logs, logs[known].mean() if known.any() else 0.0)


def _logs(scores: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(np.abs(scores)))


class Predictor:
    """Ranks the architectures of one space as the labels of the training networks suggest."""

    def __init__(self, file: PredictorFile, name: str = "a predictor") -> None:
        self.name, self.tree, self.found = name, file.tree, file.found
        self.digest = digest_of(to_json(file.model_dump(mode="json")))
        self._file = file
        try:
            space = get_space(self.found.space)
            self._trained = [space.architecture(own) for own in file.architectures]
        except AutoproxError as error:
            raise RunError(f"{name} must have architectures of a space, but {error}") from error

    def require_space(self, space: str) -> None:
        """Raise ConfigError unless the architectures to rank are of the predictor's space."""
        if space != self.found.space:
            rule = f"{self.name} ranks architectures of {self.found.space}"
            raise ConfigError(f"{rule}, but these are of {space}")

    @cached_property
    def _processes(self) -> Mapping[str, GaussianProcess]:
        """The process of each dataset, fitted when the first architecture is to be ranked."""
        features = regression_features(KIND, get_space(self.found.space), self._trained)
        return {
            dataset: GaussianProcess(np.column_stack([features, own.logs]), own.truth)
            for dataset, own in self._file.datasets.items()
        }

    def predict(
        self, architectures: Sequence[Architecture], dataset: str, scores: Floats
    ) -> Floats:
        """Predict the ranks of architectures with these scores of the expression.

        Of a dataset without labels, it is the mean prediction over those that have them. A score
        that isn't finite counts as the mean of the training networks.
        """
        space, processes = get_space(self.found.space), self._processes
        features = regression_features(KIND, space, architectures)
        logs = _logs(scores)
        chosen = [dataset] if dataset in processes else list(processes)
        found = []
        for name in chosen:
            mean = np.mean(self._file.datasets[name].logs)
            own = np.where(np.isfinite(logs), logs, mean)
            found.append(processes[name].predict(np.column_stack([features, own])).mean)
        return np.asarray(np.mean(found, axis=0))
