"""Term bases that MultiTerm exports: concepts, languages and fields at each level."""

from __future__ import annotations

from pathlib import Path

import pytest

from phrasemate.errors import ReadError
from phrasemate.lexicon.dictionary import open_dictionaries
from phrasemate.text import Term, read_terms

BASE = (
    "<?xml version='1.0' encoding='UTF-16'?><mtf><conceptGrp><concept>7</concept><descripGrp>"
    '<descrip type="Subject">rivers</descrip></descripGrp><languageGrp><language type="English" lang="EN"/><descripGrp>'
    '<descrip type="Definition">Land beside a river.</descrip></descripGrp><termGrp><term>river '
    " bank</term><descripGrp>"
    '<descrip type="Context">On the river bank.</descrip><descripGrp><descrip type="Source">Ann</descrip></descripGrp>'
    "</descripGrp></termGrp><termGrp><term>bank</term></termGrp></languageGrp><languageGrp>"
    '<language type="German" lang="DE"/><termGrp><term>Ufer</term></termGrp></languageGrp></conceptGrp></mtf>'
)


def test_terms_have_the_fields_of_their_concept_and_language(tmp_path: Path) -> None:
    path = tmp_path / "base.xml"
    path.write_bytes(BASE.encode("utf-16"))
    definition, subject = "Land beside a river.", {"Subject": "rivers"}
    assert list(read_terms(path, "*")) == [
        Term("river bank", "EN", "7", definition, "", ("On the river bank.",), {"Source": "Ann"} | subject),
        Term("bank", "EN", "7", definition, "", (), subject),
        Term("Ufer", "DE", "7", "", "", (), subject),
    ]
    assert [term.text for term in read_terms(path, "de")] == ["Ufer"]
    (dictionary,) = open_dictionaries([path])
    assert [equivalent.text for equivalent in dictionary.equivalents("Ufer", "de", "en")] == ["river bank", "bank"]


def test_other_xml_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text("<html/>", "utf-8")
    with pytest.raises(ReadError, match="begins with <html>; expected <mtf> of MultiTerm XML"):
        list(read_terms(tmp_path / "a.xml"))
