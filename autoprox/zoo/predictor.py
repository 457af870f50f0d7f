"""The predictor of a run: a Gaussian process whose prior mean is the score of an expression."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from autoprox.errors import AutoproxError, ConfigError, RunError
from autoprox.files.atomic_writes import to_json
from autoprox.runs.folder import digest_of
from autoprox.runs.predictor_file import PredictorFile
from autoprox.scoring.baselines import regression_features
from autoprox.scoring.correlations import Floats
from autoprox.scoring.expected_improvement import predicted_scores
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
            self._architectures = [space.architecture(own) for own in file.architectures]
        except AutoproxError as error:
            raise RunError(f"{name} must have architectures of a space, but {error}") from error

    def require_space(self, space: str) -> None:
        """Raise ConfigError unless the architectures to rank are of the predictor's space."""
        if space != self.found.space:
            rule = f"{self.name} ranks architectures of {self.found.space}"
            raise ConfigError(f"{rule}, but these are of {space}")

    @cached_property
    def _trained(self) -> Floats:
        """The features of the training networks."""
        return regression_features(KIND, get_space(self.found.space), self._architectures)

    def predict(
        self, architectures: Sequence[Architecture], dataset: str, scores: Floats
    ) -> Floats:
        """Predict the normal scores of architectures with these scores of the expression.

        Of a dataset without labels, it is the mean prediction over those that have them. A score
        that isn't finite counts as the mean of the training networks.
        """
        own = regression_features(KIND, get_space(self.found.space), architectures)
        features, logs = np.concatenate([self._trained, own]), _logs(scores)
        known = range(len(self._trained))
        labels = self._file.datasets
        chosen = [labels[dataset]] if dataset in labels else list(labels.values())
        found = []
        for each in chosen:
            filled = np.where(np.isfinite(logs), logs, np.mean(each.logs))
            proxy = np.concatenate([each.logs, filled])
            found.append(predicted_scores(features, proxy, known, each.truth)[len(known) :])
        return np.asarray(np.mean(found, axis=0))
