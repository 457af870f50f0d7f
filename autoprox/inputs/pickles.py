"""Reads a pickle as data: nothing that it names is imported or called."""

import pickle
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

NUMPY_NAMES = frozenset(
    {("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode")}
    | {(f"numpy.{core}.multiarray", "_reconstruct") for core in ("core", "_core")}
    | {(f"numpy.{core}.numeric", "_frombuffer") for core in ("core", "_core")}
)


class Recorder:
    """Stands for whatever a pickle names: keeps the arguments and the state, and runs nothing."""

    def __init__(self, name: str, args: tuple[Any, ...] = ()) -> None:
        self.name, self.args = name, args
        self.state: Any = None

    def __call__(self, *args: Any) -> "Recorder":
        return Recorder(self.name, args)

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def array(self) -> NDArray[np.uint8]:
        """The array that numpy would have made; `_frombuffer` is its form since pickle 5."""
        if self.name == "_frombuffer":
            raw, dtype, shape, order = self.args
        else:
            _, shape, dtype, fortran, raw = self.state
            order = "F" if fortran else "C"
        if dtype.args[0] not in ("u1", b"u1", "|u1"):
            raise ValueError(f"data of type {dtype.args[0]!r} instead of bytes")
        if isinstance(raw, Recorder):  # pickle 2 has no bytes: _codecs.encode(text, "latin1")
            raw = raw.args[0].encode("latin1")
        return np.frombuffer(raw, dtype=np.uint8).reshape(shape, order=order)


class _DataUnpickler(pickle.Unpickler):
    """Reads containers, numbers and what numpy names in the pickle of an array; nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        """Refuse every other name."""
        if (module, name) not in NUMPY_NAMES:
            raise pickle.UnpicklingError(f"the name {module}.{name}, which is not data")
        return Recorder(name)


def load_data(file: IO[bytes]) -> Any:
    """The content of a pickle, with a Recorder for each array; any other name is an error.

    The strings of Python 2, in which CIFAR's pickles were written, are bytes. On a corrupt file the
    unpickler may raise anything.
    """
    return _DataUnpickler(file, encoding="bytes").load()
