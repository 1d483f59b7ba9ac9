"""Train what the tables of XPR compare, on a data set of bench/xpr_data.py; phrasemate evaluate xpr makes the tables.

    python bench/base_model.py .cache/multilingual-e5-small
    python bench/xpr_data.py .cache/xpr
    python bench/xpr_runs.py .cache/xpr .cache/xpr-runs --base .cache/multilingual-e5-small
    phrasemate evaluate xpr .cache/xpr-runs/rows.toml --data .cache/xpr
    phrasemate evaluate xpr .cache/xpr-runs/rows.toml --data .cache/xpr --only thousand --split dev+test --most 1000

The bundled model has been trained on some of the phrase pairs. Where it or what began with it is compared (tables ccpr
and thousand), `python bench/training_data.py .cache/ccpr --most 0` writes them and `--without` leaves them out.

Each run is `phrasemate train xpr xpr-small` with the settings below and `phrasemate model export`; what is
there is not made again, so an interrupted series goes on. rows.toml then names every model that there is.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PHRASEMATE = Path(sys.executable).with_name("phrasemate")
LAYERS = [6, 7, 8, 9, 10, 11, 12]  # of the base
CONFIG = ROOT / "src" / "phrasemate" / "configs" / "xpr-small.toml"
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


UNSEEN = ("de-en", "cs-en", "ja-en")  # most of the bundled model's term lists in these it was not trained on
FULL = [  # what helped, together, and for longer
    "loss.negatives=queue",
    "data.examples=4",
    "data.pool=8",
    "loop.steps=160",
    "loop.evaluate=160",
]


class Run(NamedTuple):
    """A model's folder and the settings that make it."""

    name: str
    settings: list[str]


def runs(pairs: list[str], seeds: int, series: list[str], ccpr: Path | None) -> Iterator[Run]:
    """Every run of the wanted series, the most telling first."""
    if "supervised" in series:
        yield from (_run(f"supervised-{p}-{s}", [p], s) for s in range(seeds) for p in pairs)
    if "ccpr" in series:
        yield from (_run(f"ccpr-{p}-{s}", [p], s, f"model.base={ccpr}") for s in range(seeds) for p in pairs)
    if "full" in series:
        yield from (_run(f"full-{p}-{s}", [p], s, f"model.base={ccpr}", *FULL) for s in range(seeds) for p in pairs[:2])
    if "multilingual" in series:
        yield from (_run(f"multilingual-{s}", pairs, s) for s in range(seeds))
    if "ablations" in series:
        for name, settings in ABLATED.items():
            yield from (_run(f"{_plain(name)}-{s}", pairs[:1], s, *settings) for s in range(seeds))


def _run(name: str, pairs: list[str], seed: int, *settings: str) -> Run:
    listed = ", ".join(f'"{pair}"' for pair in pairs)
    steps = ["loop.steps=480", "loop.evaluate=480", "data.dev=100"] if len(pairs) > 1 else []
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
    every, others, first = list(range(seeds)), pairs[1:], pairs[:1]
    other = f"models/supervised-{pairs[1]}-{{seed}}"
    own, transferred = "models/supervised-{pair}-{seed}", f"models/supervised-{pairs[0]}-{{seed}}"

    def row(table: str, name: str, model: str = "", pooling: str = "mean", **more: Any) -> Iterator[str]:
        values = {"table": table, "name": name, "pooling": pooling, "examples": 8, "pairs": pairs, **more}
        values |= {"model": model} if model else {}
        if "{seed}" in model:
            values |= _there(args.out, model, values.get("seeds", every), values["pairs"])
        if values["pairs"] and values.get("seeds", [0]):
            yield "\n".join(["[[row]]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())])

    yield from row("unsupervised", "XPR", "models/base")
    yield from row("unsupervised", "CLSE (bare phrase)", "models/base", examples=0)
    yield from row("supervised", "XPR", own, "head")
    yield from row("supervised", "CLSE (bare phrase, mapped)", "models/base", examples=0, mapped=True)
    yield from row("supervised", "XPR, untrained", "models/base")
    yield from row("zero-shot", "XPR", transferred, "head", pairs=others)
    yield from row("zero-shot", "XPR, supervised", own, "head", pairs=others)
    yield from row("zero-shot", "CLSE (bare phrase)", "models/base", examples=0, pairs=others)
    yield from row("multilingual", "XPR", "models/multilingual-{seed}", "head")
    yield from row("multilingual", "XPR, supervised", own, "head")
    yield from row("multilingual", "CLSE (bare phrase, mapped)", "models/base", examples=0, mapped=True)
    if args.vectors:
        words = {setting: f"{args.vectors}/{setting}/{{pair}}/{{lang}}" for setting in ("unsupervised", "supervised")}
        yield from row("unsupervised", "CLWE", vectors=words["unsupervised"])
        yield from row("supervised", "CLWE (mapped)", vectors=words["supervised"], mapped=True)
        yield from row("zero-shot", "CLWE", vectors=words["unsupervised"], pairs=others)
        yield from row("multilingual", "CLWE (mapped)", vectors=words["supervised"], mapped=True)
    yield from row("ablations", "XPR", transferred, "head", pairs=first)
    for name in ABLATED:
        pooling = "mean" if name in ("without projection", "projection in training only") else "head"
        count = 0 if name == "without examples" else 8
        yield from row("ablations", name, f"models/{_plain(name)}-{{seed}}", pooling, examples=count, pairs=first)
    unseen = [pair for pair in pairs if pair in UNSEEN]
    yield from row("ccpr", "XPR, supervised", own, "head", pairs=unseen)
    yield from row("ccpr", "XPR, untrained", "models/base", pairs=unseen)
    yield from row("ccpr", "CCPR model, mean", "bundled", pairs=unseen)
    yield from row("ccpr", "CCPR model, mean+head", "bundled", "mean+head", pairs=unseen)
    yield from row("ccpr", "CCPR model, mean+head, bare .5", "bundled", "mean+head", pairs=unseen, bare=0.5)
    yield from row("ccpr", "begun with it", "models/ccpr-{pair}-{seed}", "head", pairs=unseen)
    yield from row("ccpr", "begun with it, all that helped", "models/full-{pair}-{seed}", "head", pairs=unseen)
    for source in pairs:
        yield from row("matrix", f"trained on {source}", f"models/supervised-{source}-{{seed}}", "head", seeds=[0])
    yield from row("examples", "XPR", transferred, "head", examples=[0, 1, 2, 4, 8], pairs=first)
    yield from row("examples", "untrained", "models/base", examples=[0, 1, 2, 4, 8], pairs=first)
    for near, added in ((0, ""), (2, ", CSLS 2"), (4, ", CSLS 4"), (10, ", CSLS 10")):
        more = {"pairs": first, "csls": near}
        yield from row("thousand", f"XPR, all that helped{added}", "models/full-{pair}-{seed}", "head", **more)
        full = f"models/full-{pairs[1]}-{{seed}}"
        yield from row("thousand", f"XPR, all that helped, trained on {pairs[1]}{added}", full, "head", **more)
        yield from row("thousand", f"XPR{added}", own, "head", **more)
        yield from row(
            "thousand", f"XPR, begun with the CCPR model{added}", "models/ccpr-{pair}-{seed}", "head", **more
        )
        yield from row("thousand", f"XPR, multilingual{added}", "models/multilingual-{seed}", "head", **more)
        yield from row("thousand", f"XPR, trained on {pairs[1]}{added}", other, "head", **more)
        yield from row("thousand", f"XPR, untrained{added}", "models/base", **more)
    yield from row("layers", "untrained", "models/layers", layer=LAYERS, pairs=first)


def _there(out: Path, model: str, seeds: list[int], pairs: list[str]) -> dict[str, list[Any]]:
    """The language pairs that a model is there for, and the seeds that all of these have."""

    def found(pair: str, seed: int) -> bool:
        return (out / model.replace("{pair}", pair).replace("{seed}", str(seed))).exists()

    kept = [pair for pair in pairs if any(found(pair, seed) for seed in seeds)]
    return {"seeds": [seed for seed in seeds if all(found(pair, seed) for pair in kept)], "pairs": kept}


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
    options.add_argument("--ccpr", type=Path, help="what phrasemate model unpack made, for the series ccpr and full")
    options.add_argument("--tables", help="language pairs of the tables, where they are more than those of --pairs")
    options.add_argument("--set", action="append", default=[], help="another setting than the file's, for all runs")
    args = options.parse_args()
    pairs = args.pairs.split(",")
    args.base, args.out = args.base.resolve(), args.out.resolve()
    (args.out / "models").mkdir(parents=True, exist_ok=True)
    series = args.series.split(",")
    if {"ccpr", "full"} & set(series) and args.ccpr is None:
        options.error("the series ccpr and full need --ccpr")
    layers = [each for layer in LAYERS for each in ("--layer", str(layer))]
    for name, more in (("base", []), ("layers", layers)):
        if not (args.out / "models" / name).exists():
            export = ["model", "export", str(args.base), "-o", str(args.out / "models" / name), *more]
            subprocess.run([PHRASEMATE, *export], check=True)
    for run in runs(pairs, args.seeds, series, args.ccpr and args.ccpr.resolve()):
        made(run, args)
    tables = "\n\n".join(rows(args.tables.split(",") if args.tables else pairs, args.seeds, args))
    (args.out / "rows.toml").write_text(tables + "\n", encoding="utf-8")
    print(f"{args.out / 'rows.toml'}: next, phrasemate evaluate xpr")


if __name__ == "__main__":
    main()
