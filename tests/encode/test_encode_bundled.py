"""The model that comes with the package (skipped where it was not made: phrasemate model export makes it)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import phrasemate as pm
from phrasemate.encode import Model, bundled_folder, load_model

pytestmark = pytest.mark.slow

GERMAN = (
    "Sie geht morgen zur Bank, um Geld abzuheben.",
    "Der alte Mann saß auf einer Bank im Park.",
    "Im Frühling blühen die Kirschbäume.",
    "Am Samstag hat es den ganzen Tag geregnet.",
    "Wir haben den Zug um fünf Minuten verpasst.",
    "Das Kind schläft schon.",
)
ENGLISH = (
    "Tomorrow she will go to the bank to withdraw some money.",
    "The old man was sitting on a bench in the park.",
    "The cherry trees blossom in spring.",
    "It rained all day on Saturday.",
    "We missed the train by five minutes.",
    "The child is asleep already.",
)


def marked(text: str, phrase: str) -> pm.Phrase:
    return pm.Phrase(text, text.index(phrase), text.index(phrase) + len(phrase))


def test_the_folder(bundled: Model) -> None:
    files = list(bundled_folder().iterdir())
    assert sum(path.stat().st_size for path in files) <= 80_000_000
    licences = [path for path in files if path.name.startswith("LICENSE")]
    assert len(licences) == 1
    assert "MIT" in licences[0].read_text("utf-8")
    assert (bundled.path, bundled.name) == (None, "e5-small-ccpr")
    assert bundled.config["signature"]


def test_models_with_the_same_tokenizer_share_it(models: dict[str, Model]) -> None:
    path = models["xlmr"].path
    first, again = load_model(path, threads=1), load_model(path, threads=1)
    assert first.runtime.tokenizer is again.runtime.tokenizer
    other = load_model(models["bert"].path, threads=1)  # another one takes its place
    assert other.runtime.tokenizer is not first.runtime.tokenizer
    third = load_model(path, threads=1)
    np.testing.assert_array_equal(first.encode_sentences(GERMAN), third.encode_sentences(GERMAN))
    np.testing.assert_array_equal(other.encode_sentences(["a bank"]), models["bert"].encode_sentences(["a bank"]))


def test_phrasal_verbs_are_phrases(bundled: Model) -> None:
    text = "Carry out the plan, as he never gave up, but put his hands up."
    phrases = {text[span.start : span.end] for span in bundled.segment([text])[0]}
    assert {"Carry out", "gave up"} <= phrases
    assert "hands up" not in phrases
    segments = [text[span.start : span.end] for span in bundled.segment([text], overlapping=False)[0]]
    assert {"Carry out", "gave up"} <= set(segments)


def test_inflected_japanese_words_are_phrases(bundled: Model) -> None:
    for text, word in [
        ("彼は私のことを知っている。", "知っている"),
        ("姉は鍵を見つけた。", "見つけた"),
        ("庭は美しかった。", "美しかった"),
    ]:
        assert word in [text[span.start : span.end] for span in bundled.segment([text])[0]]


def test_the_readme_line(bundled: Model) -> None:
    phrase = pm.Phrase("Er sitzt auf der Bank.", 17, 21)
    assert phrase.text == "Bank"
    vectors = bundled.encode([phrase])
    assert (vectors.shape, vectors.dtype) == ((1, bundled.dim), np.float32)
    assert np.linalg.norm(vectors) == pytest.approx(1, abs=1e-5)
    assert bundled.encode_sentences(["…"]).shape == (1, bundled.width)


def test_mates_are_nearest(bundled: Model) -> None:
    similar = bundled.encode_sentences(GERMAN) @ bundled.encode_sentences(ENGLISH).T
    assert similar.argmax(1).tolist() == similar.argmax(0).tolist() == list(range(len(GERMAN)))


CASTLE = "The queen lives in an old castle."


@pytest.mark.parametrize(
    ("text", "phrase", "right", "wrong"),
    [
        (GERMAN[0], "Bank", (ENGLISH[0], "bank"), (ENGLISH[1], "bench")),
        ("Der Schlüssel steckt im Schloss.", "Schloss", ("The key is in the lock.", "lock"), (CASTLE, "castle")),
        ("Die Königin wohnt im Schloss.", "Schloss", (CASTLE, "castle"), ("The key is in the lock.", "lock")),
        (GERMAN[2], "Frühling", (ENGLISH[2], "spring"), ("The spring of the clock broke.", "spring")),
        (GERMAN[4], "verpasst", (ENGLISH[4], "missed"), ("She missed her brother a lot.", "brother")),
        ("银行昨天关门了。", "银行", ("The bank was closed.", "bank"), ("The bench was closed.", "bench")),
    ],
)
def test_meaning_in_context(
    bundled: Model, text: str, phrase: str, right: tuple[str, str], wrong: tuple[str, str]
) -> None:
    query, near, far = bundled.encode([marked(text, phrase), marked(*right), marked(*wrong)])
    assert query @ near > query @ far


def mates(seed: int) -> list[str]:
    drawn = np.random.default_rng(seed)
    words = " ".join(GERMAN + ENGLISH).split()
    return [" ".join(words[i] for i in drawn.integers(0, len(words), n)) for n in drawn.integers(1, 90, 12)]


@pytest.mark.parametrize("seed", range(2))
def test_the_same_sentence_whatever_its_batch(bundled: Model, seed: int) -> None:
    texts = [GERMAN[0], ENGLISH[1], "Ja."]
    alone = np.concatenate([bundled.encode_sentences([text]) for text in texts])
    together = bundled.encode_sentences([*mates(seed), *texts])[-len(texts) :]
    assert (alone * together).sum(1).min() >= 0.9999
    phrases = [marked(GERMAN[0], "Bank"), marked(ENGLISH[1], "bench")]
    others = [pm.Phrase(text, 0, 2) for text in mates(seed)]
    alone = np.concatenate([bundled.encode([phrase]) for phrase in phrases])
    assert (alone * bundled.encode([*others, *phrases])[-2:]).sum(1).min() >= 0.9999


def test_threads_hardly_matter(bundled: Model) -> None:
    """Products in float32 are cut otherwise. On some processors this turns the rounding of a state to eight bits."""
    texts = [*mates(5), *GERMAN]
    two = load_model(threads=2)
    vectors = bundled.encode_sentences(texts)
    assert (vectors * two.encode_sentences(texts)).sum(1).min() >= 0.9995
    np.testing.assert_array_equal(vectors, bundled.encode_sentences(texts))


def test_eight_threads_share_a_model(bundled: Model) -> None:
    """Each text alone, so that nothing but the other threads could change its vector."""
    texts = [*mates(7), *GERMAN, *ENGLISH]
    expected = [bundled.encode_sentences([text]) for text in texts]
    with ThreadPoolExecutor(8) as executor:
        vectors = list(executor.map(lambda text: bundled.encode_sentences([text]), texts * 9))
    np.testing.assert_array_equal(np.concatenate(vectors), np.concatenate(expected * 9))


@pytest.mark.parametrize("kind", ["learned", "ngram"])
def test_function_words_are_not_phrases(bundled: Model, kind: str) -> None:
    text = "Sie geht zu der Bank in der Stadt."
    segmenter = {"learned": bundled.learned, "ngram": bundled.ngram}[kind]
    assert segmenter is not None
    states = next(bundled.token_states([text]))
    (spans,) = segmenter.using(threshold=0.6).find([text], states).lists()
    results = {text[span.start : span.end] for span in spans}
    assert {"Bank", "Stadt", "Bank in der Stadt"} <= results
    assert not {"der", "zu", "in", "zu der"} & results


def test_the_learned_segmenter_is_the_default(bundled: Model) -> None:
    text = "We missed the train by five minutes because of the heavy rain."
    (spans,) = bundled.segment([text], threshold=0.7)
    scores = {text[span.start : span.end]: span.score for span in spans}
    assert {"train", "heavy rain", "five minutes"} <= set(scores)
    assert not {"the", "by", "of the"} & set(scores)
    assert scores["heavy rain"] < 1
