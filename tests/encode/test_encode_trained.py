"""Trained weights: their export, the model that has them, and heads that are damaged."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import encoders
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from phrasemate.encode import LearnedSegmenter, Model, NgramSegmenter, load_model
from phrasemate.encode.export.export import add_projection, export_model
from phrasemate.encode.model_folder import CONFIG, HEADS, write_manifest
from phrasemate.encode.pooling import for_inner_products, token_rows
from phrasemate.errors import InputError, ModelDamaged, ModelError
from phrasemate.index import Index
from phrasemate.text import words
from phrasemate.types import Document, Phrase

LONG = " ".join(encoders.SENTENCES * 6)  # several windows of 62 tokens
TEXTS = [*encoders.SENTENCES, "", "…!", "bank", "好的 中", LONG]
DAMAGES: list[tuple[dict[str, Any], str]] = [
    ({"end": None}, "holds the arrays bias, segment_bias"),
    ({"segment_end": None}, r"expected bias, end, segment_bias, segment_end, segment_start, start"),
    ({"other": np.zeros(1, np.float32)}, "holds the arrays bias, end, other"),
    ({"start": np.zeros((5, encoders.HIDDEN), np.float32)}, r"start has the shape \(5, 64\), expected \(64, 5\)"),
    ({"bias": np.zeros((1, 5), np.float32)}, r"bias has the shape \(1, 5\), expected \(5,\)"),
    ({"bias": np.zeros(0, np.float32)}, r"bias has the shape \(0,\)"),
    ({"segment_start": np.zeros(63, np.float32)}, r"segment_start has the shape \(63,\), expected \(64,\)"),
    ({"segment_bias": np.zeros((), np.float32)}, r"segment_bias has the shape \(\), expected \(1,\)"),
    ({"segment_bias": np.zeros(0, np.float32)}, r"segment_bias has the shape \(0,\), expected \(1,\)"),
    ({"segment_bias": np.zeros((2, 3), np.float32)}, r"segment_bias has the shape \(2, 3\), expected \(6,\)"),
    ({"segment_end": np.zeros(64)}, "segment_end is float64, expected float32"),
    ({"bias": np.zeros(5, np.float16)}, "bias is float16, expected float32"),
    ({"segment_start": np.full(64, np.nan, np.float32)}, "segment_start holds a value that is not finite"),
    ({"end": np.full((64, 5), np.inf, np.float32)}, "end holds a value that is not finite"),
]


@pytest.fixture
def source(folders: dict[str, Path], family: str, tmp_path: Path) -> Path:
    """A Hugging Face folder as training leaves it."""
    return encoders.save_trained(Path(shutil.copytree(folders[family], tmp_path / "source")))


@pytest.fixture(scope="module")
def exported(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Model folders of such ones; not to be changed."""
    base = tmp_path_factory.mktemp("exported")
    for name, folder in folders.items():
        source = encoders.save_trained(Path(shutil.copytree(folder, base / f"{name}-source")))
        export_model(source, base / name, segment_threshold=0.6)
    return {name: base / name for name in folders}


@pytest.fixture
def trained(exported: dict[str, Path], family: str) -> Model:
    return load_model(exported[family], threads=1)


def test_round_trip(source: Path, trained: Model) -> None:
    assert (trained.folder / HEADS).read_bytes() == (source / HEADS).read_bytes()
    assert (trained.folder / HEADS).stat().st_mode & 0o777 == 0o644
    assert (trained.pooling, trained.dim) == ("head", 5)
    assert trained.config["signature"] == {"steps": 3, "data": "tiny"}
    assert trained.config["segmenter"] == {"threshold": 0.6, "max_words": 6}
    learned, heads = trained.learned, encoders.heads()
    assert learned is not None
    assert trained.segmenter is learned
    assert (learned.threshold, learned.max_words, *learned.bias) == (0.6, 6, *heads["segment_bias"])
    np.testing.assert_array_equal(learned.end, heads["segment_end"])
    assert not (trained.folder / "training.json").exists()


def test_the_signature_that_is_given_wins(source: Path, tmp_path: Path) -> None:
    export_model(source, tmp_path / "out", signature={"data": "other", "seed": 1}, max_words=None, segment_threshold=0)
    model = load_model(tmp_path / "out", threads=1)
    assert model.config["signature"] == {"steps": 3, "data": "other", "seed": 1}
    assert isinstance(model.segmenter, LearnedSegmenter)
    assert (model.segmenter.threshold, model.segmenter.max_words) == (0, None)


def probabilities(model: Model, text: str) -> list[tuple[int, int, float]]:
    """Of every span of words, from the states of the ends of its words, one by one."""
    (states,) = model.token_states([text])
    heads, result, spans = encoders.heads(), words(text), []
    biases = heads["segment_bias"]
    for i, (start, _) in enumerate(result):
        for length, (_, end) in enumerate(result[i:]):
            tokens = [row for row in range(len(states.starts)) if states.ends[row] > start and states.starts[row] < end]
            first, last = states.values[tokens[0]], states.values[tokens[-1]]
            logit = first @ heads["segment_start"] + last @ heads["segment_end"] + biases[min(length, len(biases) - 1)]
            spans.append((start, end, 1 / (1 + np.exp(-logit))))
    return spans


@pytest.mark.parametrize("text", [*encoders.SENTENCES[:3], LONG[:500]])
def test_every_probability(trained: Model, text: str) -> None:
    result = trained.segment([text], threshold=0, max_words=None)[0]
    expected = probabilities(trained, text)
    assert [span[:2] for span in result] == [span[:2] for span in expected]
    np.testing.assert_allclose([s.score for s in result], [s[2] for s in expected], atol=1e-4)


def test_options_of_a_call(trained: Model) -> None:
    every = trained.segment(TEXTS, threshold=0, max_words=None)
    likely = trained.segment(TEXTS)
    assert 500 < sum(map(len, likely)) < sum(map(len, trained.segment(TEXTS, threshold=0)))
    for text, spans, some in zip(TEXTS, every, likely, strict=True):
        assert some == [s for s in spans if s.score >= 0.6 and len(words(text[s.start : s.end])) <= 6]
    sure = trained.segment(TEXTS, threshold=0.9, max_words=2, overlapping=False)
    assert [len(spans) for spans in sure] != [len(spans) for spans in likely]
    for spans in sure:
        assert all(one.end <= other.start for one, other in pairwise(spans))
    assert trained.segment(TEXTS) == likely  # the options were for one call


def test_extract_is_segment_and_encode_in_one_pass(trained: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    spans, passes = trained.segment(TEXTS, threshold=0.5), []
    blocks = trained.runtime.blocks
    with monkeypatch.context() as patch:
        patch.setattr(trained.runtime, "blocks", lambda texts: passes.append(list(texts)) or blocks(texts))
        extracted = trained.extract(TEXTS, {"the"}, threshold=0.5)
    assert passes == [TEXTS]
    for text, result, expected in zip(TEXTS, extracted, spans, strict=True):
        assert list(zip(result.starts, result.ends, result.scores, strict=True)) == expected
        assert [array.dtype for array in result] == [np.int32, np.int32, np.float32, np.float32]
        vectors = trained.encode([Phrase(text, span.start, span.end) for span in expected])
        assert (result.vectors * vectors).sum(1).min(initial=1) > 0.999  # other batches round otherwise
    assert [len(extraction.starts) for extraction in trained.extract(["", "…!"])] == [0, 0]
    assert trained.extract([]) == trained.segment([]) == []


def test_forcing_the_n_gram_segmenter(trained: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    learned = trained.segment(TEXTS)
    trained.segmenter = trained.ngram
    assert isinstance(trained.segmenter, NgramSegmenter)
    expected = [trained.ngram(text, {"bank"}) for text in TEXTS]
    assert expected != learned
    results = [list(zip(*extraction[:3], strict=True)) for extraction in trained.extract(TEXTS, {"bank"})]
    assert results == expected
    monkeypatch.setattr(trained.runtime, "blocks", None)  # it reads the text alone
    assert trained.segment(TEXTS, {"bank"}) == expected


def test_a_projection_without_a_segmenter(folders: dict[str, Path], tmp_path: Path) -> None:
    source = Path(shutil.copytree(folders["bert"], tmp_path / "source"))
    encoders.save_trained(source, segment_start=None, segment_end=None, segment_bias=None)
    (source / "training.json").unlink()
    export_model(source, tmp_path / "out")
    model = load_model(tmp_path / "out", threads=1)
    assert (model.pooling, model.learned, model.segmenter) == ("head", None, model.ngram)
    assert model.config["signature"] == {}
    assert "segmenter" not in model.config
    with pytest.raises(InputError, match="has no trained segmenter; leave out the options for it"):
        export_model(source, tmp_path / "other", max_words=3)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"project": encoders.SENTENCES}, "has a trained projection, so none is learned; leave out --project"),
        ({"segment_threshold": 1.5}, "threshold: 1.5; expected 0 to 1"),
        ({"max_words": 0}, "max_words: 0; expected 1 or more"),
    ],
)
def test_options_of_the_export(source: Path, options: dict[str, Any], expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        export_model(source, source.parent / "new" / "out", **options)
    assert not (source.parent / "new").exists()


@pytest.mark.parametrize(("changes", "expected"), DAMAGES)
def test_damaged_heads_are_not_exported(
    folders: dict[str, Path], tmp_path: Path, changes: dict[str, Any], expected: str
) -> None:
    source = encoders.save_trained(Path(shutil.copytree(folders["xlmr"], tmp_path / "source")), **changes)
    with pytest.raises(ModelError, match=expected) as caught:
        export_model(source, tmp_path / "new" / "out")
    assert str(caught.value).startswith(f"{source / HEADS}: ")
    assert str(caught.value).endswith("; train again, or remove it to do without")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("content", [b"", b"not what it should be", bytes(1000)])
def test_heads_that_are_invalid(source: Path, content: bytes) -> None:
    (source / HEADS).write_bytes(content)
    with pytest.raises(ModelError, match=r"heads\.safetensors: not a readable projection"):
        export_model(source, source.parent / "out")


@pytest.mark.parametrize("content", ["[]", "3", "{", "\udcff"])
def test_a_training_record_that_is_none(source: Path, content: str) -> None:
    (source / "training.json").write_bytes(content.encode("utf-8", "surrogatepass"))
    with pytest.raises(ModelError, match=r"training.json: (not readable as JSON|a JSON \w+, expected an object)"):
        export_model(source, source.parent / "new" / "out")
    assert not (source.parent / "new").exists()


@pytest.fixture(scope="module")
def sealed(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("trained")
    source = encoders.save_trained(Path(shutil.copytree(folders["xlmr"], base / "source")))
    export_model(source, base / "out")
    return base / "out"


@pytest.mark.parametrize(("changes", "expected"), DAMAGES)
def test_sealed_damage_of_heads(sealed: Path, tmp_path: Path, changes: dict[str, Any], expected: str) -> None:
    """A manifest that fits does not make the heads fit."""
    folder = Path(shutil.copytree(sealed, tmp_path / "model"))
    arrays = {name: array for name, array in {**encoders.heads(), **changes}.items() if array is not None}
    save_file(arrays, folder / HEADS)
    write_manifest(folder)
    with pytest.raises(ModelDamaged, match=expected) as caught:
        load_model(folder, threads=1)
    assert str(caught.value).startswith(f"{folder / HEADS}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"threshold": 2}, "threshold: 2; expected 0 to 1"),
        ({"threshold": "x"}, "segmenter {'threshold': 'x'}"),
        ({"max_words": 0}, "max_words: 0; expected 1 or more"),
        ({"max_words": 2.5}, "max_words: 2.5; expected 1 or more"),
        ({"overlapping": 3}, "overlapping: 3; expected true or false"),
        ({"start": [1.0]}, "unexpected keyword argument 'start'"),
        ([1], "segmenter is .1."),
        (None, "segmenter is None"),
    ],
)
def test_senseless_defaults(sealed: Path, tmp_path: Path, value: Any, expected: str) -> None:
    folder = Path(shutil.copytree(sealed, tmp_path / "model"))
    config = json.loads((folder / CONFIG).read_text("utf-8"))
    (folder / CONFIG).write_text(json.dumps({**config, "segmenter": value}), "utf-8")
    write_manifest(folder)
    with pytest.raises(ModelDamaged, match=expected) as caught:
        load_model(folder, threads=1)
    assert str(caught.value).startswith(f"{folder / CONFIG}: segmenter ")


def test_a_trained_projection_is_not_replaced(sealed: Path) -> None:
    with pytest.raises(InputError, match="has a trained projection; export the untrained encoder to learn another"):
        add_projection(sealed, encoders.SENTENCES, 4)


def test_frequent_words_of_an_export_have_letters(sealed: Path) -> None:
    common = load_model(sealed, threads=1).config["common_words"]
    assert "the" in common
    assert all(any(map(str.isalpha, word)) for word in common)


def test_weights_are_averaged_with_those_of_the_base(folders: dict[str, Path], tmp_path: Path) -> None:
    """One quarter of the one and three of the other, in every tensor but the heads; the signature says so."""
    base = folders["bert"]
    source = encoders.save_trained(Path(shutil.copytree(base, tmp_path / "source")))
    values = load_file(source / "model.safetensors")
    save_file({name: value + 0.01 for name, value in values.items()}, source / "model.safetensors")
    save_file({name: value + 0.0025 for name, value in values.items()}, tmp_path / "expected.safetensors")
    expected = Path(shutil.copytree(source, tmp_path / "expected"))
    (tmp_path / "expected.safetensors").replace(expected / "model.safetensors")
    export_model(source, tmp_path / "out", base=base, share=0.25, embedding_bits=8)
    export_model(expected, tmp_path / "plain", embedding_bits=8)
    mixed, plain = (load_model(tmp_path / name, threads=1) for name in ("out", "plain"))
    np.testing.assert_allclose(
        mixed.encode_sentences(list(encoders.SENTENCES)),
        plain.encode_sentences(list(encoders.SENTENCES)),
        atol=2e-3,
    )
    assert mixed.config["signature"]["share"] == 0.25
    assert (mixed.folder / HEADS).read_bytes() == (source / HEADS).read_bytes()


def test_what_is_equal_in_both_stays_so_to_the_bit(folders: dict[str, Path], tmp_path: Path) -> None:
    """.6 x + .4 x is not always x; a table that no run has touched must not become another file."""
    base = folders["bert"]
    export_model(base, tmp_path / "mixed", base=base, share=0.6)
    export_model(base, tmp_path / "plain")
    for name in ("embeddings.safetensors", "encoder.onnx"):
        assert (tmp_path / "mixed" / name).read_bytes() == (tmp_path / "plain" / name).read_bytes()


def test_senseless_averages_are_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected 0"):
        export_model(folders["bert"], tmp_path / "out", base=folders["bert"], share=1.5)
    with pytest.raises(InputError, match="without a base"):
        export_model(folders["bert"], tmp_path / "out", share=0.5)
    with pytest.raises(ModelError):
        export_model(folders["bert"], tmp_path / "out", base=folders["xlmr"], share=0.5)
    assert not (tmp_path / "out").exists()


def test_a_phrase_takes_in_its_sentence_by_the_context_weight(source: Path, tmp_path: Path) -> None:
    weight = 0.5
    plain = load_model(export(source, tmp_path / "plain"), threads=1)
    weighted = load_model(export(source, tmp_path / "weighted", context_weight=weight), threads=1)
    assert (plain.context_weight, weighted.context_weight) == (0.0, weight)
    texts = [text for text in encoders.SENTENCES if words(text)]
    phrases = [Phrase(text, *words(text)[0]) for text in texts]
    for phrase, vector, alone in zip(phrases, weighted.encode(phrases), plain.encode(phrases), strict=True):
        (states,) = plain.token_states([phrase.context])
        tokens = np.arange(1, len(states.values) - 1)
        assert plain.head is not None
        projected = plain.head.unit(states.values, tokens, tokens)
        expected = alone + weight * projected.mean(0)
        np.testing.assert_allclose(vector, expected / np.linalg.norm(expected), atol=1e-6)
    extracted = weighted.extract(texts)
    for text, result in zip(texts, extracted, strict=True):
        spans = [Phrase(text, int(a), int(b)) for a, b in zip(result.starts, result.ends, strict=True)]
        if spans:
            np.testing.assert_allclose(result.vectors, weighted.encode(spans), atol=1e-6)


def test_a_context_weight_needs_a_head_and_is_not_negative(source: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"context weight -0\.5: expected 0 or more"):
        export_model(source, tmp_path / "out", context_weight=-0.5)
    (source / HEADS).unlink()
    with pytest.raises(InputError, match=r"context weight 0\.5: expected 0 or more, and heads\.safetensors"):
        export_model(source, tmp_path / "out", context_weight=0.5)


def export(source: Path, out: Path, **options: Any) -> Path:
    export_model(source, out, **options)
    return out


def test_a_head_of_inner_products_is_searched_by_them(source: Path, tmp_path: Path) -> None:
    """The index ranks by W [H_start ; H_end] + b of query and span, whatever their lengths."""
    plain = load_model(export(source, tmp_path / "plain", segment_threshold=0.2), threads=1)
    texts = [text for text in dict.fromkeys(encoders.SENTENCES) if words(text)]
    spans: list[tuple[str, int, int]] = []
    raw = []
    assert plain.head is not None
    for text, result in zip(texts, plain.extract(texts), strict=True):
        (states,) = plain.token_states([text])
        rows = token_rows(states, 0, result.starts, result.ends)
        raw.append(plain.head(states.values, *rows))
        spans += [(text, *span) for span in zip(result.starts.tolist(), result.ends.tolist(), strict=True)]
    vectors = np.concatenate(raw)
    lengths = np.linalg.norm(vectors, axis=1)
    assert lengths.max() > 1.2 * lengths.min()
    facts = {"loss": {"normalise": False}, "dev": {"longest": float(lengths.max())}}
    (source / "training.json").write_text(json.dumps(facts))
    model = load_model(export(source, tmp_path / "inner", segment_threshold=0.2), threads=1)
    assert model.longest == pytest.approx(1.1 * lengths.max(), abs=1e-4)
    assert model.dim == plain.dim + 4
    with Index.create(tmp_path / "idx", model) as index:
        index.add([Document.from_texts("texts", texts)])
    queries = [Phrase(*span) for span in spans[:6]]
    inner, cosines = vectors[:6] @ vectors.T, plain.encode(queries) @ (vectors / lengths[:, None]).T
    places = {span: number for number, span in enumerate(spans)}
    with Index.open(tmp_path / "idx", model) as index:
        run = index.search(model.encode(queries), len(spans))
        hits = [index.hits(*row) for row in zip(run.ids, run.scores, strict=True)]
    for row, answers in enumerate(hits):
        order = [places[hit.phrase.context, hit.phrase.start, hit.phrase.end] for hit in answers]
        assert sorted(order) == list(range(len(spans)))
        expected = inner[row] / (lengths[row] * model.longest)
        np.testing.assert_allclose([hit.score for hit in answers], expected[order], atol=0.01)  # 8 bits a number
        assert expected[order[0]] >= expected.max() - 0.01
    assert (inner.argmax(1) != cosines.argmax(1)).any()  # the metric matters
    again = model.extract(texts)
    np.testing.assert_allclose(again[0].vectors[0], model.encode(queries[:1])[0], atol=1e-6)


def test_vectors_for_inner_products() -> None:
    vectors = np.array([[3.0, 4.0], [0.6, 0.8], [0.0, 0.0]], np.float32)
    indexed = for_inner_products(vectors, 2.0, indexed=True)
    # the first, of length 5, is cut to 2; the second is .5 as long as 2: sqrt(1 - .25) fills it up
    np.testing.assert_allclose(indexed[:, :3], [[0.6, 0.8, 0], [0.3, 0.4, 0.75**0.5], [0, 0, 1]], atol=1e-6)
    queries = for_inner_products(vectors, 2.0, indexed=False)
    np.testing.assert_allclose(queries[:, :3], [[0.6, 0.8, 0], [0.6, 0.8, 0], [0, 0, 0]], atol=1e-6)
    assert not indexed[:, 3:].any()
