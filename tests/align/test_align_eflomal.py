"""eflomal: its absence, its priors, and (where it is installed) its links."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from phrasemate.align import EflomalAligner, TokenizedSentence
from phrasemate.errors import InputError, MissingExtra

Pairs = list[tuple[TokenizedSentence, TokenizedSentence]]


def pairs(*texts: tuple[str, str]) -> Pairs:
    return [(TokenizedSentence.of(source), TokenizedSentence.of(target)) for source, target in texts]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Stands in for the package: links word i with word i, writes down what it is given."""
    calls: list[dict[str, Any]] = []

    class Aligner:
        def __init__(self, model: int) -> None:
            self.model = model

        def align(self, source: Any, target: Any, **files: Any) -> None:
            sides, priors = (list(source), list(target)), files["priors_input"]
            calls.append({"source": sides[0], "target": sides[1], "priors": priors and list(priors)})
            lines = [
                " ".join(f"{i}-{i}" for i in range(min(len(a.split()), len(b.split()))))
                for a, b in zip(*sides, strict=True)
            ]
            for name in ("links_filename_fwd", "links_filename_rev"):
                Path(files[name]).write_text("".join(line + "\n" for line in lines), "ascii")

    monkeypatch.setitem(sys.modules, "eflomal", SimpleNamespace(Aligner=Aligner))
    return calls


def test_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "eflomal", None)
    with pytest.raises(MissingExtra, match=r"pip install 'phrasemate\[align\]'"):
        EflomalAligner()


def test_senseless_settings(fake: list[dict[str, Any]]) -> None:
    for chunk in (0, "9"):
        with pytest.raises(InputError, match=f"chunk: {chunk!r}; expected 1 or more, a whole number"):
            EflomalAligner(chunk=chunk)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="grow-diag-final-and"):
        EflomalAligner("both")


def test_pairs_without_words_are_left_out(fake: list[dict[str, Any]]) -> None:
    some = pairs(("Ein Haus", "a house"), ("", "a"), ("...", "!"), ("x " * 1001, "y"), ("Tür", "door"))
    assert EflomalAligner().align(some) == [[(0, 0), (1, 1)], [], [], [], [(0, 0)]]
    assert [call["source"] for call in fake] == [["ein haus", "tür"]]
    assert EflomalAligner().align(pairs(("", ""))) == [[]]
    assert len(fake) == 1


def test_the_signature_names_what_decides_about_links(fake: list[dict[str, Any]]) -> None:
    assert EflomalAligner("intersection", chunk=7, model=2).signature == {
        "method": "eflomal",
        "symmetrisation": "intersection",
        "chunk": "7",
        "eflomal model": "2",
    }


def test_languages_are_part_of_the_signature(fake: list[dict[str, Any]]) -> None:
    assert EflomalAligner(languages=("de", "en")).signature["languages"] == "de,en"


def test_known_languages_are_compared_by_stems(fake: list[dict[str, Any]]) -> None:
    some = pairs(("die Häuser", "the houses"), ("圖書館", "library"))
    EflomalAligner(languages=("de", "en")).align(some[:1])
    EflomalAligner(languages=("", "en-GB")).align(some[:1])
    EflomalAligner(languages=("zh", "ko")).align(some[1:])  # without a stemmer: one spelling
    assert [(call["source"], call["target"]) for call in fake] == [
        (["die haus"], ["the hous"]),
        (["die häuser"], ["the hous"]),
        (["图书馆"], ["library"]),
    ]


def test_links_of_the_parts_of_a_compound_are_links_of_the_word(fake: list[dict[str, Any]]) -> None:
    simple_words = [("Herz", "heart"), ("Infarkt", "infarct")] * 5
    some = pairs(*simple_words, ("Mein Herzinfarkt", "my heart attack"))
    links = EflomalAligner("union", languages=("de", "en")).align(some)
    assert fake[0]["source"][-1] == "mein herz infarkt"
    assert links[-1] == [(0, 0), (1, 1), (1, 2)]
    assert EflomalAligner("union").align(some)[-1] == [(0, 0), (1, 1)]


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        ([("Herz", "heart"), ("Infarkt", "infarct")] * 4, "parts that occur four times"),
        (
            [("Herz", "heart"), ("Infarkt", "infarct")] * 8 + [("Herzinfarkt", "heart attack")] * 8,
            "less frequent parts",
        ),
        (
            [("Herz", "heart"), ("Infarkt", "infarct")] * 300 + [("Herzinfarkt", "heart attack")] * 100,
            "more than 100 times",
        ),
    ],
)
def test_a_compound_without_more_frequent_parts_stays_whole(
    fake: list[dict[str, Any]], texts: list[tuple[str, str]], reason: str
) -> None:
    some = pairs(*texts, ("Herzinfarkt", "heart attack"))
    EflomalAligner(languages=("de", "en")).align(some)
    assert fake[0]["source"][-1] == "herzinfarkt", reason


def test_a_very_long_word_stays_whole(fake: list[dict[str, Any]]) -> None:
    some = pairs(*[("haus", "house")] * 200, ("haus" * 30, "houses"))
    EflomalAligner(languages=("de", "en")).align(some)
    assert fake[0]["source"][-1] == "haus" * 30


def test_priors_count_the_parts_of_compounds(fake: list[dict[str, Any]]) -> None:
    simple_words = pairs(*[("Herz", "heart"), ("Infarkt", "infarct")] * 5)
    aligner = EflomalAligner(languages=("de", "en"))
    compounds = pairs(("Herzinfarkt", "heart attack"))
    aligner.learn([*((*pair, [(0, 0)]) for pair in simple_words), *((*pair, [(0, 1)]) for pair in compounds)])
    aligner.align(pairs(("x", "y")))
    lexical = {line for line in fake[0]["priors"] if line.startswith("LEX")}
    assert lexical == {
        "LEX\therz\theart\t5", "LEX\tinfarkt\tinfarct\t5", "LEX\therz\tattack\t1", "LEX\tinfarkt\tattack\t1",
    }  # fmt: skip


def test_both_directions_are_links_from_source_to_target(monkeypatch: pytest.MonkeyPatch) -> None:
    class Aligner:
        def __init__(self, model: int) -> None:
            pass

        def align(self, source: Any, target: Any, **files: Any) -> None:
            Path(files["links_filename_fwd"]).write_text("0-1 1-1\n", "ascii")
            Path(files["links_filename_rev"]).write_text("0-0 0-1\n", "ascii")

    monkeypatch.setitem(sys.modules, "eflomal", SimpleNamespace(Aligner=Aligner))
    some = pairs(("ein Haus", "a house"), ("", "door"))
    assert EflomalAligner().directions(some) == [([(0, 1), (1, 1)], [(0, 0), (0, 1)]), ([], [])]
    assert EflomalAligner("intersection").align(some) == [[(0, 1)], []]


def test_chunks_after_the_first_get_its_priors(fake: list[dict[str, Any]]) -> None:
    some = pairs(("Ein Haus", "A house"), ("Haus", "house"), ("Tür", "door"))
    EflomalAligner(chunk=2).align(some)
    assert [len(call["source"]) for call in fake] == [2, 1]
    assert fake[0]["priors"] is None
    lexical = ["LEX\tein\ta\t1", "LEX\thaus\thouse\t2"]
    fertilities = ["FERF\tein\t1\t1", "FERF\thaus\t1\t2", "FERR\ta\t1\t1", "FERR\thouse\t1\t2"]
    jumps = ["HMMF\t1\t5", "HMMR\t1\t5"]  # from before the first word to behind the last: 1 1 1 and 1 1
    assert sorted(fake[1]["priors"]) == sorted(lexical + fertilities + jumps)


def test_priors_from_what_is_aligned_already(fake: list[dict[str, Any]]) -> None:
    aligner = EflomalAligner()
    aligner.learn([(*pairs(("a b", "c d"))[0], [(0, 1)])])
    aligner.align(pairs(("x", "y")))
    # source word 0 for target word 1: from -1 to 0, then to the end, 2; target word 1 for source word 0: 2, then 1
    assert set(fake[0]["priors"]) == {
        "LEX\ta\td\t1", "FERF\ta\t1\t1", "FERR\td\t1\t1", "HMMF\t1\t1", "HMMF\t2\t1", "HMMR\t2\t1", "HMMR\t1\t1",
    }  # fmt: skip


def test_white_space_and_surrogates_inside_a_word(fake: list[dict[str, Any]]) -> None:
    odd = TokenizedSentence("1 000 \ud800", [(0, 5), (6, 7)])
    EflomalAligner().align([(odd, odd)])
    assert fake[0]["source"] == ["1_000 ?"]


def test_a_beginning_without_words_teaches_nothing(fake: list[dict[str, Any]]) -> None:
    aligner = EflomalAligner(chunk=1)
    aligner.align(pairs(("", ""), ("Haus", "house"), ("Tür", "door")))
    assert [call["priors"] is None for call in fake] == [True, False]  # not: no priors that count as learnt
    aligner.learn([(*pairs(("", ""))[0], [])])
    aligner.align(pairs(("Haus", "house")))
    assert fake[2]["priors"] is None


@pytest.mark.parametrize("written", ["", "0-0\n", "0-0\n0-"])
def test_a_program_that_stops_early_is_one_error(monkeypatch: pytest.MonkeyPatch, written: str) -> None:
    class Aligner:
        def __init__(self, model: int) -> None:
            pass

        def align(self, source: Any, target: Any, **files: Any) -> None:
            for name in ("links_filename_fwd", "links_filename_rev"):
                Path(files[name]).write_text(written, "ascii")

    monkeypatch.setitem(sys.modules, "eflomal", SimpleNamespace(Aligner=Aligner))
    with pytest.raises(InputError, match="eflomal ended before all links were written"):
        EflomalAligner().align(pairs(("Haus", "house"), ("Tür", "door")))


def test_the_real_one() -> None:
    pytest.importorskip("eflomal")
    texts = [(f"{a} {b}", f"{b.upper()} {a.upper()}x") for a in "abcdefgh" for b in "klmnop"]
    some = pairs(*texts)
    aligner = EflomalAligner("intersection", chunk=40)  # 48 pairs: the last 8 stand on the priors
    right = [set(links) <= {(0, 1), (1, 0)} and links for links in aligner.align(some)]
    assert sum(map(bool, right)) >= 40


def test_texts_are_not_tokenized_sentences(fake: list[dict[str, Any]]) -> None:
    with pytest.raises(InputError, match=r"expected pairs of sentences, each as TokenizedSentence\.of\(text\)"):
        EflomalAligner().align([("Der Hund", "The dog")])  # type: ignore[list-item]
