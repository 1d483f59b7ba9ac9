"""Lines in, translations out; related sentences; examples for fine-tuning."""

from __future__ import annotations

import json
import random
import shutil
import tracemalloc
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llm_double import ENGLISH

from phrasemate import Document, Index, Model
from phrasemate.errors import InputError
from phrasemate.mt import FORMS, Answer, Hinter, Hints, Prompt, Prompter, RelatedSentences, Retrieval, Translator
from phrasemate.mt.prompt import translation_of
from phrasemate.mt.translate import BATCH, apart, lessons, sampled, write_lessons


class Upper:
    """Answers each prompt by its sentence in capitals, or as told."""

    def __init__(self, *arguments: Answer) -> None:
        self.told = list(arguments)

    def answers(self, prompts: Iterable[Prompt]) -> Iterator[Answer]:
        waiting: list[Prompt] = []
        for prompt in prompts:  # some are taken ahead, as the client does
            waiting.append(prompt)
            if len(waiting) == 3:
                yield self.one(waiting.pop(0))
        yield from map(self.one, waiting)

    def one(self, prompt: Prompt) -> Answer:
        return self.told.pop(0) if self.told else Answer(prompt.ask.splitlines()[-2].partition(": ")[2].upper())


PLAIN = Translator(Prompter(FORMS["plain"], "de", "en"), Retrieval())


@pytest.mark.parametrize("blank", [[], [0], [3], [0, 1, 9], list(range(10))])
def test_one_translation_a_line_in_order_blank_lines_too(blank: list[int]) -> None:
    lines = ["  " if number in blank else f"Satz\u00a0 {number}" for number in range(10)]
    items = list(PLAIN.translate(lines, Upper()))
    assert [item.text for item in items] == ["" if number in blank else f"SATZ {number}" for number in range(10)]
    assert [entry.request.number for entry in items] == list(range(1, 11))
    assert not any(element.failure for element in items)


def test_more_lines_than_are_looked_up_at_once() -> None:
    lines = [f"Satz {number}" for number in range(BATCH + 3)]
    assert [translation.text for translation in PLAIN.translate(lines, Upper())] == [line.upper() for line in lines]


def test_one_line_is_not_a_list_of_lines() -> None:
    with pytest.raises(InputError, match="expected a list of lines; put one alone in brackets"):
        list(PLAIN.translate("Guten Morgen.", Upper()))


def test_failures_keep_their_place() -> None:
    items = [Answer("eins"), Answer("", failure="the server said 500"), Answer("   \n"), Answer("vier\nand more")]
    result = list(PLAIN.translate(["1", "2", "3", "4"], Upper(*items)))
    assert [item.text for item in result] == ["eins", "", "", "vier"]
    assert [entry.failure for entry in result] == ["", "the server said 500", "the answer is empty", ""]


@pytest.mark.parametrize(
    ("answer", "marker", "expected"),
    [
        (" A bank.\n\nNote: or a bench.", "", ("A bank.", "")),
        ("<think>Bank?\nbench?</think>\nA bench.", "", ("A bench.", "")),
        ("<think>never ends", "", ("", "the answer is empty")),
        ("A bench\u2028in\x85a park.\r\nNote: or a bank.", "", ("A bench in a park.", "")),
        ("bank; river => A  bank.", "=>", ("A bank.", "")),
        ("bank; river", "=>", ("", "the answer holds no '=>'")),
    ],
)
def test_what_of_an_answer_is_the_translation(answer: str, marker: str, expected: tuple[str, str]) -> None:
    assert translation_of(answer, marker) == expected


def test_phrases_that_stand_apart() -> None:
    assert apart(["alte", "alte Haus", "Haus", "Fluss", "Fluss"]) == ["alte Haus", "Fluss"]
    assert len(apart([f"wort{n:02}" for n in range(30)], most=8)) == 8


def test_a_record_tells_prompt_hints_and_sources(index: Index) -> None:
    hinter = Hinter(index, Hints(floor=0.3, per_word=0, threshold=0.3, confidence=0))
    translator = Translator(Prompter(FORMS["phrases"], "de", "en"), Retrieval(hinter))
    (translation,) = translator.translate(["Das Motorrad stand vor dem Haus."], Upper())
    record = json.loads(json.dumps(translation.as_dict()))
    assert record["hints"]
    for hint in record["hints"]:
        assert hint["phrase"] == record["source"][hint["start"] : hint["end"]]
        assert f"{hint['phrase']} = {hint['equivalents'][0]['text']}" in record["prompt"]
        (place,) = hint["equivalents"][0]["places"]
        assert place["document"] == "english"
        assert place["context"].replace("[[", "").replace("]]", "") == ENGLISH[place["line"] - 1]
    assert record["translation"] == "DAS MOTORRAD STAND VOR DEM HAUS."


def test_related_sentences_are_the_nearest_and_kept(index: Index, tmp_path: Path) -> None:
    events: list[int] = []
    related = RelatedSentences(index, tmp_path, lambda what, result, total: events.append(result))
    queries = ["Die Polizei sperrte die Straße.", "Sie tranken Kaffee in der Küche."]
    neighbours = related(queries)
    vectors = index.model.encode_sentences(list(ENGLISH)).astype(np.float16).astype(np.float32)  # type: ignore[union-attr]
    scores = index.model.encode_sentences(queries) @ vectors.T  # type: ignore[union-attr]
    assert [text for text, _ in neighbours] == [ENGLISH[row] for row in scores.argmax(1)]
    np.testing.assert_allclose([score for _, score in neighbours], scores.max(1), atol=1e-5)
    assert neighbours[0][0] == "The police closed the road after the accident."
    assert events == [len(ENGLISH)]
    (file,) = tmp_path.iterdir()
    stamp = file.stat().st_mtime_ns
    assert RelatedSentences(index, tmp_path)(queries) == neighbours
    assert file.stat().st_mtime_ns == stamp
    translator = Translator(Prompter(FORMS["sentence"], "de", "en"), Retrieval(related=related))
    (request,) = translator.requests(queries[:1])
    assert request.prompt is not None
    assert "Related English sentence: The police closed" in request.prompt.ask


class Counted:
    """A model that counts what it encodes."""

    def __init__(self, model: Any) -> None:
        self.model, self.width, self.sentences = model, model.width, 0

    def encode_sentences(self, texts: list[str]) -> Any:
        self.sentences += len(texts)
        return self.model.encode_sentences(texts)


def test_vectors_of_sentences_are_of_the_texts_that_are_there(model: Model, tmp_path: Path) -> None:
    """Whatever was indexed at this place before, and however often it has changed."""

    def encoded(*texts: str) -> int:
        with Index.open(tmp_path / "idx", model, readonly=True, threads=1) as index:
            counted = Counted(model)
            index._model = counted  # type: ignore[assignment]
            related = RelatedSentences(index, tmp_path / "cache")
            related.model = model
            neighbours = related(list(texts))
            assert [text for text, _ in neighbours] == list(texts)
            assert all(score > 0.99 for _, score in neighbours)
            return counted.sentences

    with Index.create(tmp_path / "idx", model, threads=1) as index:
        index.add([Document.from_texts("a", ENGLISH[:4])], lang="en")
    assert encoded(ENGLISH[0], ENGLISH[3]) == 4
    with Index.open(tmp_path / "idx", model, threads=1) as index:
        index.add([Document.from_texts("b", ENGLISH[4:6])], lang="en")
        index.delete("a")
        index.add([Document.from_texts("c", ENGLISH[3:4])], lang="en")
    assert encoded(ENGLISH[3], ENGLISH[4], ENGLISH[5]) == 2  # the two of b; that of c is known
    shutil.rmtree(tmp_path / "idx")
    with Index.create(tmp_path / "idx", model, threads=1) as index:
        index.add([Document.from_texts("d", ENGLISH[6:])], lang="en")
    assert encoded(*ENGLISH[6:]) == len(ENGLISH) - 6
    (file,) = (tmp_path / "cache").iterdir()
    with np.load(file) as stored:
        assert len(stored["vectors"]) == len(ENGLISH) - 6  # what is gone is not kept
    file.write_bytes(file.read_bytes()[:100])
    assert encoded(*ENGLISH[6:]) == len(ENGLISH) - 6


PAIRS = [
    ("Die Polizei sperrte die Straße nach dem Unfall.", "The police closed the road after the accident."),
    ("Sie tranken jeden Morgen Kaffee in der Küche.", "They drank coffee in the kitchen every morning."),
]


def test_lessons_never_show_a_sentence_its_own_translation(index: Index, tmp_path: Path) -> None:
    hinter = Hinter(index, Hints(floor=0.0, per_word=0, threshold=0.3, contexts=3, confidence=0))
    prompter = Prompter(FORMS["phrases"], "de", "en")
    lesson_list = list(lessons(PAIRS, prompter, Retrieval(hinter)))
    assert [lesson.reference for lesson in lesson_list] == [target for _, target in PAIRS]
    for lesson in lesson_list:
        assert " = " in lesson.prompt.ask
        places = [
            line.partition('("')[2].replace("[[", "").replace("]]", "") for line in lesson.prompt.ask.splitlines()
        ]
        assert not any(lesson.reference[:20] in place for place in places)
    related = RelatedSentences(index, tmp_path)
    (request, _) = lessons(PAIRS, Prompter(FORMS["sentence"], "de", "en"), Retrieval(related=related))
    assert PAIRS[0][1] not in request.prompt.ask


def test_nor_one_of_its_sentences(index: Index, tmp_path: Path) -> None:
    """The index has sentences; a reference may be a paragraph."""
    both = [tuple(" ".join(side) for side in zip(*PAIRS, strict=True))]
    hinter = Hinter(index, Hints(floor=0.0, per_word=0, threshold=0.3, contexts=3, confidence=0))
    (lesson,) = lessons(both, Prompter(FORMS["phrases"], "de", "en"), Retrieval(hinter))
    assert " = " in lesson.prompt.ask
    events = lesson.prompt.ask.replace("[[", "").replace("]]", "")
    assert not any(target[:20] in events for _, target in PAIRS)
    nearest = RelatedSentences(index, tmp_path)
    ((text, score),) = nearest([both[0][0]], [both[0][1]])
    ((best, most),) = nearest([both[0][0]])
    assert best in both[0][1]
    assert text not in both[0][1]
    assert 0 < score <= most
    (request,) = lessons(both, Prompter(FORMS["sentence"], "de", "en"), Retrieval(related=nearest))
    assert text in request.prompt.ask


def test_lessons_are_written_as_chat_and_as_plain_text(tmp_path: Path) -> None:
    chat, plain = tmp_path / "x.chat.jsonl", tmp_path / "x.plain.jsonl"
    prompter = Prompter(FORMS["plain"], "de", "en")
    assert write_lessons(lessons(PAIRS, prompter, Retrieval()), chat, plain) == 2
    first, _ = map(json.loads, chat.read_text().splitlines())
    assert first["messages"][-1] == {"role": "assistant", "content": PAIRS[0][1]}
    assert first["messages"][0]["content"] == prompter.prompt(PAIRS[0][0]).text
    first, _ = map(json.loads, plain.read_text().splitlines())
    assert first == {"prompt": prompter.prompt(PAIRS[0][0]).text, "completion": f" {PAIRS[0][1]}"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.chat.jsonl", "x.plain.jsonl"]


def test_a_form_that_asks_twice_makes_no_lessons() -> None:
    with pytest.raises(InputError, match="the second prompt of this form"):
        list(lessons(PAIRS, Prompter(FORMS["cot"], "de", "en"), Retrieval()))


def test_the_sample_is_the_same_each_time_and_leaves_out_what_is_not_pair() -> None:
    good = [(f"Dies ist der Satz Nummer {n}.", f"This is the sentence number {n}.") for n in range(50)]
    bad = [("kurz", "short"), ("x" * 30, "y" * 200), ("The same text stands here.", "The same text stands here.")]
    some = sampled([*bad, *good, *good], count=10, seed=1)
    assert len(set(some)) == 10
    assert set(some) <= set(good)
    assert sampled([*bad, *good], count=10, seed=1) == some
    assert sampled(good, count=10, seed=2) != some
    assert len(sampled(good, count=1_800)) == 50
    with pytest.raises(InputError, match="no sentence pairs"):
        sampled(bad)


def test_every_pair_has_the_same_chance() -> None:
    good = [(f"Dies ist der Satz Nummer {n}.", f"This is the sentence number {n}.") for n in range(10)]
    times = dict.fromkeys(good, 0)
    for seed in range(400):
        for pair in sampled(good, count=3, seed=seed):
            times[pair] += 1
    # 400 draws of 3 in 10: 120 each, with a deviation of sqrt(400 x .3 x .7) = 9.2
    assert all(abs(count - 120) < 4 * 9.2 for count in times.values())


def test_pairs_are_drawn_without_holding_the_text() -> None:
    def every() -> Iterator[tuple[str, str]]:
        for n in range(30_000):
            yield f"Dies ist der Satz Nummer {n}.", f"This is the sentence number {n}."

    tracemalloc.start()
    some = sampled(every(), count=10)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(set(some)) == 10
    assert peak < 200_000  # all pairs would take 15 MB


def test_a_sentence_that_another_process_deletes_is_found_no_more(model: Model, tmp_path: Path) -> None:
    with Index.create(tmp_path / "idx", model, threads=1) as index:
        index.add([Document.from_texts(name, [text]) for name, text in zip("ab", ENGLISH, strict=False)])
    query = ["Sie eröffnete ein Sparkonto bei einer kleinen Bank."]
    with Index.open(tmp_path / "idx", model, readonly=True, threads=1) as index:
        related = RelatedSentences(index, tmp_path / "cache")
        assert related(query)[0][0] == ENGLISH[0]
        with Index.open(tmp_path / "idx", model, threads=1) as other:
            other.delete("a")
        assert related(query)[0][0] == ENGLISH[1]


def test_related_sentences_are_in_the_target_language(model: Model, tmp_path: Path) -> None:
    query = ["Der Polizist öffnete das Fenster."]
    texts = {"de": "Der Polizist öffnete die Tür.", "en": "The man opened a door.", "fr": "Un homme ouvrit la porte."}
    with Index.create(tmp_path / "idx", model, threads=1) as index:
        for language in ("de", "en"):
            index.add([Document.from_texts(language, [texts[language]])], lang=language)
        french = RelatedSentences(index, tmp_path / "cache", language="fr")
        nearest = {tag: RelatedSentences(index, tmp_path / "cache", language=tag)(query)[0][0] for tag in ("", "en-GB")}
        assert nearest == {"": texts["de"], "en-GB": texts["en"]}
        assert french(query)[0][0] == texts["de"]  # the index has no French
        index.add([Document.from_texts("fr", [texts["fr"]])], lang="fr-CA")
        assert french(query)[0][0] == texts["fr"]
        events: list[int] = []
        for tag in ("en", "fr"):
            RelatedSentences(index, tmp_path / "cache", lambda what, step, total: events.append(step), tag)
        assert not events  # the vectors of each language are stored


def test_of_no_sentence_and_in_no_text_nothing_is_related(model: Model, tmp_path: Path) -> None:
    with Index.create(tmp_path / "idx", model, threads=1) as index:
        assert RelatedSentences(index, tmp_path / "empty")(["Ja."]) == [("", 0.0)]
        index.add([Document.from_texts("a", ENGLISH[:1])])
        assert RelatedSentences(index, tmp_path / "cache")([]) == []


def test_vectors_that_cannot_be_kept_are_one_error(index: Index, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(InputError, match=r"cache/deep: cannot be made \(Not a directory\); check permissions"):
        RelatedSentences(index, tmp_path / "cache" / "deep")


def test_kept_vectors_that_are_damaged_are_made_again(index: Index, tmp_path: Path) -> None:
    expected = RelatedSentences(index, tmp_path)(["Sie tranken Kaffee."])
    (file,) = tmp_path.iterdir()
    whole, draw = file.read_bytes(), random.Random(1)
    central = whole.index(b"PK\1\2")
    places = [draw.randrange(len(whole)) for _ in range(10)]
    for at in [*places, *range(central, central + 12)]:  # method and flags of packing among them
        related = RelatedSentences.__new__(RelatedSentences)
        related._path, related.model = file, index.model
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 0x49]) + whole[at + 1 :])
        digests, vectors = related._read_file()
        assert len(digests) in (0, len(ENGLISH))
        if len(digests):
            file.write_bytes(whole)
            np.testing.assert_array_equal(related._read_file()[1], vectors)
    assert RelatedSentences(index, tmp_path)(["Sie tranken Kaffee."]) == expected
