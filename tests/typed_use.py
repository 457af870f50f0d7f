"""How the Python functions look to mypy from outside: checked by `make types`, never run."""

from pathlib import Path

import autoprox

found = autoprox.evolve(space="pit", datasets=["cifar100"], seed=1, iterations=50, name="mine")
formula: str = found.expression
depth: int = found.proxy.depth
rows: list[dict[str, object]] = autoprox.rank(proxies=["snip", "params"], progress=False).rows()
best: dict[str, object] = autoprox.search(space="pit", proxy=Path("runs/x"), params="5M:7M").best
success: bool = autoprox.rediscover(proxy="snip", seconds=60).success
file: Path = autoprox.bench_build(space="pit", images=[Path("photos")], out="mine.json").file
again: Path = autoprox.resume("runs/x", workers=1).path
tau: float | None = found.test["cifar10"].kendall
islands: int = len(found.summary.folds[0].islands)
ranked: float | None = autoprox.rank(proxies=["snip"]).summary.rows[0].near_size_tau
between: float | None = autoprox.compare(proxies=["runs/x", "runs/y"]).between["runs/x"]["runs/y"]
loaded: str = autoprox.load_run("runs/x").kind

autoprox.evolve(spac="pit")  # type: ignore[call-arg]
autoprox.evolve(seed="x")  # type: ignore[arg-type]
autoprox.search(space="pit")
autoprox.search(space="pit", proxy="snip", strategy="blockwise", population=20)
print(found.summary.fold)  # type: ignore[attr-defined]
print(found.best)  # type: ignore[attr-defined]
