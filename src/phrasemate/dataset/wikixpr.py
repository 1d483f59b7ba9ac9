"""The data set that the authors of XPR released, WikiXPR, -> the form of `phrasemate.dataset.jsonl`.

Its folder has, for each language but English, here German::

    train/train-en-de-32-phrase.txt                 and dev/, test/: an English phrase, a tab, its translation
    sentences/en-de-phrase-sentences.32.tsv         an English phrase, a column of no use here, its sentences
    sentences/de-phrase-sentences.32.tsv            the same in German

Phrases are in lower case, sentences are not. Where a phrase stands in a sentence is not written. It is looked for
whatever the case, then without punctuation, as the authors' code does. Sentences without it are left out, and so are
pairs that keep no sentence on one side.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from phrasemate.dataset.jsonl import SPLITS, ExamplePair, write
from phrasemate.errors import InputError, ReadError
from phrasemate.text.text_file import numbered_lines
from phrasemate.types import Phrase
from phrasemate.utils.storage import check_new

SENTENCES = 2  # the first column that holds one
_BLANKS = str.maketrans(string.punctuation, " " * len(string.punctuation))
Examples = dict[str, list[str]]


@dataclass(slots=True)
class Imported:
    """What was read of a language pair, such as "de-en".

    Args:
        pairs: Phrase pairs of each split that were written.
        without: Phrase pairs left out because a side has no sentence.
        sentences: Example sentences of both sides.
        absent: Sentences left out because the phrase is not in them.
    """

    pair: str
    pairs: dict[str, int] = field(default_factory=dict)
    without: int = 0
    sentences: int = 0
    absent: int = 0


def languages_in(folder: Path) -> list[str]:
    """The languages that a released folder pairs with English, sorted."""
    names = (re.fullmatch(r"train-en-(.+)-\d+-phrase\.txt", path.name) for path in folder.glob("train/*.txt"))
    return sorted(name[1] for name in names if name)


def import_wikixpr(folder: Path, out: Path, language: str, force: bool = False) -> Imported:
    """Write OUT/LANG-en/train.jsonl, dev.jsonl and test.jsonl; phrases of the language are the sources.

    Raises InputError for a file that is not there or already exists without ``force``, ReadError for a line
    without its columns.
    """
    imported = Imported(f"{language}-en")
    names = [f"en-{language}-phrase-sentences.*.tsv", f"{language}-phrase-sentences.*.tsv"]
    sentences = [_only(folder / "sentences", name) for name in names]
    paths = {split: _only(folder / split, f"{split}-en-{language}-*-phrase.txt") for split in SPLITS}
    (out / imported.pair).mkdir(parents=True, exist_ok=True)
    for split in SPLITS:
        check_new(out / imported.pair / f"{split}.jsonl", force)
    english, other = map(_examples, sentences)
    for split, path in paths.items():
        pairs = _pairs(path, english, other, imported)
        imported.pairs[split] = write(out / imported.pair / f"{split}.jsonl", pairs)
    return imported


def _only(folder: Path, pattern: str) -> Path:
    paths = sorted(folder.glob(pattern))
    if len(paths) != 1:
        raise InputError(f"{folder / pattern}: {len(paths)} files; expected one, as in the released WikiXPR")
    return paths[0]


def _examples(path: Path) -> Examples:
    """Sentences by phrase."""
    examples: Examples = {}
    for _, line in numbered_lines(path):
        columns = line.rstrip("\n").split("\t")
        examples[columns[0].strip().lower()] = [text.strip() for text in columns[SENTENCES:] if text.strip()]
    return examples


def _pairs(path: Path, english: Examples, other: Examples, imported: Imported) -> Iterator[ExamplePair]:
    for number, line in numbered_lines(path):
        phrases = [column.strip() for column in line.split("\t")[:2]]
        if len(phrases) < 2 or not all(phrases):
            raise ReadError(
                str(path), number, f"{line[:40]!r}", "expected an English phrase, a tab and its translation"
            )
        target, source = phrases
        sides = [_placed(source, other, imported), _placed(target, english, imported)]
        if all(sides):
            imported.sentences += sum(map(len, sides))
            yield ExamplePair(source, target, *sides)
        else:
            imported.without += 1


def _placed(phrase: str, examples: Examples, imported: Imported) -> tuple[Phrase, ...]:
    """The phrase in its sentences."""
    phrases = []
    for text in examples.get(phrase.lower(), ()):
        places = _place(phrase, text) or _place(phrase.translate(_BLANKS).strip(), text.translate(_BLANKS))
        if places is None:
            imported.absent += 1
        else:
            phrases.append(Phrase(text, *places))
    return tuple(phrases)


def _place(phrase: str, text: str) -> tuple[int, int] | None:
    match = re.search(re.escape(phrase), text, re.IGNORECASE) if phrase else None
    return match.span() if match else None
