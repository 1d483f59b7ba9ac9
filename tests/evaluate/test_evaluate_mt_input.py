"""``phrasemate evaluate mt`` on files, scores and settings that are unusual or not as they should be."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from phrasemate.errors import InputError, ReadError
from phrasemate.evaluate.metrics import bootstrap, bootstrap_test
from phrasemate.evaluate.mt import Settings, comet_scores, numbers, read_runs, run
from phrasemate.evaluate.report import Table
from phrasemate.mt.scores import SEED

REFERENCES = [f"The {what} stood near the river in {year}." for year in range(1990, 1996) for what in ("car", "bus")]
OUTPUTS = [text.replace("near", "by") for text in REFERENCES]
Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """A folder of one direction with a system ``plain``, and one ``other`` whose records are updated."""

    def make_run(name: str = "de-en", **facts: Any) -> Path:
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        (folder / "reference.txt").write_text("".join(f"{text}\n" for text in REFERENCES))
        (folder / "plain.txt").write_text("".join(f"{text}\n" for text in OUTPUTS))
        rows = [{"source": "x", "translation": text, **facts} for text in OUTPUTS]
        (folder / "other.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        return folder

    return make_run


def table(settings: Settings, name: str) -> Table:
    return next(table for table in run(settings).tables if table.name == name)


@pytest.mark.parametrize("file", ["reference.txt", "plain.txt", "other.jsonl"])
def test_a_mark_in_front_and_other_line_ends_change_nothing(make: Make, file: str) -> None:
    folder = make()
    before = table(Settings(folder, samples=100), "BLEU").rows
    (folder / file).write_bytes(b"\xef\xbb\xbf" + (folder / file).read_bytes().replace(b"\n", b"\r\n"))
    assert table(Settings(folder, samples=100), "BLEU").rows == before


def test_a_carriage_return_in_a_line_ends_none(make: Make) -> None:
    folder = make()
    (folder / "plain.txt").write_bytes((folder / "plain.txt").read_bytes().replace(b"car ", b"car\r"))
    assert len(read_runs(folder)[0].outputs("plain")) == len(REFERENCES)


@pytest.mark.parametrize(
    "facts",
    [{"hints": 3}, {"hints": [3]}, {"hints": [{}]}, {"hints": [{"equivalents": [{}]}]}, {"hints": "x"}, {"phrases": 1}],
)
def test_records_with_other_hints_are_named(make: Make, facts: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"other\.jsonl, line 1: .*as phrasemate mt writes it"):
        run(Settings(make(**facts), samples=100))


def test_lines_and_files_that_cannot_be_read_are_named(make: Make, tmp_path: Path) -> None:
    folder = make()
    (folder / "deep.jsonl").write_text("[" * 100_000)
    with pytest.raises(InputError, match=r"deep\.jsonl, line 1: no object with a translation"):
        read_runs(folder)
    (folder / "deep.jsonl").unlink()
    with pytest.raises(ReadError, match=r"nowhere: cannot be read"):
        run(Settings(folder, scores={"X:de-en:plain": tmp_path / "nowhere"}))
    for name in ("reference.txt", "plain.txt", "other.jsonl"):
        (folder / name).write_text("")
    with pytest.raises(InputError, match=r"reference\.txt: an empty file"):
        read_runs(folder)


def test_a_system_that_is_not_there_is_named(make: Make) -> None:
    with pytest.raises(InputError, match="no system palin; there are plain"):
        read_runs(make(), only=("plain", "palin"))


@pytest.mark.parametrize("score", ["", "BLEU", "BERTScore", "COMET", "lines", "signature"])
def test_scores_have_names_of_their_own(make: Make, tmp_path: Path, score: str) -> None:
    """Another table of that name would take the place of the first in the JSON."""
    (tmp_path / "x").write_text("1\n" * len(REFERENCES))
    with pytest.raises(InputError, match="give the score another name"):
        run(Settings(make(), scores={f"{score}:de-en:plain": tmp_path / "x"}, bertscore=Path("bundled"), comet="x"))


@pytest.mark.parametrize("key", ["X", "X:de-en", "X:de-en:plain:1", "X:fr-en:plain", "X:de-en:palin"])
def test_scores_belong_to_translations_that_are_there(make: Make, tmp_path: Path, key: str) -> None:
    with pytest.raises(InputError, match=rf"--scores {key}=.*x: expected SCORE:DIRECTION:SYSTEM of translations that"):
        run(Settings(make(), scores={key: tmp_path / "x"}))


def test_scores_are_resampled_as_often_as_asked(make: Make, tmp_path: Path) -> None:
    ours, theirs = ([number % 5 / 5 * factor for number in range(12)] for factor in (1, 0.7))
    for name, values in (("other", ours), ("plain", theirs)):
        (tmp_path / name).write_text("".join(f"{value}\n" for value in values))
    scores = {f"X:de-en:{name}": tmp_path / name for name in ("other", "plain")}
    rows = table(Settings(make(), samples=150, scores=scores), "X").rows
    p = bootstrap_test(ours, theirs, samples=150, seed=SEED)
    assert rows[0] == ("other", bootstrap(ours, samples=150, seed=SEED), p)


@pytest.mark.parametrize(
    ("name", "tokenizer"),
    [("en-zh", "zh"), ("de-zh-Hant", "zh"), ("de-zh_TW", "zh"), ("zh-Hant-de", "13a"), ("en-zh_2", "zh")],
)
def test_the_target_language_chooses_the_tokenizer(make: Make, name: str, tokenizer: str) -> None:
    assert f"tok:{tokenizer}" in run(Settings(make(name), samples=100)).signature["BLEU"]


def test_a_folder_may_be_where_one_is(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(make("en-zh"))
    result = run(Settings(Path(), samples=100))
    assert result.tables[0].header == ("system", "en-zh", "p en-zh")
    assert "tok:zh" in result.signature["BLEU"]
    assert result.signature["runs"] == "en-zh"


def test_a_folder_may_be_a_link(make: Make, tmp_path: Path) -> None:
    (tmp_path / "en-zh").symlink_to(make("run-7"))
    assert read_runs(tmp_path / "en-zh")[0].name == "en-zh"


def test_the_signature_says_what_was_measured(make: Make) -> None:
    folder = make()
    signature = run(Settings(folder, samples=100, only=("plain",))).signature
    read = b"".join((folder / name).read_bytes() for name in ("reference.txt", "plain.txt"))
    assert (signature["data"], signature["seed"]) == (sha256(read).hexdigest()[:12], SEED)


def test_the_signature_says_what_scores_depend_on(make: Make, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("1\n" * len(REFERENCES))
    options = {"scores": {"X:de-en:plain": tmp_path / "x"}, "bertscore": Path("bundled"), "layer": 12}
    signature = run(Settings(make(), samples=100, **options)).signature  # type: ignore[arg-type]
    assert (signature["layer"], signature["scores"]) == ("12", sha256((tmp_path / "x").read_bytes()).hexdigest()[:12])


def test_a_folder_that_cannot_be_made_is_named_before_anything_is_computed(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("phrasemate.evaluate.mt._metric_table", lambda *_: pytest.fail("computed"))
    (tmp_path / "out").write_text("")
    with pytest.raises(OSError, match="File exists"):
        run(Settings(make(), out=tmp_path / "out"))


def test_every_sentence_that_comet_scores_has_a_source(make: Make) -> None:
    folder = make()
    lines = (folder / "other.jsonl").read_text().splitlines()
    (folder / "other.jsonl").write_text("\n".join([*lines[:-1], '{"translation": "y", "source": null}']) + "\n")
    with pytest.raises(InputError, match="de-en/other: no sources, which COMET needs, as of line 12"):
        run(Settings(folder, only=("other",), comet="comet-score", samples=100))


def test_scores_are_numbers() -> None:
    for value in ("nan", "inf", "-inf"):
        with pytest.raises(InputError, match="is not finite"):
            numbers(["0.5", value], 2, "x")
    assert numbers(["segment.txt\tSegment 0\tscore: 1", "segment.txt\tscore: 2"], 1, "x") == [1.0]


@pytest.mark.parametrize(("command", "says"), [("a 'b", "No closing quotation"), (" ", "no command"), ("FILE", "FILE")])
def test_a_comet_that_cannot_be_run_is_named(tmp_path: Path, command: str, says: str) -> None:
    (tmp_path / "FILE").write_text("")
    with pytest.raises(InputError, match=says):
        comet_scores(command.replace("FILE", str(tmp_path / "FILE")), ["a"], ["b"], ["c"])


def test_comet_is_given_text(tmp_path: Path) -> None:
    (tmp_path / "comet").write_text('#!/bin/sh\nprintf "\\377 "\nwc -m < "$2" | tr -d " "\n')
    (tmp_path / "comet").chmod(0o755)
    assert comet_scores(str(tmp_path / "comet"), ["\ud800"], ["b"], ["c"])[0] > 1
