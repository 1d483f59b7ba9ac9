"""Training BiCLA: sentence pairs, negatives, exact resume, the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from phrasemate.cli import app
from phrasemate.errors import InputError, ModelError
from phrasemate.training.bicla import BiCLA, BiCLATask, Config, hardest, load_bicla, pad, score_matrix, within
from phrasemate.training.config import SHIPPED, read_toml
from phrasemate.training.trainer import Trainer
from phrasemate.vectors.word_vectors import WordVectors

pytestmark = pytest.mark.slow

WORDS = 40  # of each language; word i of one means word i of the other


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """DATA with the pair xx-yy, VECTORS with both languages of one noisy space."""
    draw = np.random.default_rng(3)
    space = draw.normal(size=(WORDS, 8)).astype(np.float32)
    vectors, data = tmp_path / "vectors", tmp_path / "data" / "xx-yy"
    vectors.mkdir()
    data.mkdir(parents=True)
    for language in ("xx", "yy"):
        noise = draw.normal(size=space.shape).astype(np.float32) * 0.3
        WordVectors([f"{language}{i}" for i in range(WORDS)], space + noise, language).save(vectors / language)
    for name, count in (("train", 60), ("dev", 20)):
        rows = [draw.choice(WORDS, draw.integers(3, 7), replace=False) for _ in range(count)]
        lines = [" ".join(f"xx{i}" for i in row) + "\t" + " ".join(f"yy{i}" for i in row[::-1]) + "\n" for row in rows]
        (data / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")
    return tmp_path / "data", vectors


@pytest.fixture
def tables() -> dict[str, Any]:
    return {
        "data": {"pair": "xx-yy", "batch": 4, "stop_words": False},
        "model": {"hidden": 6},
        "optimizer": {"rate": 0.01},
        "loop": {
            "steps": 12, "warmup": 1, "log": 1, "evaluate": 4, "checkpoint": 3, "precision": "fp32", "weight_decay": 0
        },
    }  # fmt: skip


def task_of(tables: dict[str, Any], folders: tuple[Path, Path]) -> BiCLATask:
    return BiCLATask(Config.of(tables), *folders)


def trainer(tables: dict[str, Any], folders: tuple[Path, Path], run: Path) -> Trainer[Any]:
    task = task_of(tables, folders)
    return Trainer(task, task.config.loop, run, task.facts())


def lines(run: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if key != "tokens/s"} for row in rows]


def test_sentences_with_too_few_known_words_are_left_out(tables: dict[str, Any], folders: tuple[Path, Path]) -> None:
    train = folders[0] / "xx-yy" / "train.tsv"
    with train.open("a", encoding="utf-8") as file:
        file.write("xx1 XX2 unknown\tyy1 yy2 yy3\n")  # two known words and three
        file.write("xx1 XX2 xx3, unknown\tyy1 yy2 yy3\n")  # three and three
    pairs = task_of(tables, folders).train
    assert len(pairs.first) == 61
    assert (pairs.first[-1].tolist(), pairs.second[-1].tolist()) == ([1, 2, 3], [1, 2, 3])


def test_hard_negatives_are_the_most_similar_but_the_mates() -> None:
    draw = np.random.default_rng(0)
    first, second = (draw.normal(size=(9, 4)).astype(np.float32) for _ in range(2))
    group = np.array([0, 1, 2, 3, 4, 5, 6, 7, 1])  # the last has the same second sentence as number 1
    second[8] = second[1]
    result = hardest(first, second, group, 3)
    for row in range(9):
        others = [other for other in range(9) if group[other] != group[row]]
        best = sorted(others, key=lambda other: -float(first[row] @ second[other]))[:3]
        assert result[row].tolist() == best
    with pytest.raises(InputError, match="1 pairs with another second sentence; expected 2 or more"):
        hardest(first[:3], second[:3], np.array([0, 0, 1]), 2)


def test_mates_are_more_alike_within() -> None:
    """The power -1/4 of the shrunk covariance of the differences: directions in which mates differ count less."""
    draw = np.random.default_rng(0)
    first = draw.normal(size=(200, 8)).astype(np.float32)
    second = first + draw.normal(size=(200, 8)).astype(np.float32) * np.float32([2] * 4 + [0.3] * 4)
    result = within(first, second).astype(float)
    apart = (first - second).astype(float)
    scatter = apart.T @ apart / 200
    shrunk = scatter + 0.1 * np.trace(scatter) / 8 * np.eye(8)
    assert np.linalg.matrix_power(result, 4) @ shrunk == pytest.approx(np.eye(8), abs=1e-4)
    assert result == pytest.approx(result.T, abs=1e-6)
    assert within(first, first).tolist() == np.eye(8).tolist()  # mates that are all alike tell nothing

    def right(a: np.ndarray, b: np.ndarray) -> float:
        a, b = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in (a, b))
        return float(((a @ b.T).argmax(1) == np.arange(200)).mean())

    assert right(first @ result, second @ result) > right(first, second) + 0.1


def test_training_begins_in_the_metric_of_the_mates(tables: dict[str, Any], folders: tuple[Path, Path]) -> None:
    tables["model"] = {"hidden": 4, "start": "mates"}
    task = task_of(tables, folders)
    bi_cla = BiCLA(8, task.config.model)
    vectors = np.concatenate([space.matrix for space in task.spaces])
    sides = [
        np.stack([space.matrix[rows].sum(0) for rows in side])
        for space, side in zip(task.spaces, (task.train.first, task.train.second), strict=True)
    ]
    bi_cla.begin_with(vectors, within(*(side / np.linalg.norm(side, axis=1, keepdims=True) for side in sides)))
    parameters = dict(task.module.named_parameters())
    for name, value in bi_cla.named_parameters():
        assert torch.allclose(value, parameters[name], atol=1e-4), name


def test_a_batch_is_as_the_paper_has_it(tables: dict[str, Any], folders: tuple[Path, Path]) -> None:
    """Each true pair with two negatives by AGG and two random ones, all different, none its mate."""
    task = task_of(tables, folders)
    second = [tuple(rows.tolist()) for rows in task.train.second]
    negatives, drawn = [], set()
    for number in range(15):  # 15 x 4 = all 60 pairs
        batch = task.batch(number)
        assert (batch.pairs, len(batch.sentences.lengths)) == (4, 4 + 4 * 5)
        for micro in range(4):
            row = next(
                i
                for i, parameters in enumerate(task.train.first)
                if i not in negatives and same(task, 0, parameters, batch, micro)
            )
            negatives.append(row)
            rows = [
                next(i for i, vector in enumerate(task.train.second) if same(task, 1, vector, batch, 4 + 5 * micro + k))
                for k in range(5)
            ]
            assert second[rows[0]] == second[row]
            assert rows[1:3] == task.train.hard[row].tolist()
            assert len(set(rows)) == 5
            assert second[row] not in [second[other] for other in rows[1:]]
            drawn.update(rows[3:])
    assert sorted(negatives) == list(range(60))
    assert len(drawn) > 30


def same(task: BiCLATask, side: int, rows: Any, batch: Any, place: int) -> bool:
    length = int(batch.sentences.lengths[place])
    parameters = torch.from_numpy(task.spaces[side].matrix[rows])
    return length == len(parameters) and torch.equal(batch.sentences.values[place, :length], parameters)


def test_batches_depend_on_their_number_alone(tables: dict[str, Any], folders: tuple[Path, Path]) -> None:
    one, other = task_of(tables, folders), task_of(tables, folders)
    for number in (7, 0, 31):
        assert torch.equal(one.batch(number).sentences.values, other.batch(number).sentences.values)
    assert not torch.equal(one.batch(0).sentences.values[:4, 0], one.batch(15).sentences.values[:4, 0])  # another pass


def test_the_gradient_is_that_of_equation_7(tables: dict[str, Any], folders: tuple[Path, Path]) -> None:
    """Hinge and L2 of all parameters, recomputed from the scores of single pairs."""
    tables["loss"] = {"margin": 0.5, "l2": 0.01}
    task = task_of(tables, folders)
    batch = task.batch(3)
    reported = task.backward(batch, nothing, 0.5)
    table = {name: parameter.grad.clone() for name, parameter in task.module.named_parameters()}
    task.module.zero_grad()
    hinge = torch.zeros(())
    for micro in range(4):
        scores = [score(task, batch, micro, 4 + 5 * micro + k) for k in range(5)]
        hinge = hinge + sum(torch.clamp(0.5 - scores[0] + item, min=0) for item in scores[1:]) / 4
    squares = sum((parameter**2).sum() for parameter in task.module.parameters())
    (0.5 * (hinge + 0.01 * squares)).backward()
    for name, parameter in task.module.named_parameters():
        assert torch.allclose(table[name], parameter.grad, atol=1e-6), name
    assert reported["loss"] == pytest.approx(hinge.item(), abs=1e-6)
    assert reported["tokens"] == float(batch.sentences.lengths.sum())


def test_each_side_has_a_network_of_its_own_where_they_are_separate(
    tables: dict[str, Any], folders: tuple[Path, Path]
) -> None:
    """The hinge of a step whose first sentences the first BiLSTM reads, and the second ones the other."""
    tables["model"] |= {"separate": True}
    tables["loss"] = {"margin": 0.5, "l2": 0.0}
    task = task_of(tables, folders)
    torch.manual_seed(1)
    with torch.no_grad():
        for value in task.module.second_encoder.parameters():
            value.normal_()
    batch = task.batch(3)
    sides = [batch.sentences.values[:4], batch.sentences.values[4:]]
    lengths = [batch.sentences.lengths[:4], batch.sentences.lengths[4:]]
    hinges = []
    for micro in range(4):
        first = pad([sides[0][micro, : lengths[0][micro]].numpy()])
        scores = []
        for row in range(5 * micro, 5 * micro + 5):
            second = pad([sides[1][row, : lengths[1][row]].numpy()])
            scores.append(task.module(task.module.encode(first, 0), task.module.encode(second, 1)).item())
        hinges.append(sum(max(0.0, 0.5 - scores[0] + item) for item in scores[1:]))
    assert task.backward(batch, nothing, 1.0)["loss"] == pytest.approx(sum(hinges) / 4, abs=1e-5)


def test_too_few_different_sentences_to_draw_negatives_from_are_named(
    tables: dict[str, Any], folders: tuple[Path, Path]
) -> None:
    """Three pairs of six are the same, of which any batch of four has one: three others are left, and it takes four."""
    train = folders[0] / "xx-yy" / "train.tsv"
    rows = train.read_text().splitlines(keepends=True)
    train.write_text("".join([*rows[:4], rows[0], rows[0]]))
    task = task_of(tables, folders)
    with pytest.raises(InputError, match="6 pairs: too few to draw 4 different negatives from; give more text"):
        task.batch(0)


def test_shared_negatives_are_all_of_the_step_but_the_mates(tables: dict[str, Any], folders: tuple[Path, Path]) -> None:
    """K times the mean hinge over them, recomputed pair by pair; equal second sentences are not negatives."""
    train = folders[0] / "xx-yy" / "train.tsv"
    train.write_text("".join(train.read_text().splitlines(keepends=True)[:12]) * 2)  # each pair twice
    tables["loss"] = {"shared": True, "l2": 0.0}
    task = task_of(tables, folders)
    batch = next(batch for number in range(99) if (batch := task.batch(number)).mates.sum() > 4)
    reported = task.backward(batch, nothing, 1.0)
    texts = [tuple(map(tuple, v[:n].tolist())) for v, n in zip(*batch.sentences, strict=True)]
    hinges = []
    for first in range(4):
        parameters = score(task, batch, first, 4 + 5 * first)
        for second in range(4, 24):
            if texts[second] != texts[4 + 5 * first]:
                hinges.append(max(0.0, (1 - parameters + score(task, batch, first, second)).item()))
    assert reported["loss"] == pytest.approx(4 * np.mean(hinges), abs=1e-5)
    assert len(hinges) == 4 * 20 - int(batch.mates.sum())
    assert all(parameter.grad.abs().sum() > 0 for parameter in task.module.parameters())


def nothing() -> Any:
    return torch.autocast("cpu", enabled=False)


def score(task: BiCLATask, batch: Any, first: int, second: int) -> torch.Tensor:
    a, b = (pad([batch.sentences.values[place, : batch.sentences.lengths[place]].numpy()]) for place in (first, second))
    return task.module(task.module.encode(a), task.module.encode(b))[0]


@pytest.mark.parametrize("stop", [1, 5, 8])
def test_a_run_continues_exactly(tables: dict[str, Any], folders: tuple[Path, Path], tmp_path: Path, stop: int) -> None:
    whole = trainer(tables, folders, tmp_path / "whole")
    whole.run()

    def interrupt(event: Any) -> None:
        if event.step == stop:
            raise Stop

    with pytest.raises(Stop):
        trainer(tables, folders, tmp_path / "parts").run(progress=interrupt)
    torch.manual_seed(99)
    second = trainer(tables, folders, tmp_path / "parts")
    second.run()
    assert lines(tmp_path / "parts") == lines(tmp_path / "whole")
    for (name, a), b in zip(whole.task.module.named_parameters(), second.task.module.parameters(), strict=True):
        assert torch.equal(a, b), name


class Stop(Exception):
    pass


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_a_share_of_the_change_is_kept(
    tables: dict[str, Any], folders: tuple[Path, Path], tmp_path: Path, share: float
) -> None:
    """What is saved and evaluated is start + share (trained - start), of every weight; training knows nothing of it."""
    whole, part = trainer(tables, folders, tmp_path / "whole"), None
    start = {name: value.detach().clone() for name, value in whole.task.module.named_parameters()}
    whole.run()
    tables["optimizer"]["share"] = share
    part = trainer(tables, folders, tmp_path / "part")
    part.run()
    saved = dict(load_bicla(tmp_path / "part" / "model").model.named_parameters())
    for (name, trained), same in zip(whole.task.module.named_parameters(), part.task.module.parameters(), strict=True):
        assert torch.equal(trained, same), name
        expected = start[name] + share * (trained - start[name])
        assert torch.allclose(saved[name], expected, atol=1e-6), name
    reported = json.loads((tmp_path / "part" / "model" / "training.json").read_text())["dev"]["loss"]
    task = task_of(tables, folders)
    task.module.load_state_dict(saved)
    task._began = [value.clone() for value in saved.values()]
    assert task.evaluate(nothing)["loss"] == pytest.approx(reported, abs=1e-5)


@pytest.mark.parametrize(("cross", "share", "right"), [(True, 0.3, 0.5), (False, 0.6, 0.2)])
def test_training_learns_and_its_folder_scores(
    tables: dict[str, Any], folders: tuple[Path, Path], tmp_path: Path, cross: bool, share: float, right: float
) -> None:
    tables["model"] = {"cross": cross, "hidden": 16}
    tables["loop"].update(steps=150, evaluate=150, checkpoint=150)
    run = trainer(tables, folders, tmp_path / "run")
    run.run()
    parameters = [row["loss"] for row in lines(tmp_path / "run") if "loss" in row]
    assert sum(parameters[-10:]) < share * sum(parameters[:10])
    trained = load_bicla(tmp_path / "run" / "model")
    assert trained.facts["data"]["pair"] == "xx-yy"
    assert set(trained.facts["vectors"]) == {"xx", "yy"}
    pairs = run.task.dev if cross else run.task.train  # 60 pairs are too few for InAtt to learn words
    sides = [
        [space.matrix[rows] for rows in side[:20]]
        for space, side in zip(run.task.spaces, (pairs.first, pairs.second), strict=True)
    ]
    scores = score_matrix(trained.model, *sides)
    assert (scores.argmax(1) == np.arange(20)).mean() > right  # chance is 0.05
    saved = json.loads((tmp_path / "run" / "model" / "training.json").read_text())
    assert saved["step"] == 150
    assert str(folders[0]) not in json.dumps(saved)  # no path of the machine that trained it


@pytest.mark.parametrize(
    ("table", "key", "value", "says"),
    [
        ("data", "pair", "deen", "expected two languages such as de-en"),
        ("data", "pair", "xx-zz", "zz: no word vectors here"),
        ("data", "hard", 5, "hard from 0 to negatives"),
        ("data", "negatives", 0, "expected 1 or more"),
        ("data", "words", 30, "0 pairs with 30 known words or more"),
        ("data", "pairs", "xx-yy", r"\[data\] pairs: unknown"),
        ("optimizer", "share", 1.5, "share 1.5; expected 0"),
        ("loss", "l2", -1.0, r"\[loss\] l2: -1.0; expected 0 or more"),
        ("optimizer", "rate", -1.0, r"\[optimizer\] rate: -1.0; expected 0 or more"),
        ("loss", "margin", "wide", r"\[loss\] margin: 'wide'"),
        ("losses", "margin", 1.0, r"\[losses\]: unknown"),
    ],
)
def test_wrong_settings_are_named(
    tables: dict[str, Any], folders: tuple[Path, Path], table: str, key: str, value: Any, says: str
) -> None:
    tables.setdefault(table, {})[key] = value
    with pytest.raises((InputError, ModelError), match=says):
        task_of(tables, folders)


def test_what_is_not_there_is_named(tables: dict[str, Any], folders: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="xx: no word vectors here"):
        task_of(tables, (folders[0], tmp_path))
    (folders[0] / "xx-yy" / "dev.tsv").unlink()
    with pytest.raises(InputError, match=r"dev\.tsv: no such file; expected sentence pairs"):
        task_of(tables, folders)


def test_vectors_of_two_spaces_are_refused(tables: dict[str, Any], folders: tuple[Path, Path]) -> None:
    words = [f"yy{i}" for i in range(WORDS)]
    WordVectors(words, np.ones((WORDS, 9), np.float32), "yy").save(folders[1] / "yy", force=True)
    with pytest.raises(InputError, match="vectors of 8 and 9 dimensions; expected those of one space"):
        task_of(tables, folders)


def test_other_vectors_are_another_run(tables: dict[str, Any], folders: tuple[Path, Path], tmp_path: Path) -> None:
    trainer(tables, folders, tmp_path / "run").run(minutes=0)
    words = [f"yy{i}" for i in range(WORDS)]
    WordVectors(words, np.eye(WORDS, 8, dtype=np.float32), "yy").save(folders[1] / "yy", force=True)
    with pytest.raises(InputError, match=r"vectors\.yy"):
        trainer(tables, folders, tmp_path / "run").run()


def write_toml(path: Path, tables: dict[str, Any]) -> Path:
    rows = [
        f"[{name}]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in table.items()) for name, table in tables.items()
    ]
    path.write_text("\n".join(rows), encoding="utf-8")
    return path


def test_the_command_trains(tables: dict[str, Any], folders: tuple[Path, Path], tmp_path: Path) -> None:
    config, run = write_toml(tmp_path / "small.toml", tables), tmp_path / "run"
    command = ["train", "bicla", str(config), "-o", str(run), "--data", str(folders[0]), "--vectors", str(folders[1])]
    part = CliRunner().invoke(app, [*command, "--device", "cpu", "--minutes", "0", "--json"])
    assert part.exit_code == 0, part.output
    assert json.loads(part.stdout)["finished"] is False
    result = CliRunner().invoke(app, [*command, "--device", "cpu"])
    assert result.exit_code == 0, result.output
    assert "trained for 12 steps; next: phrasemate evaluate bicla" in " ".join(result.stdout.split())
    assert load_bicla(run / "model").model.dim == 8
    wrong = CliRunner().invoke(app, [*command, "--set", "model.cross=maybe"])
    assert wrong.exit_code == 1
    assert "[model] cross: 'maybe'; expected bool" in wrong.stderr


def test_the_configuration_of_the_paper_is_complete() -> None:
    """Every setting of the file is one, with the paper's value; the file names every setting but the loop's others."""
    config = Config.of(read_toml(SHIPPED / "bicla.toml"))
    assert (config.data.batch * (1 + config.data.negatives), config.data.hard) == (50, 2)
    assert (config.model.hidden, config.loss.margin, config.optimizer.rate) == (100, 1.0, 1e-4)
    assert config.loss.l2 == pytest.approx(1e-4 / 2 / config.data.batch)  # its code halves squares and sums over pairs
    assert (config.model.intra, config.model.start) == ("softmax", "xavier")
    assert (config.loop.weight_decay, config.loop.precision, config.loop.patience > 0) == (0.0, "fp32", True)


def test_a_run_continues_from_the_weights_that_it_began_with(
    tables: dict[str, Any], folders: tuple[Path, Path], tmp_path: Path
) -> None:
    """Another machine may give principal components another sign."""
    tables["model"].update(hidden=3, start="words", normalised=True)
    tables["optimizer"]["share"] = 0.5
    trainer(tables, folders, tmp_path / "whole").run()
    with pytest.raises(Stop):
        trainer(tables, folders, tmp_path / "parts").run(progress=_stop)
    again = trainer(tables, folders, tmp_path / "parts")
    for value in again.task._began:
        value.neg_()
    again.run()
    assert lines(tmp_path / "parts") == lines(tmp_path / "whole")


def _stop(event: Any) -> None:
    if event.step == 5:
        raise Stop
