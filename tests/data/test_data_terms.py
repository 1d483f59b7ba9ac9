"""The terms that laws define are among the first hundred of their text: laws that no weight was fitted on."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from phrasemate.encode import Model, bundled_folder, load_model
from phrasemate.terms import TermSettings, extract_terms, wording
from phrasemate.types import Document

TABLE = Path(__file__).resolve().parents[3] / "shared/data/terms_general/canada_law_defined_terms.en-fr.tsv.gz"

pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(not TABLE.exists(), reason="no corpora in ../shared/data beside the repository"),
    pytest.mark.skipif(not bundled_folder().is_dir(), reason="no bundled model; phrasemate model export makes it"),
]


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(threads=1)


@pytest.mark.parametrize("law", ["C-36", "N-11", "O-9"])  # of the test part of bench/law_terms.py; 24, 25 and 22 of 26
def test_terms_that_a_law_defines_are_extracted(model: Model, law: str) -> None:
    with gzip.open(TABLE, "rt", encoding="utf-8") as file:
        rows = [row for row in (line.rstrip("\n").split("\t") for line in file) if row[4:5] == [f"eng/acts/{law}.xml"]]
    defined = {wording(row[0]) for row in rows}
    document = Document.from_texts(law, list(dict.fromkeys(row[2] for row in rows)))
    terms = extract_terms([document], model, TermSettings(language="en", most=100))
    extracted = {wording(form) for term in terms for form in (term.text, *(form for form, _ in term.variants))}
    assert len(defined) == 26
    assert len(defined & extracted) >= 20
