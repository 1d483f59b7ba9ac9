"""Two term lists -> which terms mean the same, by the sentences that contain them.

A term's vector comes from example sentences (XPR, Zheng et al., ACL 2022; `phrasemate.encode.example_pooling`). Two
terms are as close as the cosine of their vectors; what is near to everything is set back by a margin (CSLS, Conneau et
al., ICLR 2018; or the ratio of Artetxe and Schwenk, ACL 2019).
"""

from __future__ import annotations

from phrasemate.match.assignment import Candidates, assign, candidates
from phrasemate.match.terms import (
    THRESHOLDS,
    Match,
    Matching,
    MatchSettings,
    Side,
    match_terms,
    pooling_of,
    select,
    term_pairs,
)

__all__ = [
    "THRESHOLDS",
    "Candidates",
    "Match",
    "MatchSettings",
    "Matching",
    "Side",
    "assign",
    "candidates",
    "match_terms",
    "pooling_of",
    "select",
    "term_pairs",
]
