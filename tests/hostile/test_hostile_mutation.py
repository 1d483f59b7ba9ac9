"""Mutation for fuzzing must reach what lies behind a parser, or hours of it try nothing but the parser."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "bench")]

import fuzz  # noqa: E402
from fuzz import JSON, MARKUP, kept_seeds, reshaped, revalued  # noqa: E402
from fuzz_targets import SEEDS, TARGETS, run  # noqa: E402


@pytest.mark.parametrize("target", sorted(MARKUP))
def test_changed_mark_up_is_read_as_a_rule_and_never_breaks_a_reader(target: str) -> None:
    draw = random.Random(f"{target} 1")
    pool, read = SEEDS[target](), 0
    for _ in range(120):
        seed = draw.choice(pool)
        result = reshaped(draw, seed, target)
        assert len(result) < 30 * len(seed) + 10_000
        read += run(target, result)  # raises whatever is a finding
    assert read > 40


@pytest.mark.parametrize("target", sorted(JSON))
def test_changed_values_never_break_a_reader(target: str) -> None:
    draw = random.Random(f"{target} 1")
    results = [revalued(draw, draw.choice(SEEDS[target]())) for _ in range(200)]
    assert len(set(results)) > 100
    assert {run(target, item) for item in results} == {True, False}
    assert {revalued(random.Random(seed), b"{}") for seed in range(50)} > {b'{"text": null}'}
    assert revalued(draw, b"[1]") == b"[1]"
    assert revalued(draw, b"{") == b"{"


def test_the_same_draw_makes_the_same_and_what_has_no_elements_stays() -> None:
    (seed,) = SEEDS["tmx"]()
    assert reshaped(random.Random(3), seed, "tmx") == reshaped(random.Random(3), seed, "tmx") != seed
    assert reshaped(random.Random(3), b"PK\x03\x04 packed", "docx") == b"PK\x03\x04 packed"


def test_kept_inputs_are_read_or_refused_without_a_finding() -> None:
    seeds = kept_seeds()
    assert set(seeds) == set(TARGETS)
    for target, inputs in seeds.items():
        assert len(inputs) > 90
        for data in inputs[::12]:  # all of them take half a minute
            run(target, data)


def test_the_archive_of_seeds_is_written_as_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "SEED_FILE", tmp_path / "seeds.tar.xz")
    fuzz.write_seeds({"txt": [b"long", b"a", b"a"], "csv": [b""]})
    assert kept_seeds() == {"csv": [b""], "txt": [b"a", b"long"]}
