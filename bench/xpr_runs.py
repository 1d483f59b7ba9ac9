"""Train what the tables of XPR compare, on a data set of bench/xpr_data.py; phrasemate evaluate xpr makes the tables.

    python bench/base_model.py .cache/multilingual-e5-small
    python bench/xpr_data.py .cache/xpr
    python bench/xpr_runs.py .cache/xpr .cache/xpr-runs --base .cache/multilingual-e5-small
    phrasemate evaluate xpr .cache/xpr-runs/rows.toml --data .cache/xpr

Each run is `phrasemate train xpr configs/xpr-small.toml` with the settings below and `phrasemate model export`; what is
there is not made again, so an interrupted series goes on. rows.toml then names every model that there is.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PHRASEMATE = Path(sys.executable).with_name("phrasemate")
CONFIG = ROOT / "configs" / "xpr-small.toml"
ABLATED = {  # of the first pair's supervised run
    "without examples": ["data.examples=0"],
    "without momentum": ["loss.targets=same"],
    "without momentum, targets stopped": ["loss.targets=stopped"],
    "without projection": ["model.projection=none"],
    "projection of token states": ["model.projection=tokens"],
    "projection in training only": ["model.keep_head=false"],
    "MoCo, queue of 1,024": ["loss.negatives=queue"],
    "XPCO and queue": ["loss.negatives=both"],
    "1 example in training": ["data.examples=1"],
    "4 examples in training": ["data.examples=4"],
}


class Run(NamedTuple):
    """A model's folder and the settings that make it."""

    name: str
    settings: list[str]


def runs(pairs: list[str], seeds: int, series: list[str]) -> Iterator[Run]:
    """Every run of the wanted series, the most telling first."""
    if "supervised" in series:
        yield from (_run(f"supervised-{p}-{s}", [p], s) for s in range(seeds) for p in pairs)
    if "multilingual" in series:
        yield from (_run(f"multilingual-{s}", pairs, s) for s in range(seeds))
    if "ablations" in series:
        for name, settings in ABLATED.items():
            yield from (_run(f"{_plain(name)}-{s}", pairs[:1], s, *settings) for s in range(seeds))


def _run(name: str, pairs: list[str], seed: int, *settings: str) -> Run:
    listed = ", ".join(f'"{pair}"' for pair in pairs)
    steps = ["loop.steps=240", "loop.evaluate=240", "data.dev=100"] if len(pairs) > 1 else []
    return Run(name, [f"data.pairs=[{listed}]", f"loop.seed={seed}", *steps, *settings])


def _plain(name: str) -> str:
    return name.replace(",", "").replace(" ", "-").lower()


def made(run: Run, args: argparse.Namespace) -> None:
    """Train and export, unless it is there."""
    model, folder = args.out / "models" / run.name, args.out / "runs" / run.name
    if model.exists():
        return
    changes = [f"model.base={args.base}", *args.set, *run.settings]
    options = [each for change in changes for each in ("--set", change)]
    states = ["--states", str(args.out / "states")]
    train = ["train", "xpr", str(CONFIG), "-o", str(folder), "--data", str(args.dataset), *states, *options]
    subprocess.run([PHRASEMATE, *train], check=True)
    subprocess.run([PHRASEMATE, "model", "export", str(folder / "model"), "-o", str(model)], check=True)
    shutil.rmtree(folder / "checkpoint", ignore_errors=True)


def rows(pairs: list[str], seeds: int, args: argparse.Namespace) -> Iterator[str]:
    """The tables, as far as their models are there."""
    every, others = list(range(seeds)), pairs[1:]
    yield _row("unsupervised", "XPR", "models/base", examples=8)
    yield _row("unsupervised", "CLSE (bare phrase)", "models/base", examples=0)
    if args.bundled:
        yield _row("unsupervised", "XPR, model trained by CCPR", "bundled", examples=8)
    if args.vectors:
        yield _row("unsupervised", "CLWE", vectors=f"{args.vectors}/unsupervised/{{pair}}/{{lang}}")
    yield _row("supervised", "XPR", "models/supervised-{pair}-{seed}", "head", 8, every)
    yield _row("supervised", "CLSE (bare phrase, mapped)", "models/base", examples=0, mapped=True)
    if args.vectors:
        yield _row("supervised", "CLWE", vectors=f"{args.vectors}/supervised/{{pair}}/{{lang}}", mapped=True)
    yield _row("zero-shot", "XPR", f"models/supervised-{pairs[0]}-{{seed}}", "head", 8, every, others)
    yield _row("zero-shot", "XPR, supervised", "models/supervised-{pair}-{seed}", "head", 8, every, others)
    yield _row("zero-shot", "CLSE (bare phrase)", "models/base", examples=0, pairs=others)
    yield _row("multilingual", "XPR", "models/multilingual-{seed}", "head", 8, every)
    yield _row("multilingual", "XPR, supervised", "models/supervised-{pair}-{seed}", "head", 8, every)
    yield _row("ablations", "XPR", f"models/supervised-{pairs[0]}-{{seed}}", "head", 8, every, pairs[:1])
    for name in ABLATED:
        pooling = "mean" if name in ("without projection", "projection in training only") else "head"
        count = 0 if name == "without examples" else 8
        yield _row("ablations", name, f"models/{_plain(name)}-{{seed}}", pooling, count, every, pairs[:1])
    for source in pairs:
        yield _row("matrix", f"trained on {source}", f"models/supervised-{source}-{{seed}}", "head", 8, every)
    yield _row("examples", "XPR", f"models/supervised-{pairs[0]}-{{seed}}", "head", "[0, 1, 2, 4, 8]", every, pairs[:1])
    yield _row("examples", "unsupervised", "models/base", "mean", "[0, 1, 2, 4, 8]", pairs=pairs[:1])


def _row(
    table: str,
    name: str,
    model: str = "",
    pooling: str = "mean",
    examples: int | str = 8,
    seeds: list[int] | None = None,
    pairs: list[str] | None = None,
    **more: str | bool,
) -> str:
    lines = [f'table = "{table}"', f'name = "{name}"', f'pooling = "{pooling}"', f"examples = {examples}"]
    lines += [f'model = "{model}"'] if model else []
    lines += [f"seeds = {seeds}"] if seeds else []
    lines += ["pairs = [" + ", ".join(f'"{pair}"' for pair in pairs) + "]"] if pairs else []
    lines += [f"{key} = {str(value).lower() if value is True else repr(value)}" for key, value in more.items()]
    return "\n".join(["[[row]]", *lines])


def main() -> None:
    """Train, export, write rows.toml."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("dataset", type=Path)
    options.add_argument("out", type=Path)
    options.add_argument("--base", type=Path, required=True)
    options.add_argument("--pairs", default="de-en,fr-en,es-en,cs-en,ru-en,ja-en,zh-en,ko-en")
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--series", default="supervised,multilingual,ablations")
    options.add_argument("--vectors", help="folder of word vectors for CLWE, relative to OUT")
    options.add_argument("--bundled", action=argparse.BooleanOptionalAction, default=True)
    options.add_argument("--set", action="append", default=[], help="another setting than the file's, for all runs")
    args = options.parse_args()
    pairs = args.pairs.split(",")
    args.base, args.out = args.base.resolve(), args.out.resolve()
    (args.out / "models").mkdir(parents=True, exist_ok=True)
    base = args.out / "models" / "base"
    if not base.exists():
        subprocess.run([PHRASEMATE, "model", "export", str(args.base), "-o", str(base)], check=True)
    for run in runs(pairs, args.seeds, args.series.split(",")):
        made(run, args)
    (args.out / "rows.toml").write_text("\n\n".join(rows(pairs, args.seeds, args)) + "\n", encoding="utf-8")
    print(f"{args.out / 'rows.toml'}: next, phrasemate evaluate xpr")


if __name__ == "__main__":
    main()
