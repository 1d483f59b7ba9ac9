"""What the commands refuse; test_cluster_ray.py has what they do."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from phrasemate.index.lance.tables import is_tables, options_for, place_of

LANCE = "Lance is not installed (pip install 'phrasemate[ray]')"


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, invoke: Callable[..., Any]) -> None:
    monkeypatch.setitem(sys.modules, "lance", None)
    (tmp_path / "a.txt").write_text("A sentence.\n", "utf-8")
    result = invoke("index", tmp_path / "a.txt", "-o", tmp_path / "idx", "--cluster", "auto")
    assert result.exit_code == 1
    assert result.stderr == "error: this needs the package 'pylance'; install it with: pip install 'phrasemate[ray]'\n"


def test_places_that_are_invalid(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, invoke: Callable[..., Any]) -> None:
    pytest.importorskip("lance", reason=LANCE)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "none")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "none")
    text = tmp_path / "a.txt"
    text.write_text("A sentence.\n", "utf-8")
    unknown = invoke("index", text, "-o", "ftp://host/idx", "--cluster", "auto")
    assert (unknown.exit_code, "cannot be stored there; expected a folder, or one of s3://" in unknown.stderr) == (
        1,
        True,
    )
    closed = invoke("search", "s3://bucket/idx", "[[a]]")
    assert (closed.exit_code, closed.stderr.count("\n")) == (1, 1)
    assert closed.stderr.startswith("error: s3://bucket/idx: ")


def test_an_index_of_one_machine_is_left_alone(tmp_path: Path, invoke: Callable[..., Any]) -> None:
    pytest.importorskip("lance", reason=LANCE)
    (tmp_path / "idx").mkdir()
    (tmp_path / "idx" / "index.json").write_text("{}", "utf-8")
    (tmp_path / "a.txt").write_text("A sentence.\n", "utf-8")
    result = invoke("index", tmp_path / "a.txt", "-o", tmp_path / "idx", "--cluster", "auto")
    assert (result.exit_code, "is an index of one machine" in result.stderr) == (1, True)
    result = invoke("index", "optimize", tmp_path / "idx", "--cluster", "auto")
    assert (result.exit_code, "optimize it without --cluster" in result.stderr) == (1, True)


def test_tables_that_are_being_made_are_said_to_be(tmp_path: Path, invoke: Callable[..., Any]) -> None:
    pytest.importorskip("lance", reason=LANCE)
    (tmp_path / "idx" / "shards.lance").mkdir(parents=True)
    (tmp_path / "a.txt").write_text("A sentence.\n", "utf-8")
    result = invoke("index", tmp_path / "a.txt", "-o", tmp_path / "idx")
    assert (result.exit_code, "are being built there, or their building was stopped" in result.stderr) == (1, True)
    assert invoke("search", tmp_path / "idx", "[[a]]").stderr.startswith("error: no index at ")


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ("s3://bucket/a/b", "s3://bucket/a/b"),
        (Path("s3://bucket/a/b/"), "s3://bucket/a/b"),  # which is s3:/bucket/a/b by now
        (Path("gs://bucket/a"), "gs://bucket/a"),
        ("file:///data/idx", "/data/idx"),
        ("idx", str(Path("idx").absolute())),
    ],
)
def test_places(value: str | Path, place: str) -> None:
    assert place_of(value) == place


def test_what_looks_like_tables(tmp_path: Path) -> None:
    assert is_tables(Path("s3://bucket/idx"))
    assert not is_tables(tmp_path)
    (tmp_path / "state.lance").mkdir()
    assert is_tables(tmp_path)


def test_options_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_REGION", "eu-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
    monkeypatch.setenv("AWS_PROFILE", "mine")  # of other programs
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", "another")
    expected = {"aws_region": "eu-1", "aws_endpoint_url": "http://127.0.0.1:9000", "aws_allow_http": "true"}
    assert options_for("s3://bucket/idx") == expected
    assert options_for("/data/idx") == {}
