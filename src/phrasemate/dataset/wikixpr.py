"""Data sets in the form of WikiXPR (phrase pairs with example sentences on both sides), and import of WikiXPR itself.

A folder has the files ``<pair>/train.jsonl``, ``dev.jsonl`` and ``test.jsonl``; ``<pair>`` is two language codes, such
as ``de-en``. One line is one phrase pair; ``start`` and ``end`` are offsets in characters of ``text``::

    {"source": "Speisekarte", "target": "menu",
     "source_examples": [{"text": "Die Speisekarte ist kurz.", "start": 4, "end": 15}], "target_examples": [...]}

The data set that the authors of XPR released has these files for each language except English, here for German::

    train/train-en-de-32-phrase.txt                 and dev/, test/: an English phrase, a tab, its translation
    sentences/en-de-phrase-sentences.32.tsv         an English phrase, an unused column, its sentences
    sentences/de-phrase-sentences.32.tsv            the same in German

Phrases are in lower case, sentences are not. The release does not say where a phrase occurs in a sentence. As in the
authors' code, it is searched ignoring case, first with punctuation and then without. Sentences without the phrase are
left out, and so are pairs without a sentence on some side.
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from phrasemate.errors import InputError, ReadError, line_fault
from phrasemate.text.text_file import numbered_lines
from phrasemate.types import Phrase
from phrasemate.utils.storage import NewFile, check_new

SPLITS = ("train", "dev", "test")


@dataclass(frozen=True, slots=True)
class ExamplePair:
    """Two phrases with the same meaning, each with sentences that contain it."""

    source: str
    target: str
    source_examples: tuple[Phrase, ...] = ()
    target_examples: tuple[Phrase, ...] = ()


def read_dataset(folder: str | Path, pair: str, split: str) -> list[ExamplePair]:
    """Read the pairs of one split, in the order of the file.

    Args:
        folder: Folder of the data set.
        pair: Languages, such as "de-en".
        split: "train", "dev" or "test".

    Raises InputError for an unknown or missing split or pair, ReadError with file and line for a line that is not a
    phrase pair.
    """
    if split not in SPLITS:
        raise InputError(f"split {split!r}; expected one of {', '.join(SPLITS)}")
    path = Path(folder) / pair / f"{split}.jsonl"
    if not path.is_file():
        names = ", ".join(language_pairs(folder)) or "none"
        raise InputError(f"{path}: no such file; the pairs in {folder} are: {names}")
    return [_parse(path, number, line) for number, line in numbered_lines(path)]


def language_pairs(folder: str | Path) -> list[str]:
    """Return the language pairs in a folder, sorted."""
    paths = Path(folder).glob(f"*-*/{SPLITS[0]}.jsonl")
    return sorted(path.parent.name for path in paths)


def write(path: str | Path, pairs: Iterable[ExamplePair]) -> int:
    """Write one split, completely or not at all, and return the number of pairs."""
    count = 0
    with NewFile(path) as file:
        for count, pair in enumerate(pairs, 1):  # noqa: B007 (counted here)
            file.write(json.dumps(_plain(pair), ensure_ascii=False) + "\n")
    return count


def _plain(pair: ExamplePair) -> dict[str, Any]:
    return {
        "source": pair.source,
        "target": pair.target,
        "source_examples": _example_records(pair.source_examples),
        "target_examples": _example_records(pair.target_examples),
    }


def _example_records(phrases: Sequence[Phrase]) -> list[dict[str, Any]]:
    return [{"text": phrase.context, "start": phrase.start, "end": phrase.end} for phrase in phrases]


def _parse(path: Path, number: int, line: str) -> ExamplePair:
    try:
        row = json.loads(line)
        sides = [
            tuple(
                Phrase(str(example["text"]), int(example["start"]), int(example["end"]))
                for example in row[f"{side}_examples"]
            )
            for side in ("source", "target")
        ]
        return ExamplePair(str(row["source"]), str(row["target"]), *sides)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError, InputError) as error:
        reason = f"not a phrase pair with examples ({line_fault(error)})"
        raise ReadError(str(path), number, reason, "make the data set again with phrasemate dataset xpr") from error


SENTENCES = 2  # first column with a sentence
_BLANKS = str.maketrans(string.punctuation, " " * len(string.punctuation))
Examples = dict[str, list[str]]


@dataclass(slots=True)
class WikiXPRPair:
    """Report of the import of a language pair, such as "de-en".

    Args:
        pair: Language pair.
        pairs: Number of written phrase pairs of each split.
        without: Number of phrase pairs left out because a side has no sentence.
        sentences: Number of example sentences of both sides.
        absent: Number of sentences left out because they lack the phrase.
    """

    pair: str
    pairs: dict[str, int] = field(default_factory=dict)
    without: int = 0
    sentences: int = 0
    absent: int = 0


def languages_in(folder: str | Path) -> list[str]:
    """Return the languages that a released folder pairs with English, sorted."""
    names = (re.fullmatch(r"train-en-(.+)-\d+-phrase\.txt", path.name) for path in Path(folder).glob("train/*.txt"))
    return sorted(name[1] for name in names if name)


def import_wikixpr(folder: str | Path, out: str | Path, language: str, force: bool = False) -> WikiXPRPair:
    """Write OUT/LANG-en/train.jsonl, dev.jsonl and test.jsonl from the released WikiXPR.

    Args:
        folder: Folder of the release.
        out: Folder to write to.
        language: Language of the source phrases; the other side is English.
        force: Overwrite files that exist.

    Raises InputError for a missing file, or for an existing one without ``force``, ReadError for a line without its
    columns.
    """
    report = WikiXPRPair(f"{language}-en")
    names = [f"en-{language}-phrase-sentences.*.tsv", f"{language}-phrase-sentences.*.tsv"]
    folder, out = Path(folder), Path(out)
    sentences = [_single_file(folder / "sentences", name) for name in names]
    paths = {split: _single_file(folder / split, f"{split}-en-{language}-*-phrase.txt") for split in SPLITS}
    (out / report.pair).mkdir(parents=True, exist_ok=True)
    for split in SPLITS:
        check_new(out / report.pair / f"{split}.jsonl", force)
    english, second = map(_examples, sentences)
    for split, path in paths.items():
        pairs = _pairs(path, english, second, report)
        report.pairs[split] = write(out / report.pair / f"{split}.jsonl", pairs)
    return report


def _single_file(folder: Path, pattern: str) -> Path:
    """Return the only file that matches a pattern. Raises InputError for none or several."""
    paths = sorted(folder.glob(pattern))
    if len(paths) != 1:
        raise InputError(f"{folder / pattern}: {len(paths)} files; expected one, as in the released WikiXPR")
    return paths[0]


def _examples(path: Path) -> Examples:
    """Return the sentences of each phrase."""
    examples: Examples = {}
    for _, line in numbered_lines(path):
        columns = line.rstrip("\n").split("\t")
        examples[columns[0].strip().lower()] = [text.strip() for text in columns[SENTENCES:] if text.strip()]
    return examples


def _pairs(path: Path, english: Examples, other: Examples, imported: WikiXPRPair) -> Iterator[ExamplePair]:
    """Yield the pairs of a file that have sentences on both sides; ``imported`` counts sentences and other pairs."""
    for number, line in numbered_lines(path):
        phrases = [column.strip() for column in line.split("\t")[:2]]
        if len(phrases) < 2 or not all(phrases):
            raise ReadError(
                str(path), number, f"{line[:40]!r}", "expected an English phrase, a tab and its translation"
            )
        target, source = phrases
        sides = [_locate_examples(source, other, imported), _locate_examples(target, english, imported)]
        if all(sides):
            imported.sentences += sum(map(len, sides))
            yield ExamplePair(source, target, *sides)
        else:
            imported.without += 1


def _locate_examples(phrase: str, examples: Examples, imported: WikiXPRPair) -> tuple[Phrase, ...]:
    """Return the phrase in each of its sentences, with its offsets."""
    phrases = []
    for text in examples.get(phrase.lower(), ()):
        places = _locate(phrase, text) or _locate(phrase.translate(_BLANKS).strip(), text.translate(_BLANKS))
        if places is None:
            imported.absent += 1
        else:
            phrases.append(Phrase(text, *places))
    return tuple(phrases)


def _locate(phrase: str, text: str) -> tuple[int, int] | None:
    """Return start and end of the phrase in a text, ignoring case; None if it is not there."""
    match = re.search(re.escape(phrase), text, re.IGNORECASE) if phrase else None
    return match.span() if match else None
