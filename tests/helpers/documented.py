"""How each documented command and block is checked: all that tests replace, in one place.

A command is `run` with more options behind its own, so that it takes a second; or `dry`: run with
`--dry-run`, which checks all but the work. Commands on published data that isn't there are only
parsed: their options are read and checked.
"""

import re
from typing import Literal, NamedTuple

How = Literal["run", "dry", "make", "python", "untried"]


class Rule(NamedTuple):
    """How commands that begin so are checked."""

    beginning: str  # a regular expression
    how: How
    more: str = ""


MINE = "--benchmark my-vits.json"
SMALL = (
    f"{MINE} --name nano-bench --iterations 1 --population 4 --children 2 "
    "--statistics mlp.weight --batch-size 1 --zoo none"
)
FEW = "--iterations 1 --population 4 --children 2 --batch-size 1 --zoo none"
PUBLISHED = "cifar100,flowers|hw-gpt-bench|--spaces autoformer"
OF_PUBLISHED = Rule(rf"autoprox .*({PUBLISHED})", "dry", "--batch-size 1")
RULES = (
    OF_PUBLISHED,
    Rule(r"autoprox evolve .*--name budget", "run", FEW),
    Rule(r"autoprox evolve", "run", SMALL),
    Rule(r"autoprox rank", "run", f"{MINE} --seeds 1 --batch-size 1"),
    Rule(
        r"autoprox curve",
        "run",
        f"{MINE} --labels 0,5 --draws 2 --population 8 --zoo none --batch-size 1",
    ),
    Rule(r"autoprox compare", "run", "--batch-size 1"),
    Rule(r"autoprox (rediscover|prenas|s3)", "dry"),
    Rule(r"autoprox search .*--(strategy|weights|match-size)", "dry"),
    Rule(r"autoprox search", "run", "--samples 2 --batch-size 1"),
    Rule(r"autoprox suggest .*--add", "run"),
    Rule(r"autoprox suggest", "run", "--samples 6 --batch-size 1"),
    Rule(r"autoprox supernet train", "run", "--epochs 1 --batch-size 8"),
    Rule(r"autoprox supernet eval", "run", "--samples 10"),
    Rule(r"autoprox bench build .*--images", "run", "--samples 10 --seeds 1 --epochs 1"),
    Rule(r"autoprox bench build .*--text", "dry"),
    Rule(r"autoprox", "run"),
    Rule(r"make \w+$", "make"),
    Rule(r"python \S+\.py .*--images", "python", "--batch-size 2 --steps 1"),
    Rule(r"python \S+\.py", "python", "--batch-size 2"),
    Rule(r"source \.venv/bin/activate$", "untried"),  # bash's own
    Rule(
        r"pip install 'autoprox\[distributed\]'$|dask (scheduler|worker) ", "untried"
    ),  # dask's own
)
PYTHON = {  # what is replaced in Python blocks, and by what
    "seed=1": "seed=1, population=4, children=2, batch_size=1, zoo=['none'], "
    "statistics=['mlp.weight'], benchmark='my-vits.json'",
    '"cifar10"]': '"photos"]',
    "progress=False)\nprint(found": "progress=False, iterations=1)\nprint(found",
    "iterations=50, progress=False, iterations=1": "iterations=1, progress=False",
    '"50K:90K"': '"50K:90K", samples=2',
    'rank(proxies=["snip", "params"]': "rank(proxies=['snip', 'params'], batch_size=1, "
    "benchmark='my-vits.json'",
}
BEFORE = {  # what a page takes for done
    "compare.md": ["autoprox evolve"],
    "tutorial.md": ["autoprox evolve"],  # as `make evolve` does
}


def rule_of(command: str) -> Rule:
    """The rule of a command; one without is an error, so that none stays unchecked."""
    for rule in RULES:
        if re.match(rule.beginning, command):
            return rule
    raise LookupError(f"tests/helpers/documented.py must say how this is checked: {command}")
