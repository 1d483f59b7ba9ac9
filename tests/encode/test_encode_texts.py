"""What must hold for any text and any batch: finite unit vectors, the same bits again, phrases on their words."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import encoders
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phrasemate.encode import Model, load_model
from phrasemate.encode.runtime import (
    CARD,
    PLAIN,
    ROW_TOKENS,
    TILES,
    Grid,
    _keep_texts_apart,
    _packed,
    _receive,
    _Window,
    _without,
    has_tiles,
    import_openvino,
)
from phrasemate.errors import InputError, ModelDamaged
from phrasemate.text.normalize import visible
from phrasemate.types import Phrase

pytestmark = pytest.mark.slow

ODD = {
    "empty": "",
    "white space": " \t\n\u00a0\u3000 ",
    "zero width": "\u200b\u200d\ufeff",
    "combining marks alone": "\u0301\u0308 \u0301",
    "emoji": "👩‍👩‍👧 🇩🇪 👍🏽",
    "right to left": "ذهبت إلى البنك. הלכתי לבנק.",
    "mixed": "Die Bank 银行 банк bank, ธนาคาร! 은행 ½ ﬁne",
    "NUL": "a\x00b\x01",
    "lone surrogate": "a bank \ud800 \udcff",
    "no space": "x" * 20_000,
    "no space, unknown": "好中" * 2_500,
    "one mark a thousand times": "a" + "\u0301" * 1_000,
    "private use": "\ue000 \U0010ffff",
}


@pytest.mark.parametrize("method", ["encode_sentences", "segment", "extract", "token_states", "ends"])
def test_one_text_is_not_a_list_of_texts(model: Model, method: str) -> None:
    with pytest.raises(InputError, match="'a text': expected a list of texts; put one alone in brackets"):
        list(getattr(model, method)("a text"))


def test_texts_are_not_phrases(model: Model) -> None:
    with pytest.raises(InputError, match=r"'a text': expected phrases, .*; encode_sentences takes texts"):
        model.encode(["a text"])  # type: ignore[list-item]


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
def test_odd_texts(model: Model, text: str) -> None:
    sentence, again = model.encode_sentences([text, text])
    np.testing.assert_allclose(sentence, again, atol=1e-6)
    assert np.linalg.norm(sentence) == pytest.approx(1, abs=1e-5)
    (phrase,) = model.extract([text])
    assert phrase.vectors.shape == (len(phrase.starts), model.dim)
    assert (phrase.starts < phrase.ends).all()
    assert (phrase.ends <= len(text)).all()
    spans = {(0, len(text)), (0, 1), (len(text) - 1, len(text))} if text else set()
    for pooling in ("ends", "mean", "cls"):
        vectors = model.encode([Phrase(text, *span) for span in spans], pooling=pooling)
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


@given(text=st.text(st.characters(), max_size=60), data=st.data())
@settings(max_examples=40, deadline=None)
def test_any_text_and_any_span(models: dict[str, Model], text: str, data: st.DataObject) -> None:
    model = models["xlmr"]
    (states,) = model.token_states([text])
    assert (np.diff(states.starts) >= 0).all()
    assert (np.diff(states.ends) >= 0).all()
    assert (states.starts <= states.ends).all()
    assert (states.starts[0], states.ends[0], states.ends[-1]) == (0, 0, len(text))
    if text:
        start = data.draw(st.integers(0, len(text) - 1))
        phrase = Phrase(text, start, data.draw(st.integers(start + 1, len(text))))
        assert np.linalg.norm(model.encode([phrase])) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(("start", "end"), [(-1, 2), (2, 2), (3, 2), (0, 7), (6, 7)])
def test_bad_offsets(start: int, end: int) -> None:
    with pytest.raises(InputError, match=rf"offsets {start}:{end} mark nothing in a text of 6 characters; expected"):
        Phrase("a bank", start, end)


def test_a_lone_surrogate_moves_no_offset(model: Model) -> None:
    text = "the \ud800 bank \udc00 river"
    (states,) = model.token_states([text])
    pieces = [text[a:b] for a, b in zip(states.starts, states.ends, strict=True)]
    assert {"the", "bank", "river"} <= set(pieces)
    (phrase,) = model.extract([text])
    assert {text[a:b] for a, b in zip(phrase.starts, phrase.ends, strict=True)} >= {"bank", "river"}


def mates(seed: int) -> list[str]:
    """Other texts of a batch, short and long."""
    drawn = np.random.default_rng(seed)
    words = " ".join(encoders.SENTENCES).split()
    return [" ".join(words[i] for i in drawn.integers(0, len(words), n)) for n in drawn.integers(1, 50, 40)]


@pytest.mark.parametrize("seed", range(3))
def test_the_same_whatever_the_batch(model: Model, seed: int) -> None:
    alone = np.concatenate([model.encode_sentences([text]) for text in encoders.SENTENCES])
    together = model.encode_sentences([*mates(seed), *encoders.SENTENCES])[-len(encoders.SENTENCES) :]
    assert (alone * together).sum(1).min() >= 0.9999


@given(st.lists(st.integers(1, 200), max_size=60))
def test_rows_hold_each_text_once_and_no_more_than_they_may(lengths: list[int]) -> None:
    windows = [_Window([0] * length, 0, length, number) for number, length in enumerate(sorted(lengths))]
    rows = _packed(windows)
    assert sorted(window.target for row in rows for window in row.windows) == list(range(len(lengths)))
    assert [row.tokens for row in rows] == sorted(row.tokens for row in rows)
    for row in rows:
        sizes = [len(window.ids) for window in row.windows]
        assert row.tokens == sum(sizes)
        assert row.tokens <= -(-max(sizes) // ROW_TOKENS) * ROW_TOKENS
    shares = [row.tokens / (-(-row.tokens // ROW_TOKENS) * ROW_TOKENS) for row in rows]
    assert sum(share <= 0.5 for share in shares) <= 1  # or the two rows would fit in one


@pytest.mark.parametrize(
    ("rows", "tokens", "shape"),
    [
        (1, 1, (1, 16)),  # 16 tokens, at most half a tile
        (1, 50, (1, 64)),  # the same: 64
        (2, 50, (2, 64)),  # 128
        (3, 50, (4, 64)),  # 192 would take longer than 256
        (1, 80, (1, 128)),  # nor 80, or 8 rows of 80, than 128
        (8, 80, (8, 80)),  # 640 are five tiles
        (7, 90, (8, 96)),  # 768 of eight rows of 96, 896 of seven of 128
        (1, 300, (1, 384)),  # three tiles
    ],
)
def test_a_pass_has_whole_tiles(rows: int, tokens: int, shape: tuple[int, int]) -> None:
    assert TILES.shape(rows, tokens) == shape


@given(st.integers(1, 700), st.integers(1, 600))
def test_a_pass_has_room_for_its_rows(rows: int, tokens: int) -> None:
    for grid in (PLAIN, TILES, CARD):
        count, length = grid.shape(rows, tokens)
        assert count >= rows
        assert length >= tokens
        assert length % grid.step == 0
        assert count * length % grid.tile == 0 or 2 * count * length <= grid.tile
    assert PLAIN.shape(rows, tokens) == (rows, -(-tokens // 4) * 4)


@pytest.mark.parametrize("grid", [PLAIN, TILES])
def test_states_do_not_depend_on_the_grid(model: Model, grid: Grid, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of padding change nothing, whether texts share rows or have their own."""
    texts = [*encoders.SENTENCES, *mates(1)]
    alone = np.concatenate([model.encode_sentences([text]) for text in texts])
    monkeypatch.setattr(model.runtime, "_grid", grid)
    for shares_rows in (True, False):
        monkeypatch.setattr(model.runtime, "_shares_rows", shares_rows)
        together = model.encode_sentences(texts)
        assert np.isfinite(together).all()
        assert (alone * together).sum(1).min() >= 0.9999


def test_texts_that_share_a_row_do_not_see_each_other(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten short texts fill fewer rows than one each, and have the same states; a bias of 0 would not."""
    texts = [*encoders.SENTENCES, "bank", "river bank", "old book", "the red house by the river"]
    rows: list[int] = []  # of each pass
    submit = model.runtime._queue.submit

    def counted(inputs: dict[str, np.ndarray], *rest: Any) -> None:
        rows.append(len(inputs["mask"]))
        submit(inputs, *rest)

    monkeypatch.setattr(model.runtime._queue, "submit", counted)
    monkeypatch.setattr(model.runtime, "_grid", PLAIN)  # without rows of padding
    assert model.runtime._shares_rows
    together = model.encode_sentences(texts)
    count, rows[:] = sum(rows), []
    monkeypatch.setattr(model.runtime, "_shares_rows", False)
    apart = model.encode_sentences(texts)
    assert count < sum(rows) == len(texts)
    assert (together * apart).sum(1).min() >= 0.9999


def test_a_graph_that_reads_its_mask_otherwise_stays_as_it_is() -> None:
    openvino = import_openvino()
    operations = openvino.opset13
    shape = openvino.PartialShape([-1, -1])
    mask = operations.parameter(shape, np.float32, name="mask")
    mask.output(0).set_names({"mask"})
    graph = openvino.Model([operations.multiply(mask, mask)], [mask], "other")
    before = [node.get_type_name() for node in graph.get_ordered_ops()]
    assert not _keep_texts_apart(graph)
    assert [node.get_type_name() for node in graph.get_ordered_ops()] == before


def test_a_mask_that_meets_an_addition_first_stays_as_it_is() -> None:
    openvino = import_openvino()
    operations = openvino.opset13
    mask = operations.parameter(openvino.PartialShape([-1, -1]), np.float32, name="mask")
    mask.output(0).set_names({"mask"})
    one = operations.constant(np.ones((), np.float32))
    bias = operations.unsqueeze(operations.multiply(operations.add(mask, one), one), np.array([1, 2]))
    graph = openvino.Model([bias], [mask], "other")
    before = [node.get_type_name() for node in graph.get_ordered_ops()]
    assert not _keep_texts_apart(graph)
    assert [node.get_type_name() for node in graph.get_ordered_ops()] == before


def test_states_of_another_form_are_damage_and_come_out_of_a_callback(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What OpenVINO calls must not raise."""
    states = np.zeros((1, 2, 3), np.float32)
    request = SimpleNamespace(get_tensor=lambda name: SimpleNamespace(data=states))
    queue = model.runtime._queue

    def submit(inputs: dict[str, np.ndarray], output: str, keep: Any) -> None:
        _receive(request, (output, keep, queue._failures, inputs))

    with monkeypatch.context() as patch:
        patch.setattr(queue, "submit", submit)
        with pytest.raises(ModelDamaged, match=r"gives float32 \(1, 2, 3\) for \(.*\); export the model again"):
            model.encode_sentences(["The old bank."])
    assert np.isfinite(model.encode_sentences(["The old bank."])).all()


def test_an_interrupted_call_leaves_no_request_behind(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """The callback of a request that ends while Python exits would abort the process."""
    queue = model.runtime._queue
    calls: list[str] = []

    def submit(*_: object) -> None:
        calls.append("submit")
        raise KeyboardInterrupt

    monkeypatch.setattr(queue, "submit", submit)
    monkeypatch.setattr(queue, "wait", lambda: calls.append("wait"))
    with pytest.raises(KeyboardInterrupt):
        model.encode_sentences(["The old bank."])
    assert calls == ["submit", "wait"]


def test_a_processor_tells_whether_it_has_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> str:
        raise PermissionError

    for flags, expected in (("fpu amx_bf16 amx_tile", True), ("fpu avx2", False)):
        monkeypatch.setattr(Path, "read_text", lambda *_, flags=flags: f"flags : {flags}\n")
        assert has_tiles() is expected
    monkeypatch.setattr(Path, "read_text", refuse)
    assert has_tiles() is False


def test_a_loaded_module_stays_where_another_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("phrasemate_other")
    monkeypatch.setitem(sys.modules, "phrasemate_other", module)
    with _without("phrasemate_other"):
        assert import_module("phrasemate_other") is module
    assert sys.modules["phrasemate_other"] is module
    with _without("phrasemate_nothing"), pytest.raises(ModuleNotFoundError):
        import_module("phrasemate_nothing")
    assert "phrasemate_nothing" not in sys.modules


def test_a_model_says_what_it_is_and_refuses_prompts_that_it_lacks(model: Model) -> None:
    assert repr(model) == f"Model({model.name!r}, dim={2 * encoders.HIDDEN})"
    with pytest.raises(InputError, match="prompt 'query': the model has no prompts by name"):
        model.encode_sentences(["The old bank."], prompt="query")


def test_the_same_bits_again(model: Model) -> None:
    texts = [*encoders.SENTENCES, *mates(7), *ODD.values()]
    np.testing.assert_array_equal(model.encode_sentences(texts), model.encode_sentences(texts))
    for one, other in zip(model.extract(texts), model.extract(texts), strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_few_texts_are_cut_into_passes_for_several_threads_only(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [" ".join(encoders.SENTENCES)] * 8
    passes = []
    for runtime in (model.runtime, load_model(model.folder, threads=2).runtime):
        submitted: list[int] = []
        submit = runtime._queue.submit
        monkeypatch.setattr(
            runtime._queue, "submit", lambda *work, s=submit, c=submitted: (c.append(len(work[0]["mask"])), s(*work))
        )
        for _ in runtime.blocks(texts):
            pass
        passes.append(submitted)
    one, two = passes
    assert one == [8]
    assert len(two) > 1
    assert sum(two) == 8


def test_the_same_bits_with_two_threads(model: Model) -> None:
    texts = [*encoders.SENTENCES, *mates(8)]
    two = load_model(model.folder, threads=2)
    assert (model.runtime.threads, two.runtime.threads) == (1, 2)
    np.testing.assert_array_equal(model.encode_sentences(texts), two.encode_sentences(texts))
    for bad in (0, -1):
        with pytest.raises(InputError, match=f"threads: {bad}; expected 1 or more"):
            load_model(model.folder, threads=bad)


def test_extract_is_segment_and_encode(model: Model) -> None:
    texts = [*encoders.SENTENCES, "", "…", "the 12"]
    frequent = frozenset({"the", "was"})
    spans = model.segment(texts, frequent)
    for text, result, expected in zip(texts, model.extract(texts, frequent), spans, strict=True):
        assert list(zip(result.starts, result.ends, result.scores, strict=True)) == expected
        assert [array.dtype for array in result] == [np.int32, np.int32, np.float32, np.float32]
        vectors = model.encode([Phrase(text, span.start, span.end) for span in expected])
        np.testing.assert_allclose((result.vectors * vectors).sum(1), 1, atol=1e-4)
    assert model.extract([]) == []
    assert model.segment([]) == []
    assert model.encode_sentences([]).shape == (0, encoders.HIDDEN)


def test_context_counts(model: Model) -> None:
    money, river = Phrase("He sat on the bank", 14, 18), Phrase("A red bank was hot", 6, 10)
    a, b, again = model.encode([money, river, money])
    assert a @ again == pytest.approx(1, abs=1e-5)
    assert a @ b < 0.999


def test_what_is_not_seen_is_not_encoded_and_offsets_are_those_of_the_text(model: Model) -> None:
    plain = "Die alte Bank steht im Park"
    text = "\ufeffDie al\u00adte Bank\u200e ste\u2060ht im Park"
    np.testing.assert_array_equal(model.encode_sentences([text]), model.encode_sentences([plain]))
    bank = Phrase(plain, plain.index("Bank"), plain.index("Bank") + 4)
    for end in (0, 1):  # without the mark behind it, and with it
        marked = Phrase(text, text.index("Bank"), text.index("Bank") + 4 + end)
        np.testing.assert_array_equal(model.encode([marked]), model.encode([bank]))
    (plain_phrases,), (result,) = model.extract([plain]), model.extract([text])
    np.testing.assert_array_equal(result.vectors, plain_phrases.vectors)
    wordings = [text[a:b] for a, b in zip(result.starts, result.ends, strict=True)]
    assert [visible(wording) for wording in wordings] == [
        plain[a:b] for a, b in zip(plain_phrases.starts, plain_phrases.ends, strict=True)
    ]
    assert "al\u00adte Bank" in wordings


def test_a_long_text_with_what_is_not_seen(model: Model) -> None:
    text = "Gar\u00adten \u200e" * 5_000  # more than a stretch
    (phrase,) = model.extract([text])
    assert {visible(text[a:b]).strip() for a, b in zip(phrase.starts, phrase.ends, strict=True)} >= {"Garten"}
    assert (phrase.ends <= len(text)).all()
