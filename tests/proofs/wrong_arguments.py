"""Tries wrong arguments of all commands and options, which are taken from where they are declared.

    python tests/proofs/wrong_arguments.py [--only COMMAND,...] [--every N]

Each must end with one line on stderr and the exit code 2, print nothing else and write nothing.
Values that would be right begin nothing: tasks are only asked for an estimate.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from annotated_types import Ge, Gt, Le, Lt

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.images import save_images
from helpers.tables import table
from pydantic.fields import FieldInfo

from autoprox import cli
from autoprox.cli.app import app
from autoprox.configurations.commands import ALL
from autoprox.declared_options import plain_type

NANO = ("--space", "autoformer-nano")
BASE: Mapping[str, tuple[str, ...]] = {
    "evolve": ("--benchmark", "mine.json"),
    "rank": ("--benchmark", "mine.json", "--proxies", "params"),
    "compare": ("snip", "dss"),
    "curve": ("--benchmark", "mine.json"),
    "suggest": ("--table", "suggested.json", *NANO, "--datasets", "few", "--proxy", "params"),
    "search": (*NANO, "--proxy", "snip"),
    "rediscover": ("snip",),
    "bench build": (*NANO, "--images", "few.npz", "--out", "t.json"),
    "supernet train": (*NANO, "--images", "few.npz"),
    "supernet eval": ("nothing",),
    "supernet extract": ("nothing", "--arch", "arch.json", "--out", "net.safetensors"),
    "prenas": (*NANO, "--sizes", "20K:60K:20K"),
    "s3": ("--space", "swin-nano", "--images", "few.npz", "--flops", ":40M"),
    "bench info": ("nano-bench",),
    "bench fetch": ("nano-bench",),
    "bench list": (),
    "export arch": ("arch.json",),
    "export proxy": ("snip",),
    "score": ("--proxy", "snip", "--model", "nothing"),
    "show": ("snip",),
    "report": ("nothing",),
    "resume": ("nothing",),
    "runs": (),
    "cache": (),
    "doctor": (),
}
LONG = "x" * 5000
NUMBERS = ("x", "", "nan", "1e400", "--")
TEXTS = ("", "\x1b[31mred\nline", LONG, "fifo", "(" * 300)
WRITTEN = ("", LONG, "file/below", "fifo/below")  # for what is written, nearly any name is right
OUT = ("--runs", "--out", "--cache")
BENCHMARKED = ("evolve", "rank", "compare", "curve", "search")  # which need the folder to be there
NAME = ("", "a/b", "-x", "x" * 81, "\x1b[31m", "..")


def main() -> int:
    """Try all of them, and print those that end otherwise."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--every", type=int, default=1)
    given = parser.parse_args()
    only = [name for name in given.only.split(",") if name]
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        os.chdir(folder)
        os.environ["XDG_CACHE_HOME"] = f"{folder}/.cache"
        tried = faults = 0
        for arguments in list(wrong(only))[:: given.every]:
            tried += 1
            if fault := wrongly_told(arguments):
                faults += 1
                print(f"{short(arguments)}: {fault}", flush=True)
    print(f"{tried} tried, {faults} faults")
    return int(faults > 0)


def prepare(folder: Path) -> None:
    """What the commands read."""
    save_images(folder / "few.npz", count=40)
    (folder / "mine.json").write_text(json.dumps(table()))
    (folder / "file").write_text("x")
    choices = {"hidden_dim": 16, "depth": 1, "mlp_ratio": [1.0], "num_heads": [2]}
    (folder / "arch.json").write_text(json.dumps({"space": NANO[1], "choices": choices}))
    os.mkfifo(folder / "fifo")


def short(arguments: Sequence[str]) -> str:
    """The arguments, as they fit on a line."""
    return " ".join(repr(word)[1:-1][:40] for word in arguments)


def wrong(only: Sequence[str] = ()) -> Iterator[list[str]]:
    """The arguments to try: of every option of every command each wrong value, and other words."""
    for name, command in commands(typer.main.get_command(app)):
        if only and name not in only:
            continue
        words, base = name.split(), BASE[name]
        yield [*words, *base, "--nonsense"]
        yield [*words, *base, "one", "more", "word"]
        dry = ["--dry-run"] if any("--dry-run" in p.opts for p in command.params) else []
        for parameter in command.params:
            if parameter.param_type_name == "argument":
                yield from ([*words, *dry, value] for value in TEXTS)
            elif not getattr(parameter, "is_flag", False):
                option = parameter.opts[0]
                for value in values(name, option):
                    yield [*words, *without(base, option), f"{option}={value}", *dry]


def commands(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """All commands below one, by their names."""
    below = getattr(command, "commands", None)
    if below is None:
        yield name, command
    for own, other in (below or {}).items():
        yield from commands(other, f"{name} {own}".strip())


def values(command: str, option: str) -> Iterator[str]:
    """Wrong values of an option, those just beyond its declared limits among them."""
    field = declared(command, option)
    kind, limits = plain_type(field) if field else (str, [])
    if option == "--name":
        yield from NAME
    elif option in OUT:
        yield from WRITTEN
    elif option == "--data-dir" and command not in BENCHMARKED:
        yield from WRITTEN[1:]
    elif kind not in (int, float):
        yield from TEXTS
    else:
        yield from NUMBERS
        yield from ("9" * 30 for _ in [kind] if kind is int)
        for limit in limits:
            if isinstance(limit, Ge | Le):
                bound: Any = limit.ge if isinstance(limit, Ge) else limit.le
                yield str(bound - 1 if isinstance(limit, Ge) else bound + 1)
            elif isinstance(limit, Gt | Lt):
                yield str(limit.gt if isinstance(limit, Gt) else limit.lt)


def declared(command: str, option: str) -> FieldInfo | None:
    """What is declared of an option that is a part of a configuration."""
    kind = command.replace("bench ", "").replace(" ", "-")
    described = (own for config in ALL if config.kind == kind for own in config.described())
    fields = {name: field for name, field, _ in described}
    return fields.get(option.strip("-").replace("-", "_"))


def without(base: Sequence[str], option: str) -> list[str]:
    """The arguments but for an option."""
    place = base.index(option) if option in base else len(base)
    return [*base[:place], *base[place + 2 :]]


def wrongly_told(arguments: Sequence[str]) -> str | None:
    """What is wrong with how a command ends; None where it is as it should be."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2)]
    before = set(Path().glob("[!.]*"))
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        try:
            cli.main(arguments)
        except SystemExit as end:
            code = end.code or 0
    for stream in streams:
        stream.flush()
        stream.seek(0)
    out, err = (stream.read() for stream in streams)
    one_line = err.startswith("error: ") and err.count("\n") == 1 and "--debug" not in err
    written = set(Path().glob("[!.]*")) - before
    if code == 2 and one_line and not out and not written:
        return None
    return f"{code}, {err[-200:]!r}, {out[-100:]!r}, {written or ''}"


if __name__ == "__main__":
    sys.exit(main())
