"""Documents of Trados TagEditor: units, text that is not translated, tags inside and outside of sentences."""

from __future__ import annotations

from pathlib import Path

import pytest

from phrasemate.errors import ReadError
from phrasemate.text import Side, read, read_bilingual, read_units

HEAD = (
    '<?xml version="1.0" encoding="utf-16"?><TRADOStag Version="2.0"><FrontMatter><UserSettings '
    'SourceLanguage="EN-GB" TargetLanguage="DE-DE"/></FrontMatter><Body><Raw>'
)
TAIL = "</Raw></Body></TRADOStag>"
UNITS = (
    '<ut Style="external" DisplayText="p">&lt;p&gt;</ut><Tu Origin="manual" MatchPercent="95"><Tuv Lang="EN-GB">Open '
    'the <ut Type="start" DisplayText="b">&lt;b&gt;</ut>lid<ut Type="end" DisplayText="b">&lt;/b&gt;</ut>.'
    '<ut DisplayText="br">&lt;br/&gt;</ut>Then wait.</Tuv><Tuv Lang="DE-DE">Deckel <df'
    ' Bold="on">öffnen</df>.</Tuv></Tu>'
    '<ut Style="external" DisplayText="/p">&lt;/p&gt;</ut>Not <ut DisplayText="i">&lt;i&gt;</ut>yet translated.'
    '<ut Style="external" DisplayText="p">&lt;p&gt;</ut>Nor this.'
)


def ttx(path: Path, body: str) -> Path:
    path.write_bytes((HEAD + body + TAIL).encode("utf-16"))
    return path


def test_units_and_what_is_not_translated(tmp_path: Path) -> None:
    path = ttx(tmp_path / "a.ttx", UNITS)
    first, *others = read_units(path)
    assert first.sides == (Side("Open the lid. Then wait.", "EN-GB"), Side("Deckel öffnen.", "DE-DE"))
    assert first.metadata == {"origin": "manual", "match": "95"}
    assert [unit.sides for unit in others] == [
        (Side("Not yet translated.", "EN-GB"),),
        (Side("Nor this.", "EN-GB"),),
    ]
    texts = [one.text for document in read(path, lang="en") for one in document.sentences()]
    assert texts == ["Open the lid.", "Then wait.", "Not yet translated.", "Nor this."]
    assert list(read_bilingual(path)) == [("Open the lid. Then wait.", "Deckel öffnen.")]


def test_what_is_no_such_document_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.ttx").write_text("<tmx/>", "utf-8")
    with pytest.raises(ReadError, match="begins with <tmx>; expected <TRADOStag>"):
        list(read_units(tmp_path / "a.ttx"))
