"""The evaluation of XPR on data sets, rows and lists that are unusual or not as they should be."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from phrasemate.dataset import ExamplePair, write
from phrasemate.errors import InputError
from phrasemate.evaluate.xpr import Row, Settings, _chances, _curve, _Materials, phrase_pairs, read_rows, run
from phrasemate.vectors import WordVectors

WORDS = [ExamplePair(f"w{i}", f"w{i}") for i in range(8)]


def save_spaces(base: Path, turned: np.ndarray) -> None:
    matrix = np.random.default_rng(1).normal(size=(8, 4)).astype(np.float32)
    for lang, values in (("de", matrix), ("en", matrix @ turned.astype(np.float32))):
        WordVectors([pair.source for pair in WORDS], values).save(base / "v" / lang)


def one_row(base: Path, **other: object) -> Settings:
    """A data set of eight pairs, and a row of word vectors that finds all of them."""
    (base / "set" / "de-en").mkdir(parents=True)
    (base / "v").mkdir()
    for split in ("train", "dev", "test"):
        write(base / "set" / "de-en" / f"{split}.jsonl", WORDS)
    save_spaces(base, np.eye(4))
    (base / "rows.toml").write_text('[[row]]\ntable = "t"\nname = "a"\nvectors = "v/{lang}"\n')
    return Settings(base / "rows.toml", base / "set", **other)  # type: ignore[arg-type]


def test_so_many_of_each_part(tmp_path: Path) -> None:
    measured = _Materials(one_row(tmp_path, split="dev+test", most=3), ["de-en"])
    assert [pair.source for pair in measured.data("de-en", "dev+test")] == ["w0", "w1", "w2"] * 2


def test_a_test_part_without_a_pair_is_named(tmp_path: Path) -> None:
    settings = one_row(tmp_path)
    write(tmp_path / "set" / "de-en" / "test.jsonl", [])
    with pytest.raises(InputError, match=r"de-en: no phrase pairs in its part test"):
        run(settings)


def test_accents_may_be_characters_of_their_own(tmp_path: Path) -> None:
    vectors = np.array([[1, 0], [1, 0]], np.float32)
    sources, targets = _chances((vectors, vectors), [ExamplePair("Café", "bar"), ExamplePair("Cafe\u0301", "pub")])
    assert sources.tolist() == targets.tolist() == [1, 1]  # one wording: no rivals
    (tmp_path / "known.jsonl").write_text('{"source": "CAFE\u0301", "target": "Bar"}\n', encoding="utf-8")
    assert list(phrase_pairs(tmp_path / "known.jsonl")) == [("café", "bar")]


def test_a_line_that_is_not_phrase_pair_is_named(tmp_path: Path) -> None:
    (tmp_path / "known.jsonl").write_text('{"source": "a", "target": "b"}\n\n')
    with pytest.raises(InputError, match=r"known\.jsonl, line 2: not phrase pairs"):
        list(phrase_pairs(tmp_path / "known.jsonl"))


def test_the_signature_names_every_model_and_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = one_row(tmp_path)
    monkeypatch.setattr("phrasemate.evaluate.xpr.load_model", lambda path, _: SimpleNamespace(name="m", hash=str(path)))
    measured = _Materials(settings, ["de-en"])
    for name in ("one", "two"):
        measured.model(tmp_path / name / "model")
    assert list(measured.models) == ["one/model", "two/model"]
    before = run(settings).signature["data"]
    test = tmp_path / "set" / "de-en" / "test.jsonl"
    digest = sha256(test.read_bytes()).hexdigest()[:12]
    assert before == f"set {digest}"
    write(test, [ExamplePair("w0", "w0")])
    assert run(settings).signature["data"] != before


MAPPED = "".join(
    f'[[row]]\ntable = "t"\nname = "{name}"\nvectors = "v/{{lang}}"\nmapped = {mapped}\n'
    for name, mapped in (("a", "false"), ("b", "true"))
)


@pytest.mark.parametrize(("content", "expected"), [("", "no phrase pairs in its part train"), ("x\n", "line 1: not a")])
def test_what_a_mapping_learns_from_is_read_before_anything_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, expected: str
) -> None:
    settings = one_row(tmp_path)
    settings.rows.write_text(MAPPED)
    (settings.data / "de-en" / "train.jsonl").write_text(content)
    monkeypatch.setattr("phrasemate.evaluate.xpr.evaluate_rows", lambda *_: pytest.fail("computed"))
    with pytest.raises(InputError, match=expected):
        run(settings)


def test_the_signature_names_what_a_mapping_learns_from(tmp_path: Path) -> None:
    settings = one_row(tmp_path)
    assert "training" not in run(settings).signature
    settings.rows.write_text(MAPPED)
    train, result = settings.data / "de-en" / "train.jsonl", []
    for some in (WORDS, WORDS[:5]):
        write(train, some)
        result.append(run(settings).signature["training"])
        assert result[-1] == sha256(train.read_bytes()).hexdigest()[:12]
    assert result[0] != result[1]


def test_a_seed_below_zero_is_named_before_anything_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("phrasemate.evaluate.xpr.evaluate_rows", lambda *_: pytest.fail("computed"))
    with pytest.raises(InputError, match="seed: -1; expected 0 or more"):
        run(one_row(tmp_path, seed=-1))


def test_two_lists_make_a_curve_for_each_value_of_the_other(tmp_path: Path) -> None:
    rows = [Row("t", f"X, examples {n}, layer {k}", model="x", examples=n, layer=k) for n in (1, 2) for k in (3, 12)]
    scores = {("t", row.name): {"de-en": np.array([row.examples / 10 + row.layer / 100])} for row in rows}
    for what, name in (("examples", "t: X, layer {layer}"), ("layer", "t: X, examples {examples}")):
        points = [(point["row"], point["value"], point["acc@1"]) for point in _curve(rows, scores, what)]
        assert points == [
            (name.format(layer=row.layer, examples=row.examples), getattr(row, what), scores["t", row.name]["de-en"][0])
            for row in rows
        ]


@pytest.mark.parametrize("pair", ["de-zh-Hant", "zh-Hant-de"])
def test_a_language_may_have_a_script(tmp_path: Path, pair: str) -> None:
    settings = one_row(tmp_path)
    (tmp_path / "set" / "de-en").rename(tmp_path / "set" / pair)
    (tmp_path / "v" / "en").rename(tmp_path / "v" / "zh-Hant")
    assert run(settings).tables[0].rows[0][1] == 1.0


def test_one_folder_for_both_languages_is_another_system(tmp_path: Path) -> None:
    two, one = (Row("t", "r", vectors=vectors).system(tmp_path, "de-en", 0) for vectors in ("v/{lang}", "v"))
    assert two != one


def test_a_table_cannot_be_named_like_a_language_pair(tmp_path: Path) -> None:
    settings = one_row(tmp_path)
    settings.rows.write_text('[[row]]\ntable = "de-en"\nname = "a"\nvectors = "v/{lang}"\n')
    with pytest.raises(InputError, match="the table 'de-en' has the name of a language pair"):
        run(settings)


@pytest.mark.parametrize("table", ["signature", "by layer", "mean", "difference", "p"])
def test_a_table_cannot_be_named_like_what_stands_beside_it(tmp_path: Path, table: str) -> None:
    (tmp_path / "rows.toml").write_text(f'[[row]]\ntable = "{table}"\nname = "a"\nmodel = "bundled"\n')
    with pytest.raises(InputError, match=f"'{table}' is reserved; choose another table name"):
        read_rows(tmp_path / "rows.toml")
