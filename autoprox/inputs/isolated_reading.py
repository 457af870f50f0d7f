"""Reads the arrays of untrusted files in a separate process, with little time and memory.

Their decoders can be made to crash, to run for ever or to fill the memory: then only that process
ends. A pickle is read as data: nothing that it names is imported or called.
"""

import io
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

READER_SECONDS = 60
READER_MEMORY = 2 * 2**30  # bytes, several times what CIFAR-100 takes
NUMPY_NAMES = frozenset(
    {("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode")}
    | {(f"numpy.{core}.multiarray", "_reconstruct") for core in ("core", "_core")}
    | {(f"numpy.{core}.numeric", "_frombuffer") for core in ("core", "_core")}
)


def read_arrays(kind: str, path: Path) -> dict[str, NDArray[np.generic]]:
    """Read the arrays of a file of this kind, `cifar` or `flowers`."""
    program = "from autoprox.inputs.isolated_reading import write_arrays; write_arrays()"
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # each takes address space
    try:
        done = subprocess.run(
            [sys.executable, "-c", program, kind, str(path)],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=READER_SECONDS,
            env={**os.environ, **threads, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
    except subprocess.TimeoutExpired:
        raise ValueError(f"content that takes more than {READER_SECONDS} seconds to read") from None
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise ValueError(reason or f"content that ends its reader by signal {-done.returncode}")
    with np.load(io.BytesIO(done.stdout), allow_pickle=False) as archive:
        return dict(archive)


def write_arrays() -> None:
    """Write the arrays of a file to stdout, in the separate process."""
    kind, path = sys.argv[1:]
    try:
        import resource  # which Windows doesn't have
    except ImportError:
        pass
    else:
        resource.setrlimit(resource.RLIMIT_AS, (READER_MEMORY, READER_MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (READER_SECONDS, READER_SECONDS))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    arrays: dict[str, NDArray[Any]]
    if kind == "cifar":
        with open(path, "rb") as file:
            data = load_array_pickle(file)
        arrays = {"data": data[b"data"].array(), "labels": np.array(data[b"fine_labels"])}
    else:
        from scipy.io import loadmat  # for this alone

        arrays = {"labels": loadmat(path)["labels"]}
    content = io.BytesIO()
    np.savez(content, **arrays)  # type: ignore[arg-type]
    sys.stdout.buffer.write(content.getbuffer())


class PickledCall:
    """A call that a pickle asks for: its arguments and state are kept, and nothing is run."""

    def __init__(self, name: str, args: tuple[Any, ...] = ()) -> None:
        self.name, self.args = name, args
        self.state: Any = None

    def __call__(self, *args: Any) -> "PickledCall":
        return PickledCall(self.name, args)

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def array(self) -> NDArray[np.uint8]:
        """Make the array that numpy would have made, by `_frombuffer` since pickle 5."""
        if self.name == "_frombuffer":
            raw, dtype, shape, order = self.args
        else:
            _, shape, dtype, fortran, raw = self.state
            order = "F" if fortran else "C"
        if dtype.args[0] not in ("u1", b"u1", "|u1"):
            raise ValueError(f"data of type {dtype.args[0]!r} instead of bytes")
        if isinstance(raw, PickledCall):  # pickle 2 has no bytes: _codecs.encode(text, "latin1")
            raw = raw.args[0].encode("latin1")
        return np.frombuffer(raw, dtype=np.uint8).reshape(shape, order=order)


class _DataUnpickler(pickle.Unpickler):
    """Reads containers, numbers and what numpy names in the pickle of an array; nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in NUMPY_NAMES:
            raise pickle.UnpicklingError(f"the name {module}.{name}, which is not data")
        return PickledCall(name)


def load_array_pickle(file: IO[bytes]) -> Any:
    """Read a pickle with a PickledCall for each array; any other name is an error.

    The strings of Python 2, in which CIFAR's pickles were written, are bytes. On a corrupt file the
    unpickler may raise anything.
    """
    return _DataUnpickler(file, encoding="bytes").load()
