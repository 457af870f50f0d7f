"""Reads the arrays of foreign files in a process of its own, with little time and memory.

Their decoders can be made to crash, to run for ever or to fill the memory: then only that process
ends. It is this file, run as a script.
"""

import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SECONDS = 60
MEMORY = 2 * 2**30  # bytes, several times what CIFAR-100 takes


def read_arrays(kind: str, path: Path) -> dict[str, NDArray[np.generic]]:
    """The arrays that a file of this kind, `cifar` or `flowers`, holds."""
    command = [sys.executable, "-c", "from autoprox.inputs.child import main; main()"]
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # each takes address space
    try:
        done = subprocess.run(
            [*command, kind, str(path)],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=SECONDS,
            env={**os.environ, **threads, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
    except subprocess.TimeoutExpired:
        raise ValueError(f"content that takes more than {SECONDS} seconds to read") from None
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise ValueError(reason or f"content that ends its reader by signal {-done.returncode}")
    with np.load(io.BytesIO(done.stdout), allow_pickle=False) as archive:
        return dict(archive)


def main() -> None:
    """Write the arrays of a file to stdout."""
    kind, path = sys.argv[1:]
    _limit()
    arrays = {"cifar": _cifar, "flowers": _flowers}[kind](path)
    content = io.BytesIO()
    np.savez(content, **arrays)  # type: ignore[arg-type]
    sys.stdout.buffer.write(content.getbuffer())


def _cifar(path: str) -> dict[str, NDArray[np.generic]]:
    from autoprox.inputs.pickles import load_data

    with open(path, "rb") as file:
        content = load_data(file)
    return {"data": content[b"data"].array(), "labels": np.array(content[b"fine_labels"])}


def _flowers(path: str) -> dict[str, NDArray[np.generic]]:
    from scipy.io import loadmat  # for this alone

    return {"labels": loadmat(path)["labels"]}


def _limit() -> None:
    try:
        import resource  # which Windows doesn't have
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
