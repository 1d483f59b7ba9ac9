"""Mining from end to end, with an encoder that knows the mates: what is found, reported, calibrated, written."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mine_fakes import NumberEncoder, document, english, german

from phrasemate.errors import InputError
from phrasemate.mine import Mining, Place, mine, write_mates
from phrasemate.mine.select import REGRESSION_THRESHOLDS, least_promising, usual_threshold
from phrasemate.text.formats.bilingual import read_units
from phrasemate.types import Document, PhrasePair

PLAIN = Mining(threshold=0.5)
GERMAN = [german(n) for n in range(60)]
ENGLISH = [english(n) for n in range(40, 100)]
MATES = {(german(n), english(n)) for n in range(40, 60)}


def mine_pairs(
    source: Sequence[str], target: Sequence[str], settings: Mining = PLAIN, **more: Any
) -> list[tuple[str, str]]:
    with mine(document("de", source), document("en", target), NumberEncoder(), settings=settings, **more) as mined:
        return [mate[:2] for mate in mined]


def test_planted_mates_are_found_and_nothing_else() -> None:
    with mine(document("de", GERMAN), document("en", ENGLISH), NumberEncoder(), settings=PLAIN) as mined:
        mates = list(mined)
        assert {mate[:2] for mate in mates} == MATES
        assert list(mined) == mates  # may be read again
        assert len(mined) == mined.report.pairs == 20
        assert [mate.score for mate in mates] == sorted((mate.score for mate in mates), reverse=True)
        assert all(0.9 < mate.cosine <= 1 for mate in mates)
        assert (mined.report.source.distinct, mined.report.engine, mined.report.recall) == (60, "exact", (1.0, 1.0))
        work = mined.work.path
        assert work.is_dir()
    assert not work.exists()  # a temporary one


def test_a_sentence_that_comes_again_is_encoded_once_and_reported_with_all_its_places() -> None:
    source = [Document.from_texts("a.txt", [german(1), "  Dies ist der Satz Nummer 1,  auf Deutsch. ", german(2)])]
    source += document("b.txt", [german(3), german(1)])
    encoder = NumberEncoder()
    with mine(source, document("en", [english(1), english(9), english(1)]), encoder, settings=PLAIN) as mined:
        (mate,) = mined
        assert (mined.report.source.read, mined.report.source.distinct) == (5, 3)
    assert mate.source_places == (Place("a.txt", 1), Place("a.txt", 2), Place("b.txt", 2))
    assert mate.target_places == (Place("en", 1), Place("en", 3))
    assert sorted(encoder.encoded) == sorted([german(1), german(2), german(3), english(1), english(9)])


def test_copies_are_not_mates() -> None:
    same = "Version 7 of the program is the latest."
    source, target = [same, german(8)], [same.upper(), "Version 7 of this program is the latest!", english(8)]
    assert mine_pairs(source, target) == [(german(8), english(8))]
    mates = dict(mine_pairs(source, target, Mining(threshold=0.5, copies=None)))
    assert mates[german(8)] == english(8)
    assert mates[same] in target[:2]  # both are copies


def test_unlike_lengths_are_not_mates() -> None:
    long = english(7) + " It goes on and on" * 20
    others = [german(n) for n in range(20, 30)], [english(n) for n in range(20, 30)]
    source, target = [*others[0], german(7)], [*others[1], long]
    assert (german(7), long) not in mine_pairs(source, target)
    assert (german(7), long) in mine_pairs(source, target, Mining(threshold=0.5, length_ratio=None))


def test_one_to_one_and_all() -> None:
    target = [english(5), "In English: this is the sentence 5.", english(6)]
    assert [s for s, _ in mine_pairs([german(5), german(6)], target)].count(german(5)) == 1
    everything = mine_pairs([german(5), german(6)], target, Mining(threshold=0.5, pairing="all"))
    assert [s for s, _ in everything].count(german(5)) == 2
    assert len(mine_pairs([german(5), german(6)], target, Mining(threshold=0.5, pairing="mutual"))) == 2


def test_a_threshold_only_cuts() -> None:
    with mine(document("de", GERMAN), document("en", ENGLISH), NumberEncoder(), settings=PLAIN) as mined:
        scores = [mate.score for mate in mined]
    settings = Mining(threshold=scores[9])
    with mine(document("de", GERMAN), document("en", ENGLISH), NumberEncoder(), settings=settings) as mined:
        assert [mate.score for mate in mined] == scores[:10]


def test_calibration_hides_known_pairs_and_leaves_them_out_of_what_is_found() -> None:
    known_pairs = [(german(n), english(n)) for n in range(200, 230)]
    settings = Mining()
    with mine(
        document("de", GERMAN), document("en", ENGLISH), NumberEncoder(), settings=settings, known=known_pairs
    ) as run:
        calibration = run.report.calibration
        assert {mate[:2] for mate in run} == MATES
    assert calibration is not None
    assert (calibration.known, calibration.found) == (30, 30)
    assert 15 <= calibration.mates <= 20  # an estimate from below
    assert calibration.recall == 1.0
    assert calibration.precision > 0.9
    assert run.report.threshold == calibration.threshold
    assert run.report.source.distinct == 60


def test_known_pairs_of_the_collections_themselves_are_found_as_well() -> None:
    known_pairs = [(german(n), english(n)) for n in range(40, 60)]
    settings = Mining()
    with mine(
        document("de", GERMAN), document("en", ENGLISH), NumberEncoder(), settings=settings, known=known_pairs
    ) as run:
        assert {mate[:2] for mate in run} == MATES


def test_known_pairs_do_not_cut_what_a_threshold_lets_in() -> None:
    known_pairs = [(german(n), english(n)) for n in range(200, 230)]
    for value in ((), known_pairs):
        pairs = mine_pairs(GERMAN, ENGLISH, Mining(margin="quarter", threshold=0.1), known=value)
        assert len(pairs) > 2 * len(MATES)


def test_known_pairs_that_come_twice_count_once() -> None:
    known_pairs = [(german(n), english(n)) for n in range(200, 230)]
    sides, settings, records = (document("de", GERMAN), document("en", ENGLISH)), Mining(), []
    for value in (known_pairs, known_pairs * 2):
        with mine(*sides, NumberEncoder(), settings=settings, known=value) as run:
            records.append(run.report.calibration)
    assert records[0] == records[1]


def test_too_few_known_pairs_are_refused_before_anything_is_encoded() -> None:
    encoder, known_pairs = NumberEncoder(), [(german(n), english(n)) for n in range(3)] * 10
    with pytest.raises(InputError, match="3 pairs to calibrate with; expected 20 or more"):
        mine(document("de", GERMAN), document("en", ENGLISH), encoder, settings=Mining(), known=known_pairs)
    assert not encoder.encoded


def test_known_pairs_are_found_whatever_their_apostrophes() -> None:
    def texts(numbers: range, apostrophe: str) -> list[str]:
        return [f"{english(n)} Isn{apostrophe}t it?" for n in numbers]

    sides = document("de", GERMAN), document("en", texts(range(40, 100), "'"))
    curly = list(zip(map(german, range(40, 60)), texts(range(40, 60), "’"), strict=True))
    straight = list(zip(map(german, range(40, 60)), texts(range(40, 60), "'"), strict=True))
    records = []
    for known_pairs in (straight, curly, straight + curly):
        with mine(*sides, NumberEncoder(), settings=Mining(), known=known_pairs) as run:
            records.append(run.report.calibration)
    assert records[0] is not None
    assert (records[0].known, records[0].found) == (20, 20)
    assert records[0] == records[1] == records[2]


def test_blank_lines_are_not_sentences() -> None:
    settings = Mining(threshold=0.5, check="none", weight=1.0)
    assert set(mine_pairs([*GERMAN, "", " "], [*ENGLISH, ""], settings, scorer=Dislikes(-1))) == MATES


class Dislikes:
    """A scorer that does not like one number; tells what it was asked."""

    def __init__(self, number: int) -> None:
        self.number, self.requests = f" {number}", 0

    def score(self, pairs: Sequence[PhrasePair]) -> np.ndarray:
        self.requests += len(pairs)
        return np.array([-1.0 if self.number in pair.source.text else 0.0 for pair in pairs], np.float32)


def test_a_scorer_has_a_say() -> None:
    scorer = Dislikes(45)
    settings = Mining(threshold=0.5, weight=0.6)
    assert set(mine_pairs(GERMAN, ENGLISH, settings, scorer=scorer)) == MATES - {(german(45), english(45))}
    assert scorer.requests >= 20


def test_the_usual_threshold_grows_with_the_collections() -> None:
    """By .072 for each e times as large, as the square root of the product; below 5,000 sentences not at all."""
    assert usual_threshold("quarter", "reranker", 20_000, 20_000) == 1.64
    assert usual_threshold("quarter", "reranker", 200_000, 2_000) == pytest.approx(1.64)
    assert usual_threshold("quarter", "reranker", 54_366, 54_366) == pytest.approx(1.712, abs=1e-6)  # 20,000 e
    smallest = usual_threshold("quarter", "reranker", 5_000, 5_000)
    assert usual_threshold("quarter", "reranker", 0, 7) == smallest == pytest.approx(1.64 - 0.072 * 1.386294, abs=1e-6)
    assert usual_threshold("quarter", "none", 20_000, 20_000) == 0.675
    for (lexicon, look), (odds, growth) in REGRESSION_THRESHOLDS.items():  # a probability
        usual = usual_threshold("regression", look, 54_366, 54_366, lexicon)
        assert usual == pytest.approx(1 / (1 + np.exp(-odds - growth)), abs=1e-4)
    assert usual_threshold("csls", "none", 20_000, 20_000) is usual_threshold("ratio", "scorer", 9, 9) is None


def test_large_collections_have_fewer_promising_pairs() -> None:
    """The log odds grow by 1 with each e times as large; below 5,000 sentences not at all."""
    assert least_promising(20_000, 20_000) == pytest.approx(1 / (1 + np.exp(4)))
    assert least_promising(20_000, round(20_000 * np.e**2)) == pytest.approx(1 / (1 + np.exp(3)), rel=1e-5)
    assert least_promising(3, 4) == pytest.approx(1 / (1 + np.exp(4 + np.log(4))))


def test_a_default_of_its_own_for_each_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes are those of different sentences."""
    calls = []

    def usual(*arguments: Any) -> float:
        calls.append(arguments)
        return 0.5

    monkeypatch.setattr(sys.modules["phrasemate.mine.mining"], "usual_threshold", usual)
    assert mine_pairs([german(3)] * 2 + [german(4)], [english(3)], Mining())
    assert {call for call in calls if call[2] == 2} == {("regression", "none", 2, 1, True), ("quarter", "none", 2, 1)}


def test_margins_without_a_usual_threshold() -> None:
    for settings in (Mining(margin="csls"), Mining(margin="absolute")):
        with pytest.raises(InputError, match="have no usual threshold; give one, or known pairs"):
            mine_pairs(GERMAN, ENGLISH, settings)
    with pytest.raises(InputError, match="with a scorer have no usual threshold"):
        mine_pairs(GERMAN, ENGLISH, Mining(), scorer=Dislikes(1))
    with pytest.raises(InputError, match="margin 'regression' and a scorer"):
        mine_pairs(GERMAN, ENGLISH, Mining(margin="regression", threshold=0.5), scorer=Dislikes(1))
    for rerank in ("words", "reranker"):
        with pytest.raises(InputError, match=r"needs a phrasemate\.Model"):
            mine_pairs(GERMAN, ENGLISH, Mining(rerank=rerank))


@pytest.mark.parametrize("margin", ["absolute", "csls", "distance", "quarter", "ratio", "regression"])
def test_every_margin_ranks_the_mates_first(margin: str) -> None:
    settings = Mining(margin=margin, threshold=0.0)
    assert set(mine_pairs(GERMAN, ENGLISH, settings)[:20]) == MATES


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"margin": "cosine"}, "margin 'cosine'; expected one of"),
        ({"pairing": "best"}, "pairing 'best'; expected one of"),
        ({"check": "yes"}, "check 'yes'; expected one of"),
        ({"rerank": "x"}, "rerank 'x'; expected one of"),
        ({"margin": "regression", "rerank": "reranker"}, "the re-ranker needs another margin"),
        ({"margin": "quarter", "rerank": "words"}, "it needs the margin 'regression'"),
        ({"k": 0}, "k 0; expected 1 or more"),
        ({"length_ratio": 1.0}, "length ratio 1.0; expected more than 1"),
        ({"copies": 1.5}, "copies 1.5; expected a share"),
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, Any], expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        Mining(**settings)


def test_an_encoder_that_gives_no_unit_vectors() -> None:
    class Long(NumberEncoder):
        def encode_sentences(self, texts: Sequence[str]) -> np.ndarray:
            return super().encode_sentences(texts) * 3

    with pytest.raises(InputError, match="vectors of length 3; expected unit vectors"):
        mine(document("de", GERMAN), document("en", ENGLISH), Long(), settings=PLAIN)


def test_a_side_without_sentences() -> None:
    with pytest.raises(InputError, match="target: none of 2 sentences can be used"):
        mine_pairs(GERMAN, ["12 : 34", "..."])


def test_fewer_sentences_than_neighbours() -> None:
    assert mine_pairs([german(3)], [english(3)], Mining(k=4, threshold=0.5)) == [(german(3), english(3))]


def test_writing(tmp_path: Path) -> None:
    with mine(document("d e", [german(1)]), document("en", [english(1)] * 2), NumberEncoder(), settings=PLAIN) as mined:
        for name in ("pairs.tsv", "pairs.jsonl", "pairs.tmx"):
            write_mates(tmp_path / name, mined, ("de", "en"))
        (mate,) = mined
    row = (tmp_path / "pairs.tsv").read_text("utf-8")
    assert row == f"{german(1)}\t{english(1)}\t{mate.score:.4f}\td e:1\ten:1 | en:2\n"
    (line,) = (tmp_path / "pairs.jsonl").read_text("utf-8").splitlines()
    assert json.loads(line) == {
        "source": german(1),
        "target": english(1),
        "score": round(mate.score, 4),
        "cosine": round(mate.cosine, 4),
        "source_places": [{"document": "d e", "line": 1}],
        "target_places": [{"document": "en", "line": 1}, {"document": "en", "line": 2}],
    }
    (unit,) = read_units(tmp_path / "pairs.tmx")
    assert [(side.language, side.text) for side in unit.sides] == [("de", german(1)), ("en", english(1))]
    assert unit.metadata["score"] == f"{mate.score:.4f}"
    assert unit.sides[1].metadata["place"] == ["en:1", "en:2"]
    with pytest.raises(InputError, match=r"expected a name that ends in \.jsonl, \.tmx, \.tsv"):
        write_mates(tmp_path / "pairs.txt", [mate])
    with pytest.raises(InputError, match="no such folder"):
        write_mates(tmp_path / "nowhere" / "pairs.tsv", [mate])


def test_a_threshold_of_another_model_is_said_to_be_one() -> None:
    """The default was fitted to the bundled model, whose path is None."""
    encoder = NumberEncoder()
    documents = document("de", GERMAN), document("en", ENGLISH)
    for place, settings, warned in (
        (None, Mining(), False),
        (Path("own"), Mining(), True),
        (Path("own"), PLAIN, False),
    ):
        encoder.path = place  # type: ignore[attr-defined]
        with mine(*documents, encoder, settings=settings) as mined:
            assert bool(mined.remarks) == warned
            assert not warned or "was fitted to the bundled model" in mined.remarks[0]
    with mine(*documents, encoder, settings=Mining(), known=sorted(MATES)) as mined:
        assert mined.remarks == ()
