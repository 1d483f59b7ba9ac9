"""Trains the projection of phrases, and the topmost layers, on cached states of an encoder with fixed lower layers.

    phrasemate model unpack -o .cache/bundled
    phrasemate model export .cache/bundled -o .cache/layers --layer 10
    python bench/phrase_heads.py .cache/contexts .cache/states --upper .cache/bundled --model .cache/layers --rate 0

Reads what bench/context_training_data.py wrote: sentence pairs with phrase pairs, contrasts (wordings with two
translations of different meaning), pairs of wordings that are right for each other. Of each language it takes
``--contrasts`` contrasts whose two translations occur in four sentence pairs or more, and four pairs for each. One
wording in six is held out, with all its sentence pairs. The states of layer 10 of their sentences are computed once
(``--model``) and stored; the layers above (``--upper``) are run in every step, and trained if ``--rate`` is not 0.

A phrase vector is v + w c, as in `Model.span_vectors`. ``--context learned``: c has a projection of its own and a
learned weight for each token. The loss adds three parts: a phrase and its translation in another sentence pair, against
the others of the batch; the right translation of a contrast against the wrong one; a phrase and its translation in the
same sentence pair, against all spans of the batch's English sentences.

Prints the share of contexts of held-out contrasts whose best mate has the right sense (two mates of each sense, from
other sentence pairs), and whose best mate of all has; and the share of held-out phrases whose very translation is above
all spans of the held-out English sentences. At the end, the first two on contrasts of the training.
"""

from __future__ import annotations

import json
import random
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from common import parser
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from phrasemate import load_model
from phrasemate.encode import Model
from phrasemate.encode.export.traced_graph import load_encoder
from phrasemate.encode.heads import load_heads
from phrasemate.encode.pooling import token_rows
from phrasemate.encode.runtime import States
from phrasemate.errors import ModelError
from phrasemate.text import folded
from phrasemate.training.frozen_states import layer_states

OCCURRENCES = 4  # sentence pairs of a translation of a contrast
LONGEST = 110  # characters of an English sentence
HELD_OUT = 6  # one wording in so many
LANGS = "de cs fr ru es tr"
SPAN = 5  # tokens of a wrong answer
SPANS = 6_000  # wrong answers of a step
TEXTS = 64  # that go through the layers at once

Rows = NDArray[np.int64]
Pair = tuple[str, str, str]  # language, wording, English wording


class Occurrences(NamedTuple):
    """Phrase pairs in their sentences, each (n,): number of the pair, text, first and last token of both sides."""

    kind: Rows
    source: Rows
    source_first: Rows
    source_last: Rows
    target: Rows
    first: Rows
    last: Rows
    held_out: NDArray[np.bool_]


class Corpus:
    """Sentence pairs of contrasts: texts, occurrences of pairs of wordings, and the contrasts as numbers of pairs."""

    def __init__(self, folder: Path, langs: Sequence[str], contrasts: int, seed: int) -> None:
        self.texts: dict[str, int] = {}
        self.kinds: dict[Pair, int] = {}
        self.contrasts: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
        self.places: list[tuple[int, ...]] = []  # kind, source text, start, end, target text, start, end, held out
        draw = random.Random(seed)
        for lang in langs:
            self._add(folder, lang, contrasts, draw)
        self.right = right_wordings(folder, langs, {(lang, wording) for lang, wording, _ in self.kinds})

    def _add(self, folder: Path, lang: str, most: int, draw: random.Random) -> None:
        with (folder / f"pairs-{lang}.jsonl").open(encoding="utf-8") as file:
            rows = [row for row in map(json.loads, file) if len(row["target"]) <= LONGEST]
        lines: dict[tuple[str, str], list[int]] = defaultdict(list)
        for number, row in enumerate(rows):
            for wordings in {wordings_of(row, pair) for pair in row["pairs"]}:
                lines[wordings].append(number)
        by_wording: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for line in (folder / f"contrasts-{lang}.tsv").read_text(encoding="utf-8").splitlines():
            wording, one, two = line.split("\t")
            if min(len(lines[wording, one]), len(lines[wording, two])) >= OCCURRENCES:
                by_wording[wording].append((one, two))
        wordings_drawn = sorted(by_wording)
        draw.shuffle(wordings_drawn)
        wordings_drawn.sort(key=lambda wording: not is_held_out(lang + wording))
        count, used = 0, {True: set[int](), False: set[int]()}
        for wording in wordings_drawn:
            held_out = is_held_out(lang + wording)
            if not held_out and count == most:
                break
            count += not held_out
            both = draw.choice(by_wording[wording])
            for english in both:
                fresh = [row for row in lines[wording, english] if held_out or row not in used[True]]
                used[held_out].update(draw.sample(fresh, min(OCCURRENCES, len(fresh))))
            one, two = (self._kind((lang, wording, english)) for english in both)
            self.contrasts[held_out].append((one, two))
        for held_out, chosen in used.items():
            for number in sorted(chosen):
                self._occur(lang, rows[number], held_out)

    def _occur(self, lang: str, row: dict[str, Any], held_out: bool) -> None:
        source, target = (self.texts.setdefault(row[side], len(self.texts)) for side in ("source", "target"))
        for start, end, first, last in row["pairs"]:
            kind = self._kind((lang, *wordings_of(row, (start, end, first, last))))
            self.places.append((kind, source, start, end, target, first, last, held_out))

    def _kind(self, pair: Pair) -> int:
        return self.kinds.setdefault(pair, len(self.kinds))

    def occurrences(self, states: States) -> Occurrences:
        """The places as token rows."""
        kind, source, start, end, target, first, last, held_out = np.array(self.places, np.int64).T
        sides = [
            token_rows(states, texts, opening.astype(np.int32), closing.astype(np.int32))
            for texts, opening, closing in ((source, start, end), (target, first, last))
        ]
        return Occurrences(kind, source, *sides[0], target, *sides[1], held_out.astype(bool))


def wordings_of(row: dict[str, Any], pair: Sequence[int]) -> tuple[str, str]:
    """The folded wordings of a phrase pair of a line."""
    return folded(row["source"][pair[0] : pair[1]]), folded(row["target"][pair[2] : pair[3]])


def is_held_out(wording: str) -> bool:
    """Whether a wording's contrasts are never trained on."""
    return blake2b(wording.encode(), digest_size=4).digest()[0] % HELD_OUT == 0


def right_wordings(
    folder: Path, langs: Sequence[str], wordings: set[tuple[str, str]]
) -> dict[tuple[str, str], set[str]]:
    """(language, wording) -> the English wordings that are right for it."""
    right: dict[tuple[str, str], set[str]] = defaultdict(set)
    for lang in langs:
        with (folder / f"known-{lang}.tsv").open(encoding="utf-8", newline="\n") as file:
            for line in file:
                wording, _, english = line.rstrip("\n").partition("\t")
                if (lang, wording) in wordings:
                    right[lang, wording].add(english)
    return right


def cached_states(model: Model, texts: Sequence[str], layer: int, folder: Path) -> States:
    """States of all texts in half precision, mapped into memory; computed where the folder has none of these texts."""
    folder.mkdir(parents=True, exist_ok=True)
    facts = folder / "facts.json"
    digest = blake2b("\n".join((model.hash, str(layer), *texts)).encode(), digest_size=16).hexdigest()
    if not facts.exists() or json.loads(facts.read_text()) != digest:
        columns: list[tuple[Rows, Any, Any]] = []
        with (folder / "values.f16").open("wb") as file:
            for block in model.token_states(texts, layer):
                file.write(block.values.astype(np.float16).tobytes())
                columns.append((np.diff(block.bounds), block.starts, block.ends))
        lengths, starts, ends = map(np.concatenate, zip(*columns, strict=True))
        np.savez(folder / "offsets.npz", bounds=np.concatenate([[0], np.cumsum(lengths)]), starts=starts, ends=ends)
        facts.write_text(json.dumps(digest))
    offsets = np.load(folder / "offsets.npz")
    values = np.memmap(folder / "values.f16", np.float16, "r", shape=(int(offsets["bounds"][-1]), model.width))
    return States(values, offsets["bounds"], offsets["starts"], offsets["ends"])


class Tokens(NamedTuple):
    """What the tokens of some texts give: a span's two halves, running sums of context vectors and of their weights."""

    starts: Tensor
    ends: Tensor
    sums: Tensor
    weights: Tensor
    bounds: Rows


class PhraseVectors(nn.Module):
    """The topmost layers, the projection of a span's two ends, and the vector of its sentence."""

    def __init__(self, upper: Path, states: States, layer: int, weight: float, learned: bool) -> None:
        super().__init__()
        heads = {
            name: torch.from_numpy(array)
            for name, array in load_heads(upper / "heads.safetensors", states.values.shape[1], ModelError, "").items()
        }
        self.layers = nn.ModuleList(list(load_encoder(upper).encoder.layer)[layer:]).eval()
        self.stored, self.weight = states, weight
        self.start, self.end = nn.Parameter(heads["start"]), nn.Parameter(heads["end"])
        self.bias = nn.Parameter(heads["bias"])
        self.context = nn.Parameter(heads["start"] + heads["end"]) if learned else None
        self.shift = nn.Parameter(heads["bias"].clone()) if learned else None
        self.salience = nn.Parameter(torch.zeros(len(heads["start"]))) if learned else None

    def states(self, texts: Rows) -> Tensor:
        """(tokens, width) states of the last layer, text after text."""
        bounds = self.stored.bounds
        lengths = np.diff(bounds)[texts]
        order = np.argsort(lengths, kind="stable")
        after = np.concatenate([[0], np.cumsum(lengths)])
        parts, places = [], []
        for at in range(0, len(order), TEXTS):
            some = order[at : at + TEXTS]
            mask = torch.arange(int(lengths[some].max())) < torch.from_numpy(lengths[some])[:, None]
            rows = np.concatenate([np.arange(bounds[text], bounds[text + 1]) for text in texts[some]])
            values = torch.zeros(*mask.shape, self.stored.values.shape[1])
            values[mask] = torch.from_numpy(self.stored.values[rows].astype(np.float32))
            with torch.autocast("cpu", torch.bfloat16):
                for layer in self.layers:
                    values = layer_states(layer, values, values, mask)
            parts.append(values[mask].float())
            places.append(np.concatenate([np.arange(after[place], after[place + 1]) for place in some]))
        return torch.cat(parts)[torch.from_numpy(np.argsort(np.concatenate(places)))]

    def tokens(self, texts: Rows) -> Tokens:
        """Run the layers above the stored ones."""
        states = self.states(texts)
        bounds = np.concatenate([[0], np.cumsum(np.diff(self.stored.bounds)[texts])])
        starts, ends = states @ self.start + self.bias, states @ self.end
        if self.context is None or self.salience is None or self.shift is None:
            vectors, weights = functional.normalize(starts + ends, dim=1), torch.ones(len(states))
        else:
            vectors = functional.normalize(states @ self.context + self.shift, dim=1)
            weights = (states @ self.salience).clamp(-8, 8).exp()
        special = torch.ones(len(states))
        special[bounds[:-1]] = special[bounds[1:] - 1] = 0
        weights = weights * special
        sums = functional.pad((vectors * weights[:, None]).cumsum(0), (0, 0, 1, 0))
        return Tokens(starts, ends, sums, functional.pad(weights.cumsum(0), (1, 0)), bounds)

    def vectors(self, tokens: Tokens, texts: Rows, first: Rows, last: Rows) -> Tensor:
        """(spans, dim) unit vectors; all numbers count among the texts and rows of ``tokens``."""
        low, high = tokens.bounds[texts], tokens.bounds[texts + 1]
        contexts = (tokens.sums[high] - tokens.sums[low]) / (tokens.weights[high] - tokens.weights[low])[:, None]
        vectors = functional.normalize(tokens.starts[first] + tokens.ends[last], dim=1)
        return functional.normalize(vectors + self.weight * contexts, dim=1)

    @torch.no_grad()
    def encode(self, texts: Rows, first: Rows, last: Rows) -> Tensor:
        """(spans, dim) unit vectors of spans of stored token rows."""
        distinct, numbers = np.unique(texts, return_inverse=True)
        vectors = torch.empty(len(texts), len(self.bias))
        for at in range(0, len(distinct), 400):
            tokens = self.tokens(distinct[at : at + 400])
            some = np.flatnonzero((numbers >= at) & (numbers < at + 400))
            moved = tokens.bounds[numbers[some] - at] - self.stored.bounds[texts[some]]
            vectors[some] = self.vectors(tokens, numbers[some] - at, first[some] + moved, last[some] + moved)
        return vectors


class Senses:
    """Shares of contexts whose best mate has the right sense, of those of the phrase and of all mates.

    ``held_out``: whether of the contrasts that are held out, or of those that are trained on.
    """

    def __init__(self, corpus: Corpus, occurrences: Occurrences, held_out: bool, seed: int) -> None:
        draw, self.occurrences = random.Random(seed), occurrences
        places = by_kind(occurrences, held_out)
        pairs = {number: pair for pair, number in corpus.kinds.items()}
        rows: list[tuple[int, int]] = []  # occurrence in its context, kind of the wrong sense
        mates: dict[int, list[int]] = {}
        for both in corpus.contrasts[held_out]:
            if min(len(places[kind]) for kind in both) < OCCURRENCES:
                continue
            for kind, other in (both, both[::-1]):
                some = draw.sample(places[kind], len(places[kind]))
                rows += [(place, other) for place in some[:2]]
                mates[kind] = some[2:4]
        self.contexts = np.array([place for place, _ in rows])
        self.mates = np.array([place for some in mates.values() for place in some])
        kinds, others = occurrences.kind[self.contexts], np.array([other for _, other in rows])
        self.same, self.opposed = (column[:, None] == occurrences.kind[self.mates] for column in (kinds, others))
        english = np.array([pairs[kind][2] for kind in occurrences.kind[self.mates].tolist()])
        self.right = english == np.array([pairs[kind][2] for kind in kinds.tolist()])[:, None]
        wrong = english == np.array([pairs[kind][2] for kind in others.tolist()])[:, None]
        rights = np.array([[word in corpus.right[pairs[kind][:2]] for word in english] for kind in kinds.tolist()])
        self.ignored = rights & ~self.right & ~wrong  # another translation, whose sense is not known

    def __call__(self, model: PhraseVectors) -> tuple[float, float]:
        """Encode contexts and mates, and compare."""
        queries = model.encode(*sides(self.occurrences, self.contexts)[0])
        similar = (queries @ model.encode(*sides(self.occurrences, self.mates)[1]).T).numpy()
        sense = np.where(self.same, similar, -2).max(1) > np.where(self.opposed, similar, -2).max(1)
        best = np.where(self.ignored, -2, similar).argmax(1)
        return float(sense.mean()), float(self.right[np.arange(len(best)), best].mean())


class VerySpans:
    """Share of held-out phrases whose very translation is above all spans of the held-out English sentences."""

    def __init__(self, states: States, occurrences: Occurrences, count: int, seed: int) -> None:
        every = np.flatnonzero(occurrences.held_out)
        chosen = every[random.Random(seed).sample(range(len(every)), min(count, len(every)))]
        self.spans = spans_of(states.bounds, np.unique(occurrences.target[every]), SPAN + 1)
        numbers = {span: number for number, span in enumerate(zip(*map(np.ndarray.tolist, self.spans), strict=True))}
        targets = zip(*map(np.ndarray.tolist, sides(occurrences, chosen)[1]), strict=True)
        answers = np.array([numbers.get(span, -1) for span in targets])
        self.phrases, self.answers = sides(occurrences, chosen[answers >= 0])[0], answers[answers >= 0]

    def __call__(self, model: PhraseVectors) -> float:
        """Encode phrases and spans, and compare."""
        phrases, spans = model.encode(*self.phrases), model.encode(*self.spans)
        gold, hits = (phrases * spans[self.answers]).sum(1, keepdim=True), 0
        for at in range(0, len(phrases), 100):
            hits += int(((phrases[at : at + 100] @ spans.T > gold[at : at + 100] + 1e-6).sum(1) == 0).sum())
        return hits / len(phrases)


def by_kind(occurrences: Occurrences, held_out: bool) -> dict[int, list[int]]:
    """Number of a pair of wordings -> its occurrences."""
    places: dict[int, list[int]] = defaultdict(list)
    for place in np.flatnonzero(occurrences.held_out == held_out).tolist():
        places[int(occurrences.kind[place])].append(place)
    return places


def sides(occurrences: Occurrences, places: Rows) -> tuple[tuple[Rows, Rows, Rows], tuple[Rows, Rows, Rows]]:
    """Texts, first and last tokens of both sides of some occurrences."""
    columns = [column[places] for column in occurrences[1:7]]
    return (columns[0], columns[1], columns[2]), (columns[3], columns[4], columns[5])


def spans_of(bounds: Rows, texts: Rows, most: int) -> tuple[Rows, Rows, Rows]:
    """Texts, first and last rows of all spans of up to ``most`` tokens."""
    parts = []
    for text in texts.tolist():
        low, high = int(bounds[text]) + 1, int(bounds[text + 1]) - 1
        for width in range(min(most, high - low)):
            first = np.arange(low, high - width)
            parts.append((np.full(len(first), text), first, first + width))
    texts_, first, last = map(np.concatenate, zip(*parts, strict=True))
    return texts_, first, last


class Trainer:
    """Draws batches and computes the loss; see the module."""

    def __init__(self, corpus: Corpus, occurrences: Occurrences, model: PhraseVectors, args: Any) -> None:
        self.corpus, self.occurrences, self.model, self.args = corpus, occurrences, model, args
        self.places = by_kind(occurrences, False)
        self.pairs = {number: pair for pair, number in corpus.kinds.items()}
        self.contrasts = [c for c in corpus.contrasts[False] if all(len(self.places[kind]) > 1 for kind in c)]
        self.draw = random.Random(args.seed)
        self.aligned = np.flatnonzero(~occurrences.held_out).tolist()

    def loss(self) -> dict[str, Tensor]:
        """The three parts for one batch."""
        kinds = [kind for both in self.draw.sample(self.contrasts, self.args.batch) for kind in both]
        crossed = np.array([self.draw.sample(self.places[kind], 2) for kind in kinds])
        aligned = np.array(self.draw.sample(self.aligned, self.args.batch))
        askers, answers = np.append(crossed[:, 0], aligned), np.append(crossed[:, 1], aligned)
        source, target = sides(self.occurrences, askers)[0], sides(self.occurrences, answers)[1]
        texts, numbers = np.unique(np.concatenate([source[0], target[0]]), return_inverse=True)
        tokens = self.model.tokens(texts)
        moved = tokens.bounds[:-1] - self.model.stored.bounds[texts]
        askers_texts, other = numbers[: len(askers)], numbers[len(askers) :]
        queries = self.model.vectors(
            tokens, askers_texts, source[1] + moved[askers_texts], source[2] + moved[askers_texts]
        )
        mates = self.model.vectors(tokens, other, target[1] + moved[other], target[2] + moved[other])
        count = len(kinds)
        similar = queries[:count] @ mates[:count].T / self.args.temperature
        spans = spans_of(tokens.bounds, np.unique(other), SPAN)
        some = np.random.default_rng(self.draw.randrange(1 << 30)).permutation(len(spans[0]))[:SPANS]
        wrong = self.model.vectors(tokens, *(column[some] for column in spans))
        logits = queries[count:] @ wrong.T / self.args.temperature
        right = (queries[count:] * mates[count:]).sum(1, keepdim=True) / self.args.temperature
        itself = other[count:, None] == spans[0][some]
        itself &= (target[1] + moved[other])[count:, None] == spans[1][some]
        itself &= (target[2] + moved[other])[count:, None] == spans[2][some]
        logits = torch.cat([right, logits.masked_fill(torch.from_numpy(itself), -1e4)], 1)
        return {
            "crossed": self._crossed(similar, kinds),
            "sense": self._sense(similar),
            "aligned": functional.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long)),
        }

    def _crossed(self, similar: Tensor, kinds: list[int]) -> Tensor:
        """Both directions; right wordings other than the contrast's own are not negatives."""
        pairs = [self.pairs[kind] for kind in kinds]
        rights = [[e in self.corpus.right[pair[:2]] or e == pair[2] for _, _, e in pairs] for pair in pairs]
        ignored = torch.tensor(rights)
        numbers = torch.arange(len(kinds))
        ignored[numbers, numbers ^ 1] = ignored[numbers, numbers] = False
        gold = [
            functional.cross_entropy(s.masked_fill(i, -1e4), numbers)
            for s, i in ((similar, ignored), (similar.T, ignored.T))
        ]
        return (gold[0] + gold[1]) / 2

    def _sense(self, similar: Tensor) -> Tensor:
        numbers = torch.arange(len(similar))
        right, opposed = similar[numbers, numbers], numbers ^ 1
        return (
            functional.softplus(similar[numbers, opposed] - right)
            + functional.softplus(similar[opposed, numbers] - right)
        ).mean() / 2


def steps(trainer: Trainer, args: Any) -> Iterator[dict[str, float]]:
    """Train, and give the parts of the loss of each step."""
    model = trainer.model
    model.layers.requires_grad_(args.rate > 0)
    upper = set(model.layers.parameters())
    heads = [parameter for parameter in model.parameters() if parameter not in upper]
    optimizer = torch.optim.AdamW(
        [{"params": heads, "lr": args.heads}, {"params": list(upper), "lr": args.rate}], weight_decay=0.01
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1, (step + 1) / 30) * max(0.05, 1 - step / max(args.steps, 1))
    )
    for _ in range(args.steps):
        parts = trainer.loss()
        total = parts["crossed"] + args.sense * parts["sense"] + parts["aligned"]
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        schedule.step()
        yield {name: float(value.detach()) for name, value in parts.items()}


def main() -> None:
    """Cache, train, and print the measures before and after."""
    options = parser(__doc__)
    options.add_argument("contexts", type=Path, help="what bench/context_training_data.py wrote")
    options.add_argument("states", type=Path, help="folder of the cached states")
    options.add_argument("--upper", type=Path, required=True, help="the encoder as a Hugging Face folder, with heads")
    options.add_argument("--layer", type=int, default=10, help="whose states are cached")
    options.add_argument("--langs", default=LANGS)
    options.add_argument("--contrasts", type=int, default=250, help="of a language")
    options.add_argument("--batch", type=int, default=24, help="contrasts of a step, and aligned phrases")
    options.add_argument("--steps", type=int, default=300)
    options.add_argument("--every", type=int, default=100, help="steps between two measurements")
    options.add_argument("--heads", type=float, default=5e-4, help="learning rate of the heads")
    options.add_argument("--rate", type=float, default=0.0, help="learning rate of the upper layers")
    options.add_argument("--temperature", type=float, default=0.05)
    options.add_argument("--sense", type=float, default=1.0, help="weight of the contrast of senses")
    options.add_argument("--context", choices=("mean", "learned"), default="mean")
    options.add_argument("--weights", default="0.7", help="of the context; the first one in training, all at the ends")
    args = options.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads or torch.get_num_threads())
    corpus = Corpus(args.contexts, args.langs.split(), args.contrasts, args.seed)
    states = cached_states(load_model(args.model, args.threads), list(corpus.texts), args.layer, args.states)
    occurrences = corpus.occurrences(states)
    weights = [float(weight) for weight in args.weights.split()]
    model = PhraseVectors(args.upper, states, args.layer, weights[0], args.context == "learned")
    trainer = Trainer(corpus, occurrences, model, args)
    senses, very_spans = Senses(corpus, occurrences, True, args.seed), VerySpans(states, occurrences, 1_200, args.seed)
    print(
        f"{len(corpus.texts):,} texts, {len(trainer.contrasts):,} contrasts; held out: {len(senses.contexts)} "
        f"contexts, {len(senses.mates)} mates, {len(very_spans.answers)} phrases, {len(very_spans.spans[0]):,} spans",
        flush=True,
    )

    def measure(step: int, parts: dict[str, float]) -> None:
        for weight in weights if step in (0, args.steps) else weights[:1]:
            model.weight = weight
            sense, first = senses(model)
            losses = " ".join(f"{name} {value:.3f}" for name, value in parts.items())
            print(
                f"step {step}, w = {weight}: right sense {sense:.3f}, first of all mates {first:.3f}, very spans "
                f"{very_spans(model):.3f} {losses} ({time.process_time():.0f} s)",
                flush=True,
            )
        model.weight = weights[0]

    measure(0, {})
    sums: dict[str, float] = defaultdict(float)
    for step, parts in enumerate(steps(trainer, args), 1):
        for name, value in parts.items():
            sums[name] += value / args.every
        if step % args.every == 0:
            measure(step, sums)
            sums.clear()
    sense, first = Senses(corpus, occurrences, False, args.seed)(model)
    print(f"contrasts of the training: right sense {sense:.3f}, first of all mates {first:.3f}")


if __name__ == "__main__":
    main()
