"""CCPR against its equations, by plain loops."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Callable, Container, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pair_files import PAIRS, write_pairs

from phrasemate.errors import InputError
from phrasemate.training.ccpr import CCPR, CCPRTask, Config, PhraseModel, Settings, on_device, span_vectors
from phrasemate.training.ccpr_data import Alteration, Example, KnownPairs, PairFile, SpanBatch, Spans, collate
from phrasemate.training.hf_encoder import Backbone, Tokenizer
from phrasemate.training.losses import balanced_bce


@pytest.fixture
def model(base: Path) -> PhraseModel:
    torch.manual_seed(1)
    return PhraseModel(Backbone(base, dropout=0.0), 8)


@pytest.fixture
def batch(base: Path, pairs: Path) -> SpanBatch:
    file = PairFile(pairs / "en-xx.jsonl")
    return collate([file[i] for i in range(4)], Tokenizer(base), Alteration(), 3, 3, random.Random(1))


@pytest.fixture
def states(model: PhraseModel, batch: SpanBatch) -> torch.Tensor:
    with torch.no_grad():
        return model.backbone.states(batch.tokens, 64)


def plain_vector(model: PhraseModel, states: torch.Tensor, first: int, last: int) -> np.ndarray:
    """Eq. 1: W [H_start ; H_end] + b."""
    weight = torch.cat([model.start.weight, model.end.weight], 1).detach().double().numpy()
    ends = torch.cat([states[first], states[last]]).double().numpy()
    return weight @ ends + model.start.bias.detach().double().numpy()


def extra_ends(side: Spans) -> list[tuple[int, int]]:
    """Token rows of the phrases that only serve as wrong answers."""
    places = np.flatnonzero(side.extra)
    return list(zip(side.first[places].tolist(), side.last[places].tolist(), strict=True))


def wording_texts(batch: SpanBatch, examples: Sequence[Example]) -> list[dict[int, str]]:
    """The wordings of both sides by their numbers."""
    texts: list[dict[int, str]] = []
    for place, side in enumerate((batch.source, batch.target)):
        texts.append({})
        for text, wording, first, last in zip(side.text, side.wording, side.first, side.last, strict=True):
            sentence = examples[int(text) - place * len(examples)][place]
            texts[-1][int(wording)] = str(sentence)[batch.tokens.starts[first] : batch.tokens.ends[last]]
    return texts


def plain_alignment(
    model: PhraseModel,
    states: torch.Tensor,
    batch: SpanBatch,
    settings: Settings,
    right: Container[tuple[int, int, int]] = (),
) -> float:
    """Eq. 2-4, one phrase at a time; ``right``: side, pair and wording that is right for it, too."""
    total = 0.0
    for side, other, column in ((batch.source, batch.target, 0), (batch.target, batch.source, 1)):
        losses = []
        for number, pair in enumerate(batch.pairs):
            query, mate = int(pair[column]), int(pair[1 - column])
            rivals = range(len(other.first)) if settings.negatives == "spans" else set(batch.pairs[:, 1 - column])
            if settings.negatives == "linked":
                rivals = {*rivals, *np.flatnonzero(other.extra)}
            scores: dict[int, float] = {}
            for rival in map(int, rivals):
                same = settings.same_wording == "ignored" and other.wording[rival] == other.wording[mate]
                same = same or (column, number, int(other.wording[rival])) in right
                if rival == mate or not same:
                    a = plain_vector(model, states, int(side.first[query]), int(side.last[query]))
                    b = plain_vector(model, states, int(other.first[rival]), int(other.last[rival]))
                    if settings.normalise:
                        a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
                    scores[rival] = float(a @ b) / settings.temperature
            extra = []  # of the query's own side
            if settings.negatives == "linked":
                vectors = [plain_vector(model, states, *ends) for ends in extra_ends(side)]
                own_side = plain_vector(model, states, int(side.first[query]), int(side.last[query]))
                extra = [math.exp(float(own_side @ vector) - scores[mate]) for vector in vectors]
            losses.append(math.log(sum(math.exp(s - scores[mate]) for s in scores.values()) + sum(extra)))
        total += sum(losses) / len(losses) / 2
    return total


@pytest.mark.parametrize(
    "settings",
    [
        Settings(dim=8, segment=0),
        Settings(dim=8, segment=0, normalise=True, temperature=0.1, negatives="spans"),
        Settings(dim=8, segment=0, normalise=True, temperature=0.1, negatives="spans", same_wording="ignored"),
    ],
)
def test_the_alignment_loss_is_the_equation(
    model: PhraseModel, states: torch.Tensor, batch: SpanBatch, settings: Settings
) -> None:
    result = CCPR(model, settings)(states, batch)
    assert result["loss"].item() == pytest.approx(plain_alignment(model, states, batch, settings), rel=1e-4)


def test_extra_negatives_are_phrases_unlike_those_that_are_drawn(
    model: PhraseModel, base: Path, pairs: Path, tmp_path: Path
) -> None:
    """As the released code takes them: the sentences' other phrases, of both sides."""
    file = PairFile(pairs / "en-xx.jsonl")
    examples = [file[i] for i in range(4)]
    batch = collate(examples, Tokenizer(base), Alteration(), 3, 1, random.Random(1), linked=True)
    for side, column, texts in ((batch.source, 0, "source"), (batch.target, 1, "target")):
        wordings = dict.fromkeys(side.wording.tolist(), "")
        for text, number, example in itertools.product(range(4), range(len(side.first)), examples):
            if side.text[number] - 4 * column == text and example is examples[text]:
                low, high = batch.tokens.starts[side.first[number]], batch.tokens.ends[side.last[number]]
                wordings[int(side.wording[number])] = getattr(example, texts)[low:high]
        drawn = [wordings[number] for number in side.wording[batch.pairs[:, column]].tolist()]
        expected = [
            bool(side.phrase[number])
            and not any(wordings[wording] in other or other in wordings[wording] for other in drawn)
            for number, wording in enumerate(side.wording.tolist())
        ]
        assert side.extra.tolist() == expected
        assert 0 < sum(expected) < side.phrase.sum()
    with torch.no_grad():
        states = model.backbone.states(batch.tokens, 64)
    settings = Settings(dim=8, segment=0, negatives="linked")
    loss = CCPR(model, settings)(states, batch)["loss"].item()
    assert loss == pytest.approx(plain_alignment(model, states, batch, settings), rel=1e-4)
    assert loss > plain_alignment(model, states, batch, Settings(dim=8, segment=0)) + 1e-3
    ignoring = Settings(dim=8, segment=0, negatives="linked", same_wording="ignored")
    assert CCPR(model, ignoring)(states, batch)["loss"].item() <= loss


@pytest.mark.parametrize("same_wording", ["negative", "ignored"])
def test_what_is_known_to_be_right_is_no_wrong_answer(
    model: PhraseModel, base: Path, pairs: Path, tmp_path: Path, same_wording: str
) -> None:
    dictionary = {("haus", "river"), ("haus", "house"), ("buch", "red"), ("bank", "book")}
    opposed = {("bank", "book")}
    table = tmp_path / "known.tsv"
    table.write_text("".join(f"{source}\t{target}\n" for source, target in sorted(dictionary)), "utf-8")
    file = PairFile(pairs / "en-xx.jsonl")
    examples = [file[number] for number in range(4)]
    arguments = Tokenizer(base), Alteration(), 3, 12, random.Random(1)
    batch = collate(examples, *arguments, known_pairs=KnownPairs([table]), opposed=opposed)
    texts = wording_texts(batch, examples)
    expected = set()
    for number, pair in enumerate(batch.pairs):
        source, target = (texts[side][int(spans.wording[pair[side]])] for side, spans in enumerate(batch[1:3]))
        expected |= {(0, number, w) for w, text in texts[1].items() if (source, text) in dictionary - opposed}
        expected |= {(1, number, w) for w, text in texts[0].items() if (text, target) in dictionary - opposed}
    assert batch.known_pairs is not None
    rows = [(side, *row) for side, table_rows in enumerate(batch.known_pairs) for row in table_rows.tolist()]
    assert len(rows) == len(set(rows))
    assert set(rows) == expected
    assert {side for side, *_ in rows} == {0, 1}
    with torch.no_grad():
        states = model.backbone.states(batch.tokens, 64)
    settings = Settings(dim=8, segment=0, negatives="spans", same_wording=same_wording)
    loss = CCPR(model, settings)(states, batch)["loss"].item()
    assert loss == pytest.approx(plain_alignment(model, states, batch, settings, expected), rel=1e-4)
    assert loss < plain_alignment(model, states, batch, settings) - 1e-3


@pytest.mark.parametrize("senses", [0, 2])
def test_a_batch_has_examples_from_elsewhere_and_their_contrasts_stay_wrong(
    tables: dict[str, Any], pairs: Path, monkeypatch: pytest.MonkeyPatch, senses: int
) -> None:
    """A dictionary has both translations of "haus"; where examples contrast them, neither is right for the other."""
    monkeypatch.setitem(PAIRS, "haus", "home")
    write_pairs(pairs / "en-yy.jsonl", 30, 2)
    (pairs / "contrasts.tsv").write_text("haus\thouse\thome\n", "utf-8")
    (pairs / "known.tsv").write_text("haus\thouse\nhaus\thome\n", "utf-8")
    tables["data"] |= {"crossed": 3, "half_alone": 2, "known": ["known.tsv"], "phrases": 12}
    tables["data"] |= {"senses": senses, "contrasts": ["contrasts.tsv"] if senses else []}
    task = CCPRTask(Config.of(tables), pairs)
    collated, groups = task._collate, []

    def noted(examples: list[Example], **options: Any) -> SpanBatch:
        groups.append([*examples, *options["terms"], *options["elsewhere"]])
        return collated(examples, **options)

    monkeypatch.setattr(task, "_collate", noted)
    right = []
    for number in range(6):
        batch = task.batch(number)
        assert batch.sentences == 4
        assert len(batch.tokens) == 2 * len(groups[-1]) == 2 * (4 + 3 + 2 * senses + 2)
        texts = wording_texts(batch, groups[-1])
        assert batch.known_pairs is not None
        right += [texts[1][wording] for _, wording in batch.known_pairs[0].tolist()]
    assert set(right) == (set() if senses else {"house", "home"})


def test_a_head_of_the_base_that_is_not_there_is_named(tables: dict[str, Any], pairs: Path) -> None:
    tables["model"]["head"] = "base"
    with pytest.raises(InputError, match=r"heads\.safetensors: not found; head 'base' takes the model/ of an earlier"):
        CCPRTask(Config.of(tables), pairs)


def test_the_segmentation_loss_is_the_equation(model: PhraseModel, states: torch.Tensor, batch: SpanBatch) -> None:
    """Eq. 5 and 6, with all non-phrases at the weight of as many as there are phrases."""
    losses: dict[bool, list[float]] = {True: [], False: []}
    model.segment_bias = torch.nn.Parameter(torch.tensor([0.5, -0.25, -1.0]))  # of one word, of two, of more
    biases = model.segment_bias.tolist()
    weight = torch.cat([model.segment_start.weight, model.segment_end.weight], 1)[0].detach().double()
    for side in (batch.source, batch.target):
        for first, last, length, phrase in zip(side.first, side.last, side.length, side.phrase, strict=True):
            ends = torch.cat([states[int(first)], states[int(last)]]).double()
            logit = float(weight @ ends + biases[min(int(length), 3) - 1])
            losses[bool(phrase)].append(math.log(1 + math.exp(-logit if phrase else logit)))
    expected = sum(float(np.mean(loss)) for loss in losses.values()) / 2
    whole = CCPR(model, Settings(dim=8, segment=2.0))(states, batch)
    assert whole["segment"].item() == pytest.approx(expected, rel=1e-5)
    assert whole["loss"].item() == pytest.approx(whole["align"].item() + 2 * expected, rel=1e-5)


def test_sentences_and_means_are_contrasted_both_ways(
    model: PhraseModel, states: torch.Tensor, batch: SpanBatch
) -> None:
    settings = Settings(dim=8, segment=0, sentence=1.0, mean=1.0, plain_temperature=0.2)
    result = CCPR(model, settings)(states, batch)
    bounds = batch.tokens.bounds.tolist()
    means = [states[a:b].mean(0) for a, b in itertools.pairwise(bounds)]
    unit = torch.stack(means) / torch.stack(means).norm(dim=1, keepdim=True)
    scores = unit[:4] @ unit[4:].T / 0.2
    expected = (torch.nn.functional.cross_entropy(scores, torch.arange(4)) * 0.5).item()
    expected += (torch.nn.functional.cross_entropy(scores.T, torch.arange(4)) * 0.5).item()
    assert result["sentence"].item() == pytest.approx(expected, rel=1e-4)
    phrases = [
        torch.stack([states[a : b + 1].mean(0) for a, b in zip(side.first[at], side.last[at], strict=True)])
        for side, at in zip((batch.source, batch.target), batch.pairs.T, strict=True)
    ]
    left, right = (phrase / phrase.norm(dim=1, keepdim=True) for phrase in phrases)
    mate = torch.arange(len(left))
    both = [torch.nn.functional.cross_entropy(item, mate) for item in (left @ right.T / 0.2, right @ left.T / 0.2)]
    assert len(left) > 4
    assert result["mean"].item() == pytest.approx((sum(both) / 2).item(), rel=1e-4)


def test_the_saved_heads_give_the_same_vectors(model: PhraseModel, states: torch.Tensor, batch: SpanBatch) -> None:
    heads, side = model.heads(), batch.source
    first, last = torch.from_numpy(side.first), torch.from_numpy(side.last)
    vectors = states[first] @ heads["start"] + states[last] @ heads["end"] + heads["bias"]
    assert torch.allclose(vectors, span_vectors(model.projections(states), first, last), atol=1e-5)
    logits = states[first] @ heads["segment_start"] + states[last] @ heads["segment_end"] + heads["segment_bias"]
    assert torch.allclose(logits, model.segments(states, first, last, torch.from_numpy(side.length)), atol=1e-5)


def test_components_keep_what_tells_phrases_apart(model: PhraseModel) -> None:
    torch.manual_seed(0)
    hidden = torch.randn(500, 8) @ torch.randn(8, 2 * model.backbone.width)  # eight directions hold everything
    model.start_from_components(hidden + 3.0)
    width = model.backbone.width
    projected = model.start(hidden[:, :width] + 3.0) + model.end(hidden[:, width:] + 3.0)
    assert projected.mean(0).abs().max() < 1e-3 * projected.std()  # centred
    rank = torch.linalg.matrix_rank(projected - projected.mean(0))
    assert rank == 8
    entries = torch.cat([model.start.weight, model.end.weight], 1)
    assert entries.pow(2).mean().sqrt().item() == pytest.approx(1 / math.sqrt(2 * width), rel=1e-3)


@pytest.mark.parametrize(("phrases", "dim"), [(500, 129), (8, 8), (0, 1)])
def test_more_dimensions_than_components(base: Path, phrases: int, dim: int) -> None:
    """Two ends of an encoder of 64 numbers have 128 components; centred, eight phrases have seven."""
    model = PhraseModel(Backbone(base), dim)
    with pytest.raises(InputError, match=rf"dim: {dim}; head 'components' takes at most 128.*begin with, {phrases};"):
        model.start_from_components(torch.randn(phrases, 2 * model.backbone.width))


def test_held_out_figures_are_those_of_a_plain_loop(tables: dict[str, Any], pairs: Path) -> None:
    config = Config.of(tables)
    task = CCPRTask(config, pairs)
    task.module.eval()
    report = task.evaluate(torch.no_grad)
    assert set(report) == {"score", "acc@1", "sentences", "f1", "en-xx", "en-yy"}
    assert report["score"] == pytest.approx((report["en-xx"] + report["en-yy"]) / 2)
    assert all(0 <= value <= 1 for value in report.values())
    dev_pairs = [task.files[f][r] for f, r in task.schedule.dev.tolist()]
    batch = collate(dev_pairs, task.tokenizer, Alteration(), 6, 3, random.Random(0))
    with torch.no_grad():
        states = task.backbone.states(batch.tokens, 64)
    gold = right = 0
    vectors = [
        plain_vector(task.module, states, a, b) for a, b in zip(batch.target.first, batch.target.last, strict=True)
    ]
    unit = np.stack([v / np.linalg.norm(v) for v in vectors])
    for source, mate in batch.pairs:
        query = plain_vector(task.module, states, batch.source.first[source], batch.source.last[source])
        scores = unit @ query / np.linalg.norm(query)
        gold, right = gold + 1, right + int((scores >= scores[mate] - 1e-6).sum() == 1)
    assert report["acc@1"] == pytest.approx(right / gold, abs=1e-6)


@pytest.mark.parametrize(
    ("table", "key", "value", "message"),
    [
        ("data", "colour", 1, "colour: unknown"),
        ("data", "batch", "many", "batch: 'many'"),
        ("data", "batch", True, "batch: True"),
        ("loss", "normalise", 1, "normalise: 1"),
        ("data", "files", ["absent-*.jsonl"], "nothing matches"),
        ("data", "files", "en.jsonl", "files: 'en.jsonl'; expected a list of strings"),
        ("data", "files", ["/data/*.jsonl"], "expected patterns within .*pairs, such as"),
        ("data", "files", [""], "Unacceptable pattern: ''; expected patterns"),
        ("data", "evenness", math.inf, "evenness: inf; expected a finite number"),
        ("data", "evenness", 10**400, "evenness: 1000.*; expected a finite number"),
        ("data", "terms", ["t.jsonl"], "term_batch 0; expected both or neither"),
        ("data", "term_batch", 2, "term_batch 2; expected both or neither"),
        ("data", "citation_batch", 2, "citation_batch 2; expected both or neither"),
        ("loop", "seed", 2**63, r"seed: 9223372036854775808; expected less than 2\*\*63"),
        ("model", "attention", "none", "attention: 'none'; expected eager or sdpa"),
        ("data", "positives", "nowhere", "same or elsewhere"),
        ("loss", "negatives", "span", "negatives: .span.; expected phrases, linked or spans"),
        ("loss", "same_wording", "masked", "expected negative or ignored"),
    ],
)
def test_wrong_settings_are_named(
    tables: dict[str, Any], pairs: Path, table: str, key: str, value: object, message: str
) -> None:
    tables[table][key] = value
    with pytest.raises(InputError, match=message):
        CCPRTask(Config.of(tables), pairs)


@pytest.mark.parametrize(("files", "size"), [("terms", "term_batch"), ("citations", "citation_batch")])
def test_entries_are_not_passed_over_where_positives_are_elsewhere(
    tables: dict[str, Any], files: str, size: str
) -> None:
    tables["data"] |= {files: ["t.jsonl"], size: 2, "positives": "elsewhere"}
    with pytest.raises(InputError, match=f"{files} with positives"):
        Config.of(tables)


def test_unknown_and_missing_tables_are_named(tables: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"\[weather\]: unknown"):
        Config.of({**tables, "weather": {}})
    del tables["model"]
    with pytest.raises(InputError, match=r"\[model\].*base"):
        Config.of(tables)


def test_the_configurations_of_the_repository_are_readable() -> None:
    from phrasemate.training.config import SHIPPED, read_toml

    paper = Config.of(read_toml(SHIPPED / "ccpr.toml"))
    assert (paper.loss.dim, paper.loop.steps, paper.optimizer.encoder, paper.model.dropout) == (128, 20_000, 5e-5, 0.2)
    assert (paper.data.batch, paper.loop.accumulate) == (64, 8)  # each of 8 GPUs has its own negatives
    assert (paper.loss.directions, paper.loop.clip, paper.loop.weight_decay) == ("sum", 0.0, 0.0)
    assert paper.model.embeddings == "trained"
    assert not paper.loss.normalise
    assert Config.of(read_toml(SHIPPED / "ccpr-small.toml")).loss.normalise


def test_a_configuration_that_comes_with_it_is_called_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from typer.testing import CliRunner

    from phrasemate.cli import app
    from phrasemate.training.config import SHIPPED, file_of

    monkeypatch.chdir(tmp_path)
    Path("ccpr-small").mkdir()  # such as a folder of data of the same name
    assert file_of(Path("ccpr-small")) == file_of(Path("ccpr-small.toml")) == SHIPPED / "ccpr-small.toml"
    for missing in ("ccpr-smal", "configs/ccpr-small.toml", "."):
        with pytest.raises(InputError) as caught:
            file_of(Path(missing))
        names = "bicla, bicla-small, ccpr, ccpr-contexts, ccpr-small, reranker, xpr, xpr-small"
        assert str(caught.value) == f"{missing}: no such file; phrasemate comes with {names}"
    Path("xpr").write_text("", "utf-8")
    assert file_of(Path("xpr")) == Path("xpr")  # one's own comes first
    run = CliRunner().invoke(app, ["train", "ccpr", "ccpr", "-o", "run"])
    assert run.exit_code == 1
    assert "ccpr comes with phrasemate: say with --data where the files of phrasemate pairs are" in run.stderr
    assert not Path("run").exists()


def test_terms_are_phrases_but_no_examples_of_segmentation(base: Path, pairs: Path, model: PhraseModel) -> None:
    file, tokenizer = PairFile(pairs / "en-xx.jsonl"), Tokenizer(base)
    terms = [Example("haus fluss", "house river", [(0, 10, 0, 11)]), Example("rot", "red", [(0, 3, 0, 3)])]
    examples = [file[i] for i in range(3)]
    alone = collate(examples, tokenizer, Alteration(), 3, 99, random.Random(1))
    both = collate(examples, tokenizer, Alteration(), 3, 99, random.Random(1), terms)
    assert (alone.sentences, both.sentences) == (3, 3)
    assert len(both.pairs) == len(alone.pairs) + 2
    assert len(both.source.first) == len(alone.source.first) + 3 + 1  # haus, haus fluss, fluss; rot
    settings = Settings(dim=8)
    with torch.no_grad():
        losses = [CCPR(model, settings)(model.backbone.states(b.tokens, 64), b)["segment"] for b in (alone, both)]
    assert losses[1].item() == pytest.approx(losses[0].item(), rel=1e-4)


def test_a_run_begins_with_the_heads_of_another(tables: dict[str, Any], pairs: Path, tmp_path: Path) -> None:
    first = CCPRTask(Config.of(tables), pairs)
    (tmp_path / "model").mkdir()
    first.save(tmp_path / "model")
    weights = {path.name: oct(path.stat().st_mode & 0o777) for path in (tmp_path / "model").glob("*.safetensors")}
    assert weights == {"model.safetensors": "0o644", "heads.safetensors": "0o644"}  # the library leaves them private
    tables["model"].update(base=str(tmp_path / "model"), head="base")
    second = CCPRTask(Config.of(tables), pairs)
    for (name, a), b in zip(first.module.named_parameters(), second.module.parameters(), strict=True):
        assert torch.equal(a, b), name
    tables["loss"]["dim"] = 9
    with pytest.raises(InputError, match="8 dimensions; expected 9"):
        CCPRTask(Config.of(tables), pairs)


def test_terms_come_with_each_batch(tables: dict[str, Any], pairs: Path) -> None:
    (pairs / "en-xx.jsonl").rename(pairs / "terms-xx.jsonl")
    tables["data"].update(terms=["terms-*.jsonl"], term_batch=3)
    task = CCPRTask(Config.of(tables), pairs)
    assert len(task.batch(0).tokens) == 2 * (4 + 3)
    assert task.batch(0).sentences == 4


def test_citations_are_examples_whose_sides_do_not_translate_each_other(tables: dict[str, Any], pairs: Path) -> None:
    (pairs / "en-xx.jsonl").rename(pairs / "citations-xx.jsonl")
    tables["data"].update(citations=["citations-*.jsonl"], citation_batch=3)
    batch = CCPRTask(Config.of(tables), pairs).batch(0)
    assert len(batch.tokens) == 2 * (4 + 3)
    assert (batch.sentences, batch.mates) == (4, 4)  # neither sentence contrast nor segmentation counts them
    assert set((batch.source.text[batch.pairs[:, 0]] >= 4).tolist()) == {False, True}  # the alignment does


def test_heads_of_fewer_lengths_are_taken_over(model: PhraseModel) -> None:
    """A segmenter that tells no lengths apart gives each the same bias, one of two lengths its last to all longer."""
    longer = PhraseModel(model.backbone, 8, 4)
    for values, expected in (([0.5], [0.5] * 4), ([0.5, -1.0], [0.5, -1.0, -1.0, -1.0])):
        heads = {**model.heads(), "segment_bias": torch.tensor(values)}
        longer.load_heads(heads)
        assert longer.segment_bias.tolist() == expected


def test_the_anchor_is_the_mean_distance_from_before(
    model: PhraseModel, states: torch.Tensor, batch: SpanBatch
) -> None:
    before = states + torch.linspace(-1, 1, states.numel()).reshape(states.shape)
    plain = CCPR(model, Settings(dim=8, segment=0))(states, batch)["loss"].item()
    anchors = CCPR(model, Settings(dim=8)).sentence_vectors(before, batch.tokens)[batch.anchored()]
    losses = CCPR(model, Settings(dim=8, segment=0, anchor=3.0))(states, batch, anchors)
    distances = []
    for low, high in itertools.pairwise(batch.tokens.bounds.tolist()):
        one, other = states[low:high].double().mean(0), before[low:high].double().mean(0)
        distances.append(1 - float(one @ other / one.norm() / other.norm()))
    assert losses["anchor"].item() == pytest.approx(float(np.mean(distances)), rel=1e-5)
    assert losses["loss"].item() == pytest.approx(plain + 3 * float(np.mean(distances)), rel=1e-5)
    assert min(distances) > 0.001
    with pytest.raises(InputError, match=r"anchor 3\.0, and no vectors"):
        CCPR(model, Settings(dim=8, segment=0, anchor=3.0))(states, batch)


def test_a_context_weight_adds_the_mean_of_the_texts_tokens(
    model: PhraseModel, states: torch.Tensor, batch: SpanBatch
) -> None:
    weight = 0.5
    objective = CCPR(model, Settings(dim=8, normalise=True, temperature=0.05, context=weight))
    side, spans = on_device(states.device, batch.source), torch.arange(len(batch.source.first))
    projections = model.projections(states)
    vectors = objective.vectors(projections, side, spans, objective.contexts(projections, batch.tokens))
    bounds = batch.tokens.bounds
    for number in spans.tolist():
        text = int(batch.source.text[number])
        tokens = torch.arange(int(bounds[text]) + 1, int(bounds[text + 1]) - 1)
        mean = torch.nn.functional.normalize(span_vectors(projections, tokens, tokens), dim=1).mean(0)
        ends = torch.tensor([[batch.source.first[number]], [batch.source.last[number]]])
        expected = torch.nn.functional.normalize(span_vectors(projections, *ends), dim=1)[0] + weight * mean
        torch.testing.assert_close(vectors[number], expected / expected.norm(), atol=1e-5, rtol=1e-4)
    plain = CCPR(model, Settings(dim=8, normalise=True, temperature=0.05))(states, batch)["align"].item()
    assert CCPR(model, objective.settings)(states, batch)["align"].item() != pytest.approx(plain, rel=1e-4)
    with pytest.raises(InputError, match="without normalise"):
        Settings(dim=8, context=weight)


def rewrite(path: Path, change: Callable[[int, dict[str, Any]], object]) -> None:
    """Change each line of a file of phrase pairs."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for number, row in enumerate(rows):
        change(number, row)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_a_batch_without_phrase_pairs_has_no_loss_of_phrases(tables: dict[str, Any], pairs: Path) -> None:
    for path in pairs.iterdir():
        rewrite(path, lambda number, row: row.update(pairs=row["pairs"][:2] if number % 2 else []))
    tables["data"].update(batch=1, neighbours=1)
    task = CCPRTask(Config.of(tables), pairs)
    results = [task.backward(batch, nullcontext, 1.0) for batch in map(task.batch, range(6))]
    assert all(math.isfinite(value) for item in results for value in item.values())
    without = [len(task.batch(number).pairs) == 0 for number in range(6)]
    assert [entry["align"] == 0 for entry in results] == without
    assert any(without)


def test_held_out_sentences_without_phrase_pairs_are_refused(tables: dict[str, Any], pairs: Path) -> None:
    for path in pairs.iterdir():
        rewrite(path, lambda number, row: row.update(pairs=[]))
    with pytest.raises(InputError, match="no phrase pair in the 8 held-out sentence pairs"):
        CCPRTask(Config.of(tables), pairs)


def test_a_long_sentence_is_cut_where_the_encoder_ends(tables: dict[str, Any], pairs: Path) -> None:
    for path in pairs.iterdir():
        rewrite(path, lambda number, row: row.update(source=row["source"] + " haus" * 200))
    tables["data"]["max_tokens"] = 1_000
    task = CCPRTask(Config.of(tables), pairs)
    batch = task.batch(0)
    assert np.diff(batch.tokens.bounds).max() == 64
    assert math.isfinite(task.backward(batch, nullcontext, 1.0)["loss"])


def test_files_of_one_name_have_figures_of_their_own(tables: dict[str, Any], tmp_path: Path) -> None:
    """And none takes the place of another figure."""
    for seed, name in enumerate(("a/train", "b/train", "a/score")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write_pairs(tmp_path / f"{name}.jsonl", 30, seed)
    tables["data"]["files"] = ["*/*.jsonl"]
    task = CCPRTask(Config.of(tables), tmp_path)
    names = ["a/score.jsonl", "a/train.jsonl", "b/train.jsonl"]
    assert task.names == names
    report = task.evaluate(nullcontext)
    assert report["score"] == pytest.approx(sum(report[name] for name in names) / 3)


def test_directions_are_averaged_or_added(model: PhraseModel, states: torch.Tensor, batch: SpanBatch) -> None:
    mean, added = (CCPR(model, Settings(dim=8, segment=0, directions=how))(states, batch) for how in ("mean", "sum"))
    assert added["align"].item() == pytest.approx(2 * mean["align"].item(), rel=1e-6)
    assert added["acc@1"].item() == mean["acc@1"].item()
    with pytest.raises(InputError, match=r"\[loss\] balance: 'batches'; expected batch or sentence"):
        Settings(balance="batches")


def test_the_segmenter_is_balanced_in_each_sentence(model: PhraseModel, states: torch.Tensor, batch: SpanBatch) -> None:
    """The loss is that of both sides' spans with the numbers of their texts."""
    sides = [on_device(states.device, side) for side in (batch.source, batch.target)]
    drawn = torch.Generator().manual_seed(0)
    for side in sides:
        side["phrase"] = torch.rand(len(side["phrase"]), generator=drawn) < 0.3 * (1 + side["text"] % 2)
    loss = CCPR(model, Settings(dim=8, balance="sentence")).segmentation(states * 5, batch, sides)
    columns = {
        name: torch.cat([side[name] for side in sides]) for name in ("first", "last", "length", "phrase", "text")
    }
    logits = model.segments(states * 5, columns["first"], columns["last"], columns["length"])
    expected = balanced_bce(logits, columns["phrase"], columns["text"])
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    assert loss.item() != pytest.approx(balanced_bce(logits, columns["phrase"]).item(), rel=1e-5)


def test_held_out_phrases_without_cosines_are_found_by_inner_products(tables: dict[str, Any], pairs: Path) -> None:
    """And the longest vector is told, for the index."""
    tables["loss"]["normalise"] = False
    task = CCPRTask(Config.of(tables), pairs)
    task.module.eval()
    figures = task.evaluate(nullcontext)
    right, count, longest = 0, 0, 0.0
    spans, queries = [], []
    for _, batch in task._held_out():
        with torch.no_grad():
            states = task.backbone.states(batch.tokens, 64)
        vectors = [
            np.stack([plain_vector(task.module, states, int(a), int(b)) for a, b in zip(s.first, s.last, strict=True)])
            for s in (batch.source, batch.target)
        ]
        before = sum(map(len, spans))
        queries += [(vectors[0][a], b + before) for a, b in batch.pairs.tolist()]
        spans.append(vectors[1])
        longest = max(longest, float(np.linalg.norm(vectors[1], axis=1).max()))
    candidates = np.concatenate(spans)
    for vector, place in queries:
        scores = candidates @ vector
        right += int((scores >= scores[place] - 1e-6).sum() == 1)
        count += 1
    assert figures["acc@1"] == pytest.approx(right / count, abs=1.5 / count)  # a tie may fall either way
    assert figures["longest"] == pytest.approx(longest, rel=1e-4)
    tables["loss"]["normalise"] = True
    assert "longest" not in CCPRTask(Config.of(tables), pairs).evaluate(nullcontext)
