"""``phrasemate index``: the grammar, what is handed on, what is said."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_fakes import FakeStats, Library

Invoke = Callable[..., Any]


@pytest.fixture
def text(tmp_path: Path) -> str:
    path = tmp_path / "a.txt"
    path.write_text("One sentence. Another one.\n", "utf-8")
    return str(path)


def test_add_may_be_left_unsaid(invoke: Invoke, library: Library, text: str) -> None:
    for arguments in (["index", text, "-o", "idx"], ["index", "-o", "idx", text], ["index", "add", text, "-o", "idx"]):
        library.index.calls.clear()
        assert invoke(*arguments).exit_code == 0
        assert library.index.calls == [
            ("open", "idx", None, False),
            ("add", ["One sentence.", "Another one."], ""),
            ("close",),
        ]


def test_a_file_named_like_a_command(
    invoke: Invoke, library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("stats").write_text("A sentence.\n", "utf-8")
    assert invoke("index", "./stats", "-o", "idx", "--lang", "en").exit_code == 0
    assert ("add", ["A sentence."], "en") in library.index.calls


def test_a_new_index_is_created(invoke: Invoke, library: Library, text: str) -> None:
    library.index.exists = False
    assert invoke("index", text, "-o", "idx", "--threads", "2", "--model", "m").exit_code == 0
    assert ("create", "idx", "a model") in library.index.calls
    assert library.models == [(Path("m"), 2)]


def test_the_bundled_model_is_for_new_indexes_only(invoke: Invoke, library: Library, text: str) -> None:
    invoke("index", text, "-o", "idx")
    assert library.models == []
    library.index.exists = False
    invoke("index", text, "-o", "idx")
    assert library.models == [(None, None)]


def test_the_summary_has_every_figure(invoke: Invoke, library: Library, text: str) -> None:
    result = invoke("index", text, "-o", "idx")
    assert result.stdout == (
        "idx: 2 sentences and 4 phrases added in 2.0 s (1 sentences/s); documents: 1 new, 0 replaced, 0 unchanged\n"
    )
    assert result.stderr == ""  # no bar where nobody watches


def test_json_summary(invoke: Invoke, library: Library, text: str) -> None:
    report = json.loads(invoke("index", text, "-o", "idx", "--json").stdout)
    assert report == {
        "index": "idx",
        "documents_added": 1,
        "replaced": 0,
        "unchanged": 0,
        "sentences": 2,
        "phrases": 2 * 2,
        "seconds": 2.0,
        "encoder_seconds": 1.5,
        "skipped": [],
    }


def test_options_of_reading_are_handed_on(invoke: Invoke, library: Library, tmp_path: Path) -> None:
    table = tmp_path / "a.tsv"
    table.write_bytes("ignore\tCafé. Bar.\n".encode("cp1252"))
    options = ["--column", "2", "--lines", "sentence", "--encoding", "cp1252"]
    assert invoke("index", str(table), "-o", "idx", *options).exit_code == 0
    assert ("add", ["Café. Bar."], "") in library.index.calls


def test_skipped_lines_are_listed_and_counted(invoke: Invoke, library: Library, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "Good."}\n{"text": 5}\n', "utf-8")
    assert invoke("index", str(path), "-o", "idx").exit_code == 1
    result = invoke("index", str(path), "-o", "idx", "--on-error", "skip")
    assert result.exit_code == 0
    assert result.stderr.startswith(f"skipped: {path}, line 2: ")
    assert result.stdout.endswith("; 1 skipped\n")
    report = json.loads(invoke("index", str(path), "-o", "idx", "--on-error", "skip", "--json").stdout)
    assert [item["line"] for item in report["skipped"]] == [2]


def test_ctrl_c_says_what_is_kept(invoke: Invoke, library: Library, text: str) -> None:
    library.index.interrupt_after = 1
    result = invoke("index", text, "-o", "idx")
    assert result.exit_code == 130
    assert result.stderr == "stopped; idx keeps 1 sentence of this run; run the same command again to resume\n"
    assert library.index.calls[-1] == ("close",)


def test_ctrl_c_before_anything_is_saved(
    invoke: Invoke, library: Library, text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(library.index, "add", interrupted)
    result = invoke("index", text, "-o", "new")
    assert result.stderr == "stopped; nothing was saved in new; run the same command again\n"
    Path("idx").mkdir()
    assert invoke("index", text, "-o", "idx").stderr.startswith("stopped; idx keeps what was there before; ")


def test_stats(invoke: Invoke, library: Library) -> None:
    assert [line.split() for line in invoke("index", "stats", "idx").stdout.splitlines()] == [
        ["documents", "1,234"],
        ["languages", "en", "1,234"],
        ["phrases", "900"],
        ["files", "store.db", "4,000,000"],
        ["dead", "99"],
    ]
    assert json.loads(invoke("index", "stats", "idx", "--json").stdout)["languages"] == {"en": 1234}
    assert all(call[3] for call in library.index.calls if call[0] == "open"), "stats must not lock the index"


def test_stats_recommend_to_optimize_where_a_tenth_is_dead(
    invoke: Invoke, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library.index, "stats", lambda: FakeStats(phrases=900, dead=100))
    assert invoke("index", "stats", "idx").stdout.splitlines()[-1] == (
        "10 % of what the search file holds was deleted; to give the space back, run: phrasemate index optimize idx"
    )


def test_stats_lists_documents(invoke: Invoke, library: Library) -> None:
    assert invoke("index", "stats", "idx", "--documents").stdout.splitlines()[-2:] == [
        "  a.txt: 2 sentences, 4 phrases, en",
        "  b.txt: 1 sentence, 1 phrase, to be continued",
    ]
    listed = json.loads(invoke("index", "stats", "idx", "--documents", "--json").stdout)["documents_listed"]
    assert [document["name"] for document in listed] == ["a.txt", "b.txt"]


def test_verify_leaves_with_1_on_a_problem(invoke: Invoke, library: Library) -> None:
    assert invoke("index", "verify", "idx").stdout == "idx: whole (checked: sentences 3)\n"
    library.index.problems.append("sentence 2: offset 9 lies beyond its 5 characters")
    result = invoke("index", "verify", "idx")
    assert (result.exit_code, result.stdout) == (1, "idx: damaged (checked: sentences 3)\n")
    assert result.stderr == "problem: sentence 2: offset 9 lies beyond its 5 characters\n"
    assert json.loads(invoke("index", "verify", "idx", "--json").stdout)["ok"] is False
    library.index.problems[0] = "document a\x9b2Jb"
    assert invoke("index", "verify", "idx").stderr == "problem: document a 2Jb\n"


def test_optimize_and_delete(invoke: Invoke, library: Library) -> None:
    assert invoke("index", "optimize", "idx").stdout == "idx: 4.0 MB before, 4.0 MB after\n"
    assert invoke("index", "delete", "idx", "a.txt", "b.txt").exit_code == 0
    assert [call for call in library.index.calls if call[0] in ("optimize", "delete")] == [
        ("optimize", None, 1, 0),
        ("delete", "a.txt", "b.txt"),
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.txt", "-o", "idx", "--workers", "2"], "--workers needs --cluster"),
        (["a.txt", "-o", "idx", "--cluster", "local", "--threads", "2"], "--threads applies to one machine"),
        (["optimize", "idx", "--workers", "2"], "--workers needs --cluster"),
        (["optimize", "idx", "--cluster", "local", "--threads", "2"], "--threads applies to one machine"),
        (["optimize", "idx", "--at", "10"], "--at and --seed need --target-recall"),
        (["optimize", "idx", "--seed", "1"], "--at and --seed need --target-recall"),
    ],
)
def test_options_that_would_be_passed_over_are_refused(
    invoke: Invoke, library: Library, arguments: list[str], message: str
) -> None:
    result = invoke("index", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert library.index.calls == []


def test_no_folder_is_named_like_a_place_that_is_none(invoke: Invoke, library: Library, text: str) -> None:
    library.index.exists = False
    result = invoke("index", text, "-o", "ftp://host/idx")
    assert (result.exit_code, library.index.calls) == (1, [("open", "ftp:/host/idx", None, False)])
    assert "an index cannot be stored there" in result.stderr


def test_group_help_shows_both_forms(invoke: Invoke) -> None:
    page = invoke("index", "--help").stdout
    assert "phrasemate index TEXT... -o DIR" in page
    assert all(
        name in page for name in ("add", "stats", "verify", "optimize", "delete", "backup", "restore", "upgrade")
    )


def test_how_phrases_are_found_is_for_a_new_index(invoke: Invoke, library: Library, text: str) -> None:
    library.index.exists = False
    assert invoke("index", text, "-o", "idx", "--min-belief", "0.5", "--max-words", "4").exit_code == 0
    assert library.index.manifest.segment == {"threshold": 0.5, "max_words": 4}
    library.index.exists = True
    assert invoke("index", text, "-o", "idx", "--min-belief", "0.5").exit_code == 0
    other = invoke("index", text, "-o", "idx", "--min-belief", "0.6")
    assert other.exit_code == 1
    assert "was started with {'threshold': 0.5, 'max_words': 4}" in other.stderr
