"""A bilingual concordance from monolingual text: what the page shows, without the page.

reading = read("Wir hielten eine Schweigeminute ab.", index.model)
phrase = in_sentence(reading.text, 12, 31)
found = column("news", Searcher(index).search(marked(reading.text, 12, 31)))
write("answer.tbx", phrase.text, [arranged(found, "left")], "de")
"""

from __future__ import annotations

from phrasemate.concordance.collation import collation
from phrasemate.concordance.export import FORMATS, write
from phrasemate.concordance.kwic import ORDERS, Candidate, Column, Line, arranged, clip, column, merged
from phrasemate.concordance.segmented_text import Piece, Reading, in_sentence, read

__all__ = [
    "FORMATS",
    "ORDERS",
    "Candidate",
    "Column",
    "Line",
    "Piece",
    "Reading",
    "arranged",
    "clip",
    "collation",
    "column",
    "in_sentence",
    "merged",
    "read",
    "write",
]
