"""The archive of a power law's evolution: every usable term, with its values on the networks."""

import base64
import zlib
from binascii import Error as Base64Error
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256

import numpy as np

from autoprox.evolution.power_law import LabelledNetworks, Logs, PowerLawFit
from autoprox.files.json_documents import JSONDocument
from autoprox.language import Tree, parse_expression
from autoprox.scoring.correlations import Floats, Indices

MAX_VALUES = 2**22  # float32 numbers: 16 MiB in memory and in the checkpoint
BAGS, BAG_SHARE = 12, 0.7  # random parts of the networks, and their share of all networks


class TermArchive:
    """Different usable terms and the logarithms of their magnitudes, [terms, rows] float32.

    Beyond its limit it drops the terms whose logarithms correlate least with the target.
    """

    def __init__(self, labelled: LabelledNetworks) -> None:
        self.labelled = labelled
        self.terms: list[Tree] = []
        self.logs = np.empty((0, len(labelled.truth)), dtype=np.float32)
        self._known: set[bytes] = set()

    def __len__(self) -> int:
        return len(self.terms)

    def add(self, terms: Sequence[Tree], logs: Floats) -> None:
        """Add terms with their logarithms, [terms, rows], except those that order alike."""
        values = logs.astype(np.float32)
        new = []
        for index, row in enumerate(values):
            key = _order(row)
            if key not in self._known:
                self._known.add(key)
                new.append(index)
        self.terms += [terms[index] for index in new]
        self.logs = np.concatenate([self.logs, values[new]])
        self._trim()

    def _trim(self) -> None:
        limit = most_terms(self.labelled)
        if len(self) <= limit:
            return
        fit = PowerLawFit(self.logs, self.labelled, np.arange(self.logs.shape[1]))
        strength = np.abs(fit.features @ self.labelled.target)
        kept = np.sort(np.argsort(-strength, kind="stable")[:limit])
        self.terms = [self.terms[index] for index in kept]
        self.logs = self.logs[kept]
        self._known = set(map(_order, self.logs))  # as if restored

    def selections(self, count: int, adjusted: bool, seed: int) -> list[tuple[Indices, list[int]]]:
        """Choose terms on random parts of the networks: the rows of each part, and the terms."""
        found = []
        for bag in random_parts(np.unique(self.labelled.network), seed):
            rows = self.labelled.rows_of(bag)
            fit = PowerLawFit(self.logs, self.labelled, rows, adjusted)
            found.append((rows, fit.forward_selection(count)))
        return found

    def most_chosen(self, count: int, adjusted: Sequence[bool], seed: int) -> list[Tree]:
        """Return the terms that parts of the networks choose, those chosen most often first."""
        chosen = Counter(
            index
            for own in adjusted
            for _, indices in self.selections(count, own, seed)
            for index in indices
        )
        return [self.terms[index] for index, _ in chosen.most_common()]


def random_parts(networks: Indices, seed: int) -> list[Indices]:
    """Draw several parts of some networks."""
    drawn = max(round(BAG_SHARE * len(networks)), 2)
    return [
        np.random.default_rng([seed, bag]).choice(networks, drawn, replace=False)
        for bag in range(BAGS)
    ]


class SavedArchive(JSONDocument):
    """An archive of a checkpoint."""

    terms: tuple[str, ...]
    logs: str  # zlib and base64 of little-endian float32 numbers

    @classmethod
    def of(cls, archive: TermArchive) -> "SavedArchive":
        """Save an archive."""
        packed = zlib.compress(archive.logs.astype("<f4").tobytes(), 1)
        return cls(terms=tuple(map(str, archive.terms)), logs=base64.b64encode(packed).decode())

    def restored(self, labelled: LabelledNetworks) -> TermArchive:
        """Return the archive of these networks."""
        rows = len(labelled.truth)
        if len(self.terms) > (limit := most_terms(labelled)):
            raise ValueError(f"terms must be at most {limit}, but are {len(self.terms)}")
        size = 4 * len(self.terms) * rows
        try:
            packed = base64.b64decode(self.logs, validate=True)
            data = zlib.decompressobj().decompress(packed, size + 1)
        except (Base64Error, zlib.error) as error:
            raise ValueError(f"logs must be zlib and base64: {error}") from None
        if len(data) != size:
            raise ValueError(f"logs must be of {len(self.terms)} terms on {rows} rows")
        logs = np.frombuffer(data, dtype="<f4").reshape(len(self.terms), rows)
        if not np.isfinite(logs).all():
            raise ValueError("logs must be finite")
        archive = TermArchive(labelled)
        archive.add(list(map(parse_expression, self.terms)), logs)
        if len(archive) != len(self.terms):
            raise ValueError("terms must order the networks differently")
        return archive


def most_terms(labelled: LabelledNetworks) -> int:
    """Return how many terms an archive of these networks holds."""
    return max(MAX_VALUES // len(labelled.truth), 1)


def _order(logs: Logs) -> bytes:
    """Return a digest that terms share if they order the rows alike."""
    return sha256(np.argsort(logs, kind="stable").astype(np.int32).tobytes()).digest()
