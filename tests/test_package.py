"""What is installed of the package: whole, and enough to work without its source."""

import importlib.util
import json
import os
import re
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = {"autoprox": "autoprox", "primitives": "autoprox/primitives"}
PACKAGES["searchspaces"] = "autoprox/searchspaces"
EVOLVE = "evolve --datasets fashion-mnist --population 4 --iterations 1 --zoo none --json --quiet"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as it is published, built from a copy of what git would have."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in (*PACKAGES, "pyproject.toml", "README.md", "LICENSE"):
        copied(ROOT / name, folder / "source" / name)
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--wheel-dir", folder)
    command = [sys.executable, "-m", "pip", "wheel", *options, folder / "source"]
    subprocess.run(list(map(str, command)), check=True)
    [made] = folder.glob("*.whl")
    return made


def copied(source: Path, target: Path) -> None:
    files = [source] if source.is_file() else sorted(source.rglob("*"))
    for file in files:
        if file.is_file() and "__pycache__" not in file.parts:
            place = target / file.relative_to(source) if source.is_dir() else target
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(file.read_bytes())


def test_the_wheel_has_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    wanted = {
        f"{place}/{path.relative_to(ROOT / folder).as_posix()}"
        for folder, place in PACKAGES.items()
        for kind in (
            "*.py",
            "py.typed",
            "data/nano-bench/*.json",
            "data/*.json",
            "data/*.txt",
            "templates/**/*.*",
        )
        for path in (ROOT / folder).rglob(kind)
    }
    assert names == wanted
    assert "autoprox/py.typed" in names
    assert "autoprox/data/nano-bench/pit-nano.json" in names


def test_it_evolves_without_the_source(wheel: Path, tmp_path: Path) -> None:
    """In an environment of its own, with what it needs from this one, but without this package."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    [place] = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    # Folders that are named so aren't searched for .pth files, as that of an editable install.
    needed = [path for path in sys.path if path.endswith("site-packages")]
    (place / "needed.pth").write_text("\n".join(needed))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place)
    program = "import autoprox, sys; from autoprox.cli import main; print(autoprox.__file__); "
    program += f"main({EVOLVE.split()!r})"
    done = subprocess.run(
        [tmp_path / "venv" / "bin" / "python", "-I", "-c", program],
        cwd=tmp_path,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    where, _, document = done.stdout.partition("\n")
    assert Path(where).is_relative_to(place)
    assert json.loads(document)["expression"]


def test_the_version_is_the_same_everywhere() -> None:
    declared = re.search('^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    cited = re.search("^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert declared is not None
    assert cited is not None
    assert declared[1] == cited[1] == version("autoprox")


def test_the_licences_are_those_of_what_is_needed() -> None:
    """Versions change from day to day; which packages there are is looked at."""
    spec = importlib.util.spec_from_file_location("licences", ROOT / "docs" / "make_licences.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = (ROOT / "docs" / "licences.md").read_text()
    listed = re.findall(r"^\| \*\*([a-z0-9-]+)\*\* \| \S+ \| (.+) \|$", text, re.MULTILINE)
    declared = (ROOT / "pyproject.toml").read_text().partition("dependencies = [")[2]
    direct = re.findall(r'^    "([a-z0-9-]+)', declared.partition("]\n\n")[0], re.MULTILINE)
    assert [name for name, _ in listed] == sorted(direct)
    assert "?" not in [licence for _, licence in listed]
    assert module.listing().count("| **") == len(direct)


def test_the_lowest_versions_are_those_declared() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tests" / "proofs" / "lowest.py"],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert not {"typer==0.12", "pydantic==2.7"} & {*lines}  # with which no command ran
    assert [line for line in lines if line.startswith("torch==")] == [
        line for line in (ROOT / "constraints.txt").read_text().splitlines() if "torch==" in line
    ]
