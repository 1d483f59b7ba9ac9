"""The released WikiXPR: phrases are found in their sentences, pairs without any are left out, errors are clear."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from phrasemate.cli import app
from phrasemate.dataset import import_wikixpr, languages_in, read_dataset
from phrasemate.errors import InputError, ReadError

FILES = {
    "train/train-en-de-32-phrase.txt": "old bank\talte bank\nu.s. senate\tus-senat\nlost\tverloren\n",
    "dev/dev-en-de-32-phrase.txt": "old bank\talte bank\n",
    "test/test-en-de-32-phrase.txt": "Old Bank\tAlte Bank\n",
    "sentences/en-de-phrase-sentences.32.tsv": (
        "old bank\t2\tThe Old Bank is closed.\tAn old bank.\tNothing here.\n"
        "u.s. senate\t1\tThe U-S- Senate met.\nlost\t1\tIt was lost.\n"
    ),
    "sentences/de-phrase-sentences.32.tsv": (
        "Alte Bank\t1\tDie alte Bank ist zu.\t \nus-senat\t1\tDer US Senat tagte.\n"
    ),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "released" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "released"


def test_pairs_with_their_sentences(folder: Path, tmp_path: Path) -> None:
    assert languages_in(folder) == ["de"]
    imported = import_wikixpr(folder, tmp_path / "xpr", "de")
    assert imported.pairs == {"train": 2, "dev": 1, "test": 1}
    assert (imported.without, imported.absent) == (1, 3)  # "lost"; "Nothing here." in each of three splits
    first, second = read_dataset(tmp_path / "xpr", "de-en", "train")
    assert (first.source, first.target) == ("alte bank", "old bank")
    assert [p.context[p.start : p.end] for p in first.target_examples] == ["Old Bank", "old bank"]
    assert [p.context[p.start : p.end] for p in first.source_examples] == ["alte Bank"]
    assert [p.context[p.start : p.end] for p in second.target_examples] == ["U-S- Senate"]  # but for punctuation
    assert [p.context[p.start : p.end] for p in second.source_examples] == ["US Senat"]
    assert imported.sentences == 3 * 3 + 2
    with pytest.raises(InputError, match="exists"):
        import_wikixpr(folder, tmp_path / "xpr", "de")


def test_what_is_not_there_is_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"fr-phrase-sentences.*: 0 files; expected one"):
        import_wikixpr(folder, tmp_path / "xpr", "fr")
    (folder / "dev" / "dev-en-de-32-phrase.txt").write_text("old bank\n")
    with pytest.raises(ReadError, match="expected an English phrase, a tab and its translation"):
        import_wikixpr(folder, tmp_path / "xpr", "de")


def test_the_command(folder: Path, tmp_path: Path) -> None:
    command = ["dataset", "wikixpr", str(folder), "-o", str(tmp_path / "xpr")]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0] == "de-en: train 2 dev 1 test 1; 11 sentences, 3 without their phrase"
    (facts,) = json.loads(CliRunner().invoke(app, [*command, "--force", "--json"]).stdout)
    assert facts["pair"] == "de-en"
    wrong = CliRunner().invoke(app, ["dataset", "wikixpr", str(tmp_path), "-o", str(tmp_path / "other")])
    assert wrong.exit_code == 1
    assert "expected the folder of the released WikiXPR" in wrong.stderr
