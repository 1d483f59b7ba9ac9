"""What a data set is made from, read once and kept: sentences, one a line, and the titles of a wiki.

Each stage leaves a file in the work folder, named by what it was made from and how. The file gets its name when it is
complete, so a stopped run repeats only the stage that it was in. A file that does not match its checksum is made
again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import IO, NamedTuple

from phrasemate.dataset.dump import Page, is_dump, pages, paragraphs
from phrasemate.errors import InputError
from phrasemate.text import Skipped, read, split_sentences
from phrasemate.text.text_file import numbered_lines
from phrasemate.utils.storage import NewFile, atomic_file, sha256_of

Progress = Callable[[str, int, int], None]

_HOW = "2"  # counts up when the same file comes to give other sentences
_GONE = "\ufffc"  # where markup.paragraphs left something out
_STOPPED = re.compile(r"[.!?…。！？｡։।؟۔።။។]['\"”’»›)\]）」』]*$")
_UNSTOPPED = frozenset({"th", "lo"})  # written without full stops
_VARIANTS = frozenset(  # whose wikis convert between scripts (MediaWiki, LanguageConverterFactory)
    {"ban", "crh", "gan", "iu", "kk", "ku", "mni", "sh", "shi", "sr", "tg", "tly", "uz", "wuu", "zgh", "zh"}
)
LISTED = 1000  # pages of a dump that are passed over; the rest are counted
_OFTEN = 1000  # sentences between two reports of progress


class Reading(NamedTuple):
    """How text files are read; see ``phrasemate.read``. Dumps have use for ``encoding`` only, if theirs is wrong."""

    column: str | int | None = None
    text_field: str = "text"
    lines: str = "paragraph"
    encoding: str | None = None
    on_error: str = "raise"


class Staged(NamedTuple):
    """Files of sentences, files of titles (page number, tab, title) for each dump, and what was passed over."""

    sentences: list[Path]
    titles: list[Path]
    skipped: list[Skipped]


def staged(
    work: Path, paths: Sequence[str | Path], language: str, reading: Reading, progress: Progress = lambda *_: None
) -> Staged:
    """The sentences of texts and dumps in ``work``, made where they are not there yet.

    Passed over are pages of dumps that `paragraphs` leaves out, and what is damaged in texts if ``reading`` says so.
    Raises ReadError for what cannot be read, InputError where no path is given.
    """
    if not paths:
        raise InputError(f"no text in {language}; expected files, folders or dumps")
    work.mkdir(parents=True, exist_ok=True)
    dumps = [Path(path) for path in paths if is_dump(path)]
    texts = [str(path) for path in paths if not is_dump(path)]
    files = [_from_dump(work, path, language, reading.encoding, progress) for path in dumps]
    sentences = [one for one, _ in files] + ([_from_texts(work, texts, language, reading, progress)] if texts else [])
    return Staged(sentences, [titles for _, titles in files], [item for path in sentences for item in _skipped(path)])


def _from_dump(work: Path, path: Path, language: str, encoding: str | None, progress: Progress) -> tuple[Path, Path]:
    stem = work / f"{language}-{_digest(_HOW, language, str(encoding), *_identity(path))}"
    sentences, titles = stem.with_suffix(".txt"), stem.with_suffix(".titles.tsv")
    if _is_whole(sentences, titles):
        return sentences, titles
    namespaces: set[str] = set()
    skipped: list[Skipped] = []
    more = 0

    def left_out(page: Page) -> None:
        nonlocal more
        if len(skipped) < LISTED:
            reason = f"page {page.id} ({page.title[:60]}): its markup would take too long to parse"
            skipped.append(Skipped(str(path), 0, reason))
        else:
            more += 1

    with _whole(titles) as title_file, _whole(sentences) as file:
        show, variants = partial(progress, f"reading {path.name}"), language.partition("-")[0] in _VARIANTS
        for page in pages(path, namespaces, show, encoding):
            title_file.write(f"{page.id}\t{page.title}\n")
            for line in paragraphs(page.text, namespaces, partial(left_out, page), variants):
                file.writelines(f"{sentence}\n" for sentence in _sentences(line, language))
        if more:
            skipped.append(Skipped(str(path), 0, f"{more:,} more pages, whose markup would take too long to parse"))
        _keep(sentences, skipped)
    _seal(sentences, titles)
    return sentences, titles


def _from_texts(work: Path, paths: Sequence[str], language: str, reading: Reading, progress: Progress) -> Path:
    how = reading._replace(encoding=reading.encoding or "utf-8")._asdict()
    corpus = read(*paths, **how, lang=language)
    documents = list(corpus)
    out = work / f"{language}-{_digest(_HOW, *(document.digest for document in documents))}.txt"
    if _is_whole(out) and (reading.on_error == "skip" or not _skipped(out)):
        return out
    total, before, count = sum(document.size for document in documents), 0, 0
    with _whole(out) as file:
        for document in documents:
            for sentence in document.sentences():
                file.write(" ".join(sentence.text.split()) + "\n")
                count += 1
                if count % _OFTEN == 0:
                    progress(f"reading {language} text", before + document.consumed(), total)
            before += document.size
        _keep(out, corpus.skipped)
    _seal(out)
    return out


def _skipped(sentences: Path) -> list[Skipped]:
    """What was passed over when a file of sentences was made."""
    path = sentences.with_suffix(".skipped.jsonl")
    return [Skipped(**json.loads(line)) for _, line in numbered_lines(path)] if path.exists() else []


def _keep(sentences: Path, skipped: Sequence[Skipped]) -> None:
    """Writes that down, where there is any."""
    path = sentences.with_suffix(".skipped.jsonl")
    path.unlink(missing_ok=True)
    if skipped:
        with NewFile(path) as file:
            for item in skipped:
                file.write(json.dumps(item._asdict(), ensure_ascii=False) + "\n")


def _seal(sentences: Path, *others: Path) -> None:
    """Notes the checksums of all that a stage has made."""
    with NewFile(sentences.with_suffix(".json")) as file:
        file.write(json.dumps(_sums(sentences, *others)) + "\n")


def _is_whole(sentences: Path, *others: Path) -> bool:
    """Whether a stage is done, and nothing that it made was altered since."""
    try:
        sealed = json.loads(sentences.with_suffix(".json").read_text("utf-8"))
        return bool(sealed == _sums(sentences, *others))
    except (OSError, ValueError, RecursionError):
        return False


def _sums(*staged_path: Path) -> dict[str, str]:
    """SHA-256 by name; also of what was passed over. Raises OSError."""
    skipped = staged_path[0].with_suffix(".skipped.jsonl")
    return {path.name: sha256_of(path) for path in (*staged_path, skipped) if path != skipped or path.exists()}


def _sentences(line: str, language: str) -> Iterator[str]:
    """The whole sentences of a line of a wiki: no titles, no items of lists, nothing that lost a template."""
    for start, end in split_sentences(line, language):
        sentence = line[start:end]
        if _GONE not in sentence and (language in _UNSTOPPED or _STOPPED.search(sentence)):
            yield sentence


def _whole(path: Path) -> AbstractContextManager[IO[str]]:
    """A file that gets its name when all is written."""
    return atomic_file(path, encoding="utf-8", errors="replace", newline="\n")


def _identity(path: Path) -> tuple[str, str, str]:
    """What tells a file from its later versions; a dump is too large to be read for it."""
    if not path.exists():
        return str(path), "", ""
    facts = path.stat()
    return str(path.resolve()), str(facts.st_size), str(facts.st_mtime_ns)


def _digest(*parts: str) -> str:
    return sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:16]
