"""Readers of the evaluation corpora, with errors that say what is missing or damaged."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from phrasemate.align import Links, TokenizedSentence
from phrasemate.errors import InputError, ReadError
from phrasemate.text.text_file import numbered_lines

LANGS = ("de", "cs", "ro", "fr")
# The second language of a pair, with its script (Hant) and country (BR).
_TARGET = re.compile(r"-[^-_]+(?:[-_](?:[A-Z][a-z]{3}|[A-Z]{2}))*$")
# Files that each part of the CCPR evaluation reads.
EXPECTED = {
    "phrases": ("phrase_bench/XX-en.jsonl", "parallel/en-{cs,de,es,fr}.tsv.gz"),
    "alignment": ("gold_alignments/XX-en.jsonl",),
    "segmenter": ("gold_alignments/XX-en.jsonl", "phrase_bench/XX-en.jsonl", "parallel/en-{cs,de,es,fr}.tsv.gz"),
    "polysemy": (),
}


def check_folder(data: Path, parts: Iterable[str]) -> None:
    """Raise InputError if the folder lacks a subfolder that some part of the evaluation reads from."""
    files = sorted({file for part in parts for file in EXPECTED[part]})
    missing = sorted({file.split("/")[0] for file in files if not (data / file.split("/")[0]).is_dir()})
    if missing:
        problem = f"no folder {', '.join(missing)} in it" if data.is_dir() else "no such folder"
        raise InputError(
            f"{data}: {problem}; "
            f"expected the folder of the corpora with {', '.join(files)} (XX: {', '.join(LANGS)}); "
            "name it with --data, or choose parts with --only"
        )


def json_lines(path: Path, keys: Sequence[str]) -> list[dict[str, Any]]:
    """Read a file with one JSON object on each line; every object must have the keys.

    Raises InputError if the file is missing, ReadError if it is empty or a line is not such an object.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file; expected JSON lines with {', '.join(keys)}")
    objects = []
    for number, line in numbered_lines(path):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ReadError(str(path), number, f"not a JSON object ({error})", "fix or restore the file") from error
        if not isinstance(row, dict):
            raise ReadError(str(path), number, f"not a JSON object ({line[:40]})", "fix or restore the file")
        missing = [key for key in keys if key not in row]
        if missing:
            raise ReadError(str(path), number, f"no {', '.join(missing)}", f"expected {', '.join(keys)}")
        objects.append(row)
    if not objects:
        raise ReadError(str(path), 0, "an empty file", f"expected JSON lines with {', '.join(keys)}")
    return objects


def parallel(data: Path, lang: str, first: int | None = None) -> Iterator[tuple[str, str]]:
    """Yield the (English, foreign) sentences of a parallel file, at most the ``first`` lines of it.

    Raises InputError if the file is missing or damaged.
    """
    path = data / "parallel" / f"en-{lang}.tsv.gz"
    try:
        with gzip.open(path, "rt", encoding="utf-8-sig", newline="\n") as file:
            for line in islice(file, first):
                english, foreign = [*line.rstrip("\r\n").split("\t"), ""][:2]
                yield english, foreign
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: {reason}; expected English and {lang}, separated by a tab, gzip") from error


class Gold(NamedTuple):
    """Gold alignment: sentence pairs, the sure links of each, and the acceptable (sure or possible) links of each."""

    pairs: list[tuple[TokenizedSentence, TokenizedSentence]]
    sure: list[Links]
    acceptable: list[Links]


def links_of(data: Path, lang: str, first: int | None = None) -> Gold:
    """Read the gold alignment of a language; the links of a sentence pair are sorted.

    A side of a sentence pair is a list of tokens, or a text that `TokenizedSentence.of` divides into words. Without
    ``possible`` links, only sure links are acceptable. A link may point beyond the last token; no aligner finds such a
    link.

    Raises InputError if the file is missing, ReadError for a line without sentences or with malformed links.
    """
    path = data / "gold_alignments" / f"{lang}-en.jsonl"
    rows = json_lines(path, ("source", "target", "links"))[:first]
    for number, row in enumerate(rows, 1):
        if not _has_links(row["source"], row["target"], row["links"], row.setdefault("possible", [])):
            requirement = "expected texts or lists of tokens, and links as pairs of word numbers from 0"
            raise ReadError(str(path), number, "no tokens with links between them", requirement)
    pairs = [(_sentence_of(row["source"]), _sentence_of(row["target"])) for row in rows]
    sure = [{(source, target) for source, target in row["links"]} for row in rows]
    acceptable = [
        links | {(source, target) for source, target in row["possible"]} for links, row in zip(sure, rows, strict=True)
    ]
    return Gold(pairs, [*map(sorted, sure)], [*map(sorted, acceptable)])


def _sentence_of(side: str | list[str]) -> TokenizedSentence:
    return TokenizedSentence.of(side) if isinstance(side, str) else TokenizedSentence.of_tokens(side)


def _has_links(source: Any, target: Any, *groups: Any) -> bool:
    """Return whether the sides are two sentences and each group is a list of links (pairs of numbers from 0)."""
    if not all(
        isinstance(side, str) or (isinstance(side, list) and all(isinstance(token, str) for token in side))
        for side in (source, target)
    ):
        return False
    return all(
        isinstance(links, list)
        and all(
            isinstance(link, list) and len(link) == 2 and all(type(end) is int and end >= 0 for end in link)
            for link in links
        )
        for links in groups
    )


def languages(pair: str) -> tuple[str, str]:
    """Split a pair such as ``de-en`` into source and target language.

    Script and country of a language begin with a capital letter, as in ``de-zh-Hant``.
    """
    match = _TARGET.search(pair)
    at = match.start() if match else pair.rfind("-")
    return pair[: max(at, 0)], pair[at + 1 :] if at >= 0 else ""


def name_of(folder: Path) -> str:
    """Return a folder's name as it was given; for ``.`` and ``..`` the name of the folder that they stand for."""
    return folder.name if folder.name.strip(".") else folder.resolve().name


def digest(paths: Iterable[Path]) -> str:
    """Return the first 12 hex digits of the SHA-256 over the contents of the files, in this order."""
    hasher = hashlib.sha256()
    for path in paths:
        hasher.update(path.read_bytes())
    return hasher.hexdigest()[:12]
