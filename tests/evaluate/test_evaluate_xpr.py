"""The evaluation of XPR: ranks by hand, a plain loop, rows that mean what they say, clear errors."""

from __future__ import annotations

import json
import weakref
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from phrasemate.cli import app
from phrasemate.dataset import ExamplePair, write
from phrasemate.errors import InputError
from phrasemate.evaluate.xpr import (
    Row,
    Settings,
    _chances,
    _check_lessons,
    _compare,
    _differences,
    _Materials,
    _means,
    _table,
    evaluate_rows,
    phrase_pairs,
    rank_mates,
    read_rows,
    run,
)
from phrasemate.types import Phrase
from phrasemate.vectors import WordVectors

ROWS = """
[[row]]
table = "unsupervised"
name = "XPR"
model = "bundled"
examples = [0, 2]

[[row]]
table = "unsupervised"
name = "CLWE"
vectors = "vectors/{lang}"
"""
EVERY = np.ones((3, 3), bool)


def unit(*rows: tuple[float, ...]) -> np.ndarray:
    matrix = np.array(rows, np.float32)
    return matrix / np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-9)


def test_ranks_by_hand() -> None:
    queries = unit((1, 0), (0, 1), (1, 1))
    candidates = unit((1, 0), (1, 0), (1, 0.9))
    rivals = ~np.eye(3, dtype=bool)
    mates = rank_mates(queries, candidates, rivals)
    # first: ties with the second; second: 0 with its own, 0 with the first (tied), more with the third; third: alone
    assert mates.higher.tolist() == [0, 1, 0]
    assert mates.tied.tolist() == [1, 1, 0]
    assert mates.hits(1).tolist() == [1 / 2, 0, 1]


def test_a_hub_loses_by_csls() -> None:
    queries, candidates = unit((1, -0.2), (0.9, 0.3), (0, 1)), unit((0.8, -0.6), (0.9, 0.1), (0, 1))
    rivals = ~np.eye(3, dtype=bool)
    # cosines: .902 .953 -.196 / .569 .978 .316 / -.600 .110 1.000; the second candidate is near to two queries
    assert rank_mates(queries, candidates, rivals).higher.tolist() == [1, 0, 0]
    # means of two neighbours: .928 .774 .555 of the queries, .736 .965 .658 of the candidates; first query:
    # 2 x .902 - .928 - .736 = .141, 2 x .953 - .928 - .965 = .013
    assert rank_mates(queries, candidates, rivals, 2).higher.tolist() == [0, 0, 0]
    # of one: .953 and .902 .978: 1.804 - .953 - .902 = -.051, 1.906 - .953 - .978 = -.025
    assert rank_mates(queries, candidates, rivals, 1).higher.tolist() == [1, 0, 0]


def test_a_query_without_a_vector_finds_nothing() -> None:
    mates = rank_mates(np.zeros((1, 2), np.float32), unit((1, 0)), np.zeros((1, 1), bool))
    assert mates.hits(1).tolist() == [0]


def test_pairs_that_share_a_wording_are_not_rivals() -> None:
    pairs = [ExamplePair("Bank", "bank"), ExamplePair("bank", "bench"), ExamplePair("Ufer", "Bank")]
    vectors = unit((1, 0), (1, 0), (1, 0))
    sources, targets = _chances((vectors, vectors), pairs)
    # the first pair shares its source with the second and its target with the third: no rival; they are each other's
    assert sources.tolist() == targets.tolist() == [1, 1 / 2, 1 / 2]


def test_chances_against_a_plain_loop() -> None:
    draw = np.random.default_rng(3)
    source, target = (unit(*draw.normal(size=(40, 5))) for _ in range(2))
    pairs = [ExamplePair(f"s{i // 2}", f"t{i}") for i in range(40)]
    result = _chances((source, target), pairs)
    for one, other, chances in ((source, target, result[0]), (target, source, result[1])):
        for i in range(40):
            best = max(float(one[i] @ other[j]) for j in range(40) if i // 2 != j // 2)
            assert chances[i] == float(one[i] @ other[i] > best)


def test_a_phrase_is_the_mean_of_its_known_words() -> None:
    space = WordVectors(["red", "house"], np.array([[1, 0], [0, 1]], np.float32))
    means = _means(space, ["red house", "Red boat", "boat"])
    assert np.allclose(means, [[0.5**0.5, 0.5**0.5], [1, 0], [0, 0]])


class Counted:
    """Stands for the data set: eight phrases whose vectors are made of word vectors under a base folder."""

    def __init__(self, base: Path, seeds: int = 0) -> None:
        self.settings, self.pairs = SimpleNamespace(rows=base / "rows.toml", split="test"), ["de-en"]
        self.requests: list[str] = []

    def data(self, pair: str, split: str) -> list[ExamplePair]:
        self.requests.append(split)
        return [ExamplePair(f"w{i}", f"w{i}") for i in range(8)]

    def questions(self, pair: str) -> np.ndarray:
        return np.ones(8, bool)

    def lessons(self, pair: str) -> list[ExamplePair]:
        return self.data(pair, "train")

    def words(self, folder: Path) -> WordVectors:
        return WordVectors.load(str(folder))


def save_spaces(base: Path, turned: np.ndarray, seed: str = "") -> None:
    matrix = np.random.default_rng(1).normal(size=(8, 4)).astype(np.float32)
    names = [f"w{i}" for i in range(8)]
    (base / f"v{seed}").mkdir()
    WordVectors(names, matrix).save(base / f"v{seed}" / "de")
    WordVectors(names, matrix @ turned.astype(np.float32)).save(base / f"v{seed}" / "en")


def test_a_mapping_undoes_a_rotation(tmp_path: Path) -> None:
    turned = np.linalg.qr(np.random.default_rng(2).normal(size=(4, 4)))[0]
    save_spaces(tmp_path, turned)
    rows = [Row("t", "as it is", vectors="v/{lang}"), Row("t", "mapped", vectors="v/{lang}", mapped=True)]
    data = Counted(tmp_path)
    report = evaluate_rows(rows, data, lambda *_: None)
    assert report["t", "mapped"]["de-en"].tolist() == [[1.0] * 8]
    assert report["t", "as it is"]["de-en"].mean() < 0.6
    assert data.requests.count("train") == 1  # only the mapping may look at it


def test_a_mapping_of_another_pair(tmp_path: Path) -> None:
    """French is turned as German is, Czech otherwise: the mapping of German helps the one alone; that of both neither
    fully, but more than none.
    """
    matrix = np.random.default_rng(1).normal(size=(8, 4)).astype(np.float32)
    turned, otherwise = (
        np.linalg.qr(np.random.default_rng(n).normal(size=(4, 4)))[0].astype(np.float32) for n in (2, 3)
    )
    names = [f"w{i}" for i in range(8)]
    (tmp_path / "v").mkdir()
    for language, rotation in (("en", np.eye(4, dtype=np.float32)), ("de", turned), ("fr", turned), ("cs", otherwise)):
        WordVectors(names, matrix @ rotation).save(tmp_path / "v" / language)
    data = Counted(tmp_path)
    data.pairs = ["fr-en", "cs-en"]
    mappings = {"zero-shot": ("de-en",), "own": (), "both": ("de-en", "cs-en")}
    rows = [Row("t", name, vectors="v/{lang}", mapped=True, mapped_on=on) for name, on in mappings.items()]
    scores = evaluate_rows([*rows, Row("t", "none", vectors="v/{lang}")], data, lambda *_: None)
    mean = {name: {pair: float(values.mean()) for pair, values in of.items()} for (_, name), of in scores.items()}
    assert mean["zero-shot"]["fr-en"] == mean["own"]["fr-en"] == mean["own"]["cs-en"] == 1
    assert mean["zero-shot"]["cs-en"] < 0.7
    assert mean["zero-shot"]["cs-en"] != mean["none"]["cs-en"]


def test_a_mapping_needs_pairs_that_are_there() -> None:
    with pytest.raises(InputError, match=r"'r': mapped_on without mapped"):
        Row("t", "r", vectors="v", mapped_on=("de-en",))
    with pytest.raises(InputError, match=r"mapped_on 'zh-en'; the data set has de-en"):
        _check_lessons([Row("t", "r", vectors="v", mapped=True, mapped_on=("zh-en",))], ["de-en"])
    with pytest.raises(InputError, match=r"mapped_on between cs, en"):
        _check_lessons([Row("t", "r", vectors="v", mapped=True, mapped_on=("de-cs",))], ["de-en", "de-cs"])


def test_the_same_system_in_two_tables_is_computed_once(tmp_path: Path) -> None:
    turned = np.linalg.qr(np.random.default_rng(2).normal(size=(4, 4)))[0]
    save_spaces(tmp_path, turned)
    rows = [Row(table, "mapped", vectors="v/{lang}", mapped=True) for table in "tu"]
    data = Counted(tmp_path)
    report = evaluate_rows([*rows, Row("u", "as it is", vectors="v/{lang}")], data, lambda *_: None)
    assert data.requests.count("train") == 1
    assert report["t", "mapped"]["de-en"].tolist() == report["u", "mapped"]["de-en"].tolist() == [[1.0] * 8]
    assert report["u", "as it is"]["de-en"].mean() < 0.6


def test_seeds_are_averaged_query_by_query(tmp_path: Path) -> None:
    save_spaces(tmp_path, np.eye(4), "0")
    save_spaces(tmp_path, -np.eye(4), "1")
    report = evaluate_rows([Row("t", "r", vectors="v{seed}/{lang}", seeds=(0, 1))], Counted(tmp_path), lambda *_: None)
    assert report["t", "r"]["de-en"].tolist() == [[1.0] * 8, [0.0] * 8]  # right with the one, never with the other
    phrases = {"de-en": [f"en w{i}" for i in range(8)]}
    (row,) = _table("t", [Row("t", "r", vectors="v{seed}/{lang}", seeds=(0, 1))], report, phrases, 0).rows
    mean = row[2]
    assert mean.value == 0.5
    assert mean.high - mean.value == pytest.approx(12.7062 * 0.5, rel=1e-4)  # t of one degree, error (1 - 0) / 2


def test_both_directions_of_a_pair_are_one_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_spaces(tmp_path, np.eye(4))
    result = np.array([1, 0, 1, 0, 1, 0, 1, 0.5]), np.array([1, 1, 0, 0, 1, 0, 0.5, 0])
    monkeypatch.setattr("phrasemate.evaluate.xpr._chances", lambda *_: result)
    scores = evaluate_rows([Row("t", "r", vectors="v/{lang}")], Counted(tmp_path), lambda *_: None)
    assert scores["t", "r"]["de-en"].tolist() == [[1, 0.5, 0.5, 0, 1, 0, 0.75, 0.25]]


def test_lists_make_rows(tmp_path: Path) -> None:
    (tmp_path / "rows.toml").write_text(ROWS)
    rows = read_rows(tmp_path / "rows.toml")
    assert [(row.name, row.examples) for row in rows] == [
        ("XPR, examples 0", 0),
        ("XPR, examples 2", 2),
        ("CLWE", 32),
    ]
    assert rows[2].folder(tmp_path, "de-en", 0, "de") == tmp_path / "vectors/de"
    assert rows[0].folder(tmp_path, "de-en", 0) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "nothing"),
        ("[[row]]\nname = 'a'\ntable = 't'", "either model or vectors"),
        ("[[row]]\nname = 'a'\ntable = 't'\nmodel = 'x'\nseeds = [0, 1]", "no {seed}"),
        ("[[row]]\nname = 'a'\ntable = 't'\nmodel = 'x'\npoolng = 'mean'", "poolng is unknown"),
        ("[[row]]\nname = 'a'\ntable = 't'\nmodel = 'x'\nexamples = true", "examples is True"),
        ("[[row]]\nname = 'a'\ntable = 't'\nmodel = 'x'\nbare = -0.5", "bare and csls are 0 or more"),
        ("[[row]]\nname = 'a'\ntable = 't'\nmodel = 'x'\nbare = nan", "bare and csls are 0 or more"),
        ("[[row]]\nname = 'a'\ntable = 't'\nmodel = 'x'\nbare = inf", "bare and csls are 0 or more"),
        ("[[row]]\nname = 'a'\ntable = 't'\nmodel = 'x'\npooling = 'mean+haed'", "pooling 'mean.haed' holds 'haed'"),
        ("[[row]]\nname = 'a'\ntable = 't'\nmodel = 'x'\npooling = 'mean+'", "expected cls, ends, head, mean"),
        ("[[row]]\nname = 'a'\nmodel = 'x'", "table"),
        ("[[row]]\nname = 'a'\ntable = 't'\nmodel = 'x'\n" * 2, "two rows"),
        ("row = ", "not readable as TOML"),
    ],
)
def test_wrong_rows_are_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "rows.toml").write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        read_rows(tmp_path / "rows.toml")
    assert "\n" not in str(caught.value)


def test_the_command(tmp_path: Path) -> None:
    german = ["das rote Haus", "ein kalter Fluss", "der alte Baum", "die lange Straße"]
    english = ["the red house", "a cold river", "the old tree", "the long road"]
    pairs = [
        ExamplePair(g, e, (Phrase(f"Hier ist {g}.", 9, 9 + len(g)),), (Phrase(f"Here is {e}.", 8, 8 + len(e)),))
        for g, e in zip(german, english, strict=True)
    ]
    (tmp_path / "set" / "de-en").mkdir(parents=True)
    for split in ("train", "dev", "test"):
        write(tmp_path / "set" / "de-en" / f"{split}.jsonl", pairs)
    (tmp_path / "rows.toml").write_text(ROWS.replace("[0, 2]", "[0, 1]"))
    save_spaces(tmp_path, np.eye(4))
    (tmp_path / "v").rename(tmp_path / "vectors")
    call = ["evaluate", "xpr", str(tmp_path / "rows.toml"), "--data", str(tmp_path / "set"), "--threads", "1"]
    result = CliRunner().invoke(app, [*call, "-o", str(tmp_path / "out"), "--json"])
    assert result.exit_code == 0, result.output
    record = json.loads(result.stdout)
    rows = record["unsupervised"]["rows"]
    assert [row["de-en"] for row in rows[:2]] == [1.0, 1.0]  # four phrases that the bundled model tells apart
    assert rows[2]["de-en"] == 0  # no word of theirs has a vector
    assert [point["value"] for point in record["by examples"]] == [0, 1]
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"xpr.json", "xpr_examples.svg"}
    output = CliRunner().invoke(app, [*call, "--only", "unsupervised", "--limit", "2"])
    assert output.exit_code == 0
    assert "signature:" in output.output
    both = CliRunner().invoke(app, [*call, "--split", "dev+test", "--json"])  # the same four pairs twice: no rivals
    assert [row["de-en"] for row in json.loads(both.stdout)["unsupervised"]["rows"][:2]] == [1.0, 1.0]
    assert json.loads(both.stdout)["signature"]["split"] == "dev+test"
    wrong = CliRunner().invoke(app, [*call, "--split", "tset"])
    assert wrong.exit_code == 1
    assert "tset" in wrong.output


def test_a_matrix_is_drawn_and_a_table_may_have_any_name(tmp_path: Path) -> None:
    for pair in ("de-en", "en-de"):
        (tmp_path / "set" / pair).mkdir(parents=True)
        for split in ("train", "dev", "test"):
            write(tmp_path / "set" / pair / f"{split}.jsonl", [ExamplePair(f"w{i}", f"w{i}") for i in range(8)])
    save_spaces(tmp_path, np.eye(4))
    row = '[[row]]\ntable = "{}"\nname = "{}"\nvectors = "v/{{lang}}"\npairs = {}\n'
    rows = [("matrix", "one", ["de-en"]), ("matrix", "two", ["en-de"]), ("zero-shot", "one", ["de-en"])]
    (tmp_path / "rows.toml").write_text("".join(row.format(*item) for item in rows))
    result = run(Settings(tmp_path / "rows.toml", tmp_path / "set", out=tmp_path / "out"))
    assert [path.name for path in result.written] == ["xpr.json", "xpr_matrix.svg"]
    drawn = (tmp_path / "out" / "xpr_matrix.svg").read_text()
    assert drawn.count("<!-- 1.000 -->") == 2  # what was measured, each in its cell
    assert "nan" not in drawn


def test_pairs_that_a_model_was_trained_on_are_not_asked(tmp_path: Path) -> None:
    mates = {"w0": "w0", "w1": "w1", "w2": "w2", "w3": "w3", "w4": "w5", "w5": "w4"}  # the last two find each other's
    (tmp_path / "set" / "de-en").mkdir(parents=True)
    for split in ("train", "dev", "test"):
        write(tmp_path / "set" / "de-en" / f"{split}.jsonl", [ExamplePair(*pair) for pair in mates.items()])
    save_spaces(tmp_path, np.eye(4))
    (tmp_path / "rows.toml").write_text('[[row]]\ntable = "t"\nname = "a"\nvectors = "v/{lang}"\n')
    settings, examples_file = Settings(tmp_path / "rows.toml", tmp_path / "set"), tmp_path / "seen.jsonl"
    settings_without = Settings(tmp_path / "rows.toml", tmp_path / "set", without=(examples_file,))

    def trained_on(*words: str) -> None:
        lines = [{"source": word.upper(), "target": mates[word], "pairs": []} for word in words]
        examples_file.write_text("".join(json.dumps(line) + "\n" for line in lines))

    assert run(settings).tables[0].rows[0][1] == pytest.approx(4 / 6)
    hashes = [WordVectors.load(str(tmp_path / "v" / lang)).facts["hash"] for lang in ("de", "en")]
    expected = sha256(" ".join(map(str, hashes)).encode()).hexdigest()[:12]
    assert run(settings).signature["word_vectors"] == f"{expected} (2 folders)"
    trained_on("w0", "w4")
    assert run(settings_without).tables[0].rows[0][1] == pytest.approx(3 / 4)
    assert run(settings_without).signature["not_asked"] == {"de-en": 2}
    trained_on("w4", "w5")
    assert run(settings_without).tables[0].rows[0][1] == 1.0
    trained_on(*mates)
    with pytest.raises(InputError, match="all 6 phrase pairs are excluded"):
        run(settings_without)
    for content in ("w0\tw0\n", '{"source": "w0"}\n', "[]\n", '{"source": 1, "target": "x"}\n'):
        examples_file.write_text(content)
        with pytest.raises(InputError, match=r"seen\.jsonl, line 1: not phrase pairs"):
            run(settings_without)


def test_one_model_at_a_time_is_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stand:
        def __init__(self, folder: Path) -> None:
            self.name, self.hash = folder.name, f"{folder.name:0<64}"

    alive: weakref.WeakSet[Stand] = weakref.WeakSet()

    def load(folder: Path, threads: int | None) -> Stand:
        assert not alive
        matrix = Stand(folder)
        alive.add(matrix)
        return matrix

    monkeypatch.setattr("phrasemate.evaluate.xpr.load_model", load)
    measured = _Materials(Settings(tmp_path / "rows.toml", tmp_path), ["de-en"])
    assert [measured.model(tmp_path / name).name for name in ("a", "a", "b", "a")] == ["a", "a", "b", "a"]
    assert {name: tuple(one) for name, one in measured.models.items()} == {
        "a": ("a", f"{'a':0<64}"),
        "b": ("b", f"{'b':0<64}"),
    }


def test_what_is_not_there_is_reported(tmp_path: Path) -> None:
    (tmp_path / "rows.toml").write_text(ROWS)
    with pytest.raises(InputError, match="no data set"):
        run(Settings(tmp_path / "rows.toml", tmp_path))
    with pytest.raises(InputError, match="no table supervised"):
        run(Settings(tmp_path / "rows.toml", tmp_path, only=("supervised",)))


def test_a_folder_that_is_not_there_is_reported_before_anything_is_encoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "set" / "de-en").mkdir(parents=True)
    for split in ("train", "dev", "test"):
        write(tmp_path / "set" / "de-en" / f"{split}.jsonl", [ExamplePair("Haus", "house")])
    monkeypatch.setattr("phrasemate.evaluate.xpr.load_model", lambda *_: pytest.fail("a model was loaded"))
    settings = Settings(tmp_path / "rows.toml", tmp_path / "set")
    (tmp_path / "rows.toml").write_text(ROWS)
    with pytest.raises(InputError, match=r"vectors/de: no such folder; row 'CLWE' expects word vectors"):
        run(settings)
    (tmp_path / "rows.toml").write_text(ROWS.replace('"bundled"', '"models/{pair}-{seed}"'))
    with pytest.raises(InputError, match=r"models/de-en-0: no such folder; row 'XPR, examples 0' expects a model"):
        run(settings)


def test_the_bare_phrase_is_mixed_in(tmp_path: Path) -> None:
    """Without a weight the examples alone speak; with a great one, hardly anything but the phrase does."""
    from phrasemate import load_model
    from phrasemate.evaluate.xpr import _encode

    pairs = [ExamplePair("Bank", "bank", (Phrase("Er sitzt auf der Bank.", 17, 21),), ())]
    model = load_model(threads=1)
    alone, mixed, bare = (
        _encode(model, Row("t", "r", model="bundled", examples=count, bare=weight), pairs)[0]
        for count, weight in ((1, 0.0), (1, 1000.0), (0, 0.0))
    )
    assert float(mixed[0] @ bare[0]) > 0.9999
    assert float(alone[0] @ bare[0]) < 0.95


def test_missing_data_are_named_before_anything_is_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rows.toml").write_text(ROWS)
    save_spaces(tmp_path, np.eye(4))
    (tmp_path / "v").rename(tmp_path / "vectors")
    write(folder_of(tmp_path) / "train.jsonl", [ExamplePair("a", "b")])
    monkeypatch.setattr("phrasemate.evaluate.xpr.evaluate_rows", lambda *_: pytest.fail("computed"))
    with pytest.raises(InputError, match=r"de-en.test\.jsonl: no such file"):
        run(Settings(tmp_path / "rows.toml", tmp_path / "set"))


def folder_of(base: Path) -> Path:
    (base / "set" / "de-en").mkdir(parents=True)
    return base / "set" / "de-en"


def test_known_pairs_with_a_line_separator_in_a_sentence(tmp_path: Path) -> None:
    example = Phrase("Eine Bank\u2028und ein Haus\x85.", 5, 9)
    write(tmp_path / "known.jsonl", [ExamplePair("Bank", "Bench", (example,)), ExamplePair("Haus", "House")])
    assert list(phrase_pairs(tmp_path / "known.jsonl")) == [("bank", "bench"), ("haus", "house")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("row = [1]", r"a row is 1; expected"), ('[[row]]\nname = "a"\nexamples = []', "examples is empty")],
)
def test_rows_that_are_invalid(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "rows.toml").write_text(text)
    with pytest.raises(InputError, match=expected):
        read_rows(tmp_path / "rows.toml")


def test_each_language_pair_weighs_the_same_in_the_test() -> None:
    """Four queries of one pair against one of the other: the mean of means is level, and so is p."""
    first = {"de-en": np.array([[1.0, 1, 1, 1]]), "fr-en": np.array([[0.0]])}
    second = {"de-en": np.array([[0.0, 0, 0, 0]]), "fr-en": np.array([[1.0]])}
    difference, p = _compare(first, second, {"de-en": ["a", "b", "c", "d"], "fr-en": ["e"]}, 0)
    assert difference is not None
    assert difference.value == 0
    assert p == 1.0
    assert _compare(first, {"ja-en": first["de-en"]}, {}, 0) == (None, 1.0)


def test_a_phrase_of_two_language_pairs_is_one_piece_of_evidence() -> None:
    """Six phrases are better: 2 of 2^6 signs say as much. In two language pairs they are twelve, unless the same."""
    worse, better = (dict.fromkeys(("de-en", "fr-en"), np.full((1, 6), value)) for value in (0.0, 1.0))
    names = [f"en w{i}" for i in range(12)]
    assert _compare(worse, better, {"de-en": names[:6], "fr-en": names[:6]}, 0)[1] == 2 / 2**6
    assert _compare(worse, better, {"de-en": names[:6], "fr-en": names[6:]}, 0)[1] == 2 / 2**12


def test_seeds_are_compared_one_by_one() -> None:
    three, other, one = np.array([[0.0, 1], [1, 1], [0, 0]]), np.array([[1.0, 1], [1, 1], [0, 1]]), np.ones((1, 2))
    assert _differences(three, other).tolist() == [[1, 0], [0, 0], [0, 1]]
    assert _differences(one, three).tolist() == (three - 1).tolist()
    assert _differences(three, other[:2]) == pytest.approx(np.array([[2 / 3, 1 / 3]]))


def test_phrases_are_told_apart_by_the_second_language(tmp_path: Path) -> None:
    for pair in ("de-en", "fr-en", "en-de"):
        (tmp_path / pair).mkdir()
        write(tmp_path / pair / "test.jsonl", [ExamplePair("x", "Bank"), ExamplePair("y", "tree")])
    measured = _Materials(Settings(tmp_path / "rows.toml", tmp_path), ["de-en", "fr-en", "en-de"])
    for pair in measured.pairs:
        measured.questions(pair)
    phrases = measured.phrases()
    assert phrases["de-en"] == phrases["fr-en"] == ["en bank", "en tree"]
    assert phrases["en-de"] == ["de bank", "de tree"]
