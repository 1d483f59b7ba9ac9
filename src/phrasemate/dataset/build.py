"""Building of a data set in the form of WikiXPR from phrase pairs and text of both languages.

The form is that of Zheng et al., "Cross-Lingual Phrase Retrieval" (ACL 2022), section 4.

Phrase pairs come from a table or from inter-language links, sentences from texts or dumps of both languages. The
sources are read once, into files of sentences, one on each line, and of titles of a wiki. Each stage writes a file into
the work folder, named by its sources and settings. The file gets its name when it is complete, so a stopped run repeats
only the stage that it was in. A file that does not match its checksum is made again.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from typing import IO, Any, NamedTuple, Protocol

from phrasemate.dataset.aho_corasick import SentenceFiles
from phrasemate.dataset.dump import Page, Titles, is_dump, linked_titles, pages, paragraphs
from phrasemate.dataset.split import DatasetSettings, Split, TimeWords, candidates, divided
from phrasemate.dataset.wikixpr import SPLITS, ExamplePair, write
from phrasemate.errors import InputError, ReadError
from phrasemate.text import SkippedInput, read, split_sentences, words
from phrasemate.text.formats.tables import meant
from phrasemate.text.text_file import Damage, TextFile, numbered_lines
from phrasemate.types import Phrase, Progress, check_columns, check_language, to_settings
from phrasemate.utils.storage import NewFile, atomic_file, locked, sha256_of, write_text

_HOW = "2"  # version of the reading of files; to be increased when the same file gives other sentences
_GONE = "\ufffc"  # stands for what `paragraphs` left out of a line
_STOPPED = re.compile(r"[.!?…。！？｡։।؟۔።။។]['\"”’»›)\]）」』]*$")
_UNSTOPPED = frozenset({"th", "lo"})  # languages written without full stops
_VARIANTS = frozenset(  # languages whose wikis convert between scripts (MediaWiki, LanguageConverterFactory)
    {"ban", "crh", "gan", "iu", "kk", "ku", "mni", "sh", "shi", "sr", "tg", "tly", "uz", "wuu", "zgh", "zh"}
)
LISTED = 1000  # skipped pages of a dump that are listed; further ones are only counted
_OFTEN = 1000  # sentences between two reports of progress


class Reading(NamedTuple):
    """Settings for reading text files, as in ``phrasemate.read``.

    Dumps use only ``encoding``, which replaces the encoding that a dump declares.
    """

    column: str | int | None = None
    text_field: str = "text"
    lines: str = "paragraph"
    encoding: str | None = None
    on_error: str = "raise"


class CorpusFiles(NamedTuple):
    """Files of sentences, files of titles (page number, tab, title) of each dump, and what was skipped."""

    sentences: list[Path]
    titles: list[Path]
    skipped: list[SkippedInput]


def _from_dump(work: Path, path: Path, language: str, encoding: str | None, progress: Progress) -> tuple[Path, Path]:
    """Write the sentences and titles of a dump, unless they exist, and return both files."""
    stem = work / f"{language}-{_digest(_HOW, language, str(encoding), *_identity(path))}"
    sentences, titles = stem.with_suffix(".txt"), stem.with_suffix(".titles.tsv")
    if _is_whole(sentences, titles):
        return sentences, titles
    namespaces: set[str] = set()
    omissions: list[SkippedInput] = []
    more = 0

    def left_out(page: Page) -> None:
        nonlocal more
        if len(omissions) < LISTED:
            reason = f"page {page.id} ({page.title[:60]}): its markup would take too long to parse"
            omissions.append(SkippedInput(str(path), 0, reason))
        else:
            more += 1

    with _open_atomic(titles) as title_file, _open_atomic(sentences) as file:
        show, variants = partial(progress, f"reading {path.name}"), language.partition("-")[0] in _VARIANTS
        for page in pages(path, namespaces, show, encoding):
            title_file.write(f"{page.id}\t{page.title}\n")
            for line in paragraphs(page.text, namespaces, partial(left_out, page), variants):
                file.writelines(f"{sentence}\n" for sentence in _sentences(line, language))
        if more:
            omissions.append(
                SkippedInput(str(path), 0, f"{more:,} more pages, whose markup would take too long to parse")
            )
    _seal(sentences, omissions, titles)
    return sentences, titles


def _from_texts(work: Path, paths: Sequence[str], language: str, reading: Reading, progress: Progress) -> Path:
    """Write the sentences of texts, unless they exist, and return the file."""
    how = reading._replace(encoding=reading.encoding or "utf-8")._asdict()
    corpus = read(*paths, **how, lang=language)
    documents = list(corpus)
    out = work / f"{language}-{_digest(_HOW, *(document.digest for document in documents))}.txt"
    if _is_whole(out) and (reading.on_error == "skip" or not _read_skipped(out)):
        return out
    total, before, count = sum(document.size for document in documents), 0, 0
    with _open_atomic(out) as file:
        for document in documents:
            for sentence in document.sentences():
                file.write(" ".join(sentence.text.split()) + "\n")
                count += 1
                if count % _OFTEN == 0:
                    progress(f"reading {language} text", before + document.consumed(), total)
            before += document.size
    _seal(out, corpus.skipped)
    return out


def _read_skipped(sentences: Path) -> list[SkippedInput]:
    """Return what was skipped when a file of sentences was made."""
    path = sentences.with_suffix(".skipped.jsonl")
    return [SkippedInput(**json.loads(line)) for _, line in numbered_lines(path)] if path.exists() else []


def _seal(sentences: Path, skipped: Sequence[SkippedInput], *others: Path) -> None:
    """Write what was skipped, if anything was, and the checksums of all files of a stage."""
    path = sentences.with_suffix(".skipped.jsonl")
    path.unlink(missing_ok=True)
    if skipped:
        with NewFile(path) as file:
            for item in skipped:
                file.write(json.dumps(item._asdict(), ensure_ascii=False) + "\n")
    with NewFile(sentences.with_suffix(".json")) as file:
        file.write(json.dumps(_sums(sentences, *others)) + "\n")


def _is_whole(sentences: Path, *others: Path) -> bool:
    """Return whether a stage is complete and none of its files was altered since."""
    try:
        seal = json.loads(sentences.with_suffix(".json").read_text("utf-8"))
        return bool(seal == _sums(sentences, *others))
    except (OSError, ValueError, RecursionError):
        return False


def _sums(*staged_path: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of a stage and of the list of what was skipped, by name. Raises OSError."""
    omissions = staged_path[0].with_suffix(".skipped.jsonl")
    return {path.name: sha256_of(path) for path in (*staged_path, omissions) if path != omissions or path.exists()}


def _sentences(line: str, language: str) -> Iterator[str]:
    """Yield the complete sentences of a wiki's line: no titles, no list items, no sentences that lost a template."""
    for start, end in split_sentences(line, language):
        sentence = line[start:end]
        if _GONE not in sentence and (language in _UNSTOPPED or _STOPPED.search(sentence)):
            yield sentence


def _open_atomic(path: Path) -> AbstractContextManager[IO[str]]:
    """Open a file for writing that gets its name when it is complete."""
    return atomic_file(path, encoding="utf-8", errors="replace", newline="\n")


def _identity(path: Path) -> tuple[str, str, str]:
    """Return path, size and time of change of a file; a dump is too large to be read for a digest."""
    if not path.exists():
        return str(path), "", ""
    facts = path.stat()
    return str(path.resolve()), str(facts.st_size), str(facts.st_mtime_ns)


def _digest(*parts: str) -> str:
    return sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:16]


STATS = "stats.json"


@dataclass(frozen=True, slots=True)
class SideFacts:
    """Statistics of one language: numbers of phrases and examples, means over phrases and over sentences."""

    language: str
    phrases: int
    phrase_words: float
    phrase_characters: float
    examples: int
    examples_a_phrase: float
    sentence_words: float
    sentence_characters: float


@dataclass(frozen=True, slots=True)
class DatasetReport:
    r"""Report of a data set: given pairs, pairs that each filter removed, pairs of each split, statistics by language.

    ``skipped`` lists what was skipped in the texts.

    >>> for name, text in (("de.txt", "Die Speisekarte ist kurz."), ("en.txt", "Bring me the menu, please.")):
    ...     _ = Path(name).write_text(text)
    >>> _ = Path("pairs.tsv").write_text("Speisekarte\tmenu\n")
    >>> report = build_files("data", Side("de", ["de.txt"]), Side("en", ["en.txt"]), "pairs.tsv")
    >>> report.pair, report.given, report.splits["train"]
    ('de-en', 1, 1)
    """

    pair: str
    given: int
    removed: Mapping[str, int]
    splits: Mapping[str, int]
    sides: tuple[SideFacts, SideFacts]
    seconds: float = field(compare=False, default=0.0)
    skipped: tuple[SkippedInput, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return a mapping for JSON."""
        return asdict(self) | {"skipped": [item._asdict() for item in self.skipped]}


def build(
    out: str | Path,
    languages: tuple[str, str],
    pairs: Iterable[tuple[str, str]],
    source: SentenceSource,
    target: SentenceSource,
    settings: DatasetSettings | None = None,
    progress: Progress = lambda *_: None,
    skipped: Sequence[SkippedInput] = (),
) -> DatasetReport:
    """Write ``OUT/<source>-<target>/{train,dev,test}.jsonl``, and the statistics into ``OUT/stats.json``.

    Raises InputError if no pair is left, with the number of pairs that each filter removed.

    Args:
        out: Folder to write to.
        languages: Codes of the source and the target language.
        pairs: Pairs of a source phrase and a target phrase.
        source: Source of example sentences for source phrases.
        target: Source of example sentences for target phrases.
        settings: Filters and numbers of examples.
        progress: Called with a label, the number of finished steps, and the number of all steps (0: not known).
        skipped: What was skipped in the texts, for the report.
    """
    start, settings, removals = time.perf_counter(), to_settings(settings, DatasetSettings), Counter[str]()
    candidate_pairs = candidates(_report_progress(pairs, progress), languages, settings, removals)
    pair_count = len(candidate_pairs) + removals.total()
    examples: list[dict[str, list[Phrase]]] = []
    for side, finder in enumerate((source, target)):
        phrases = sorted({pair[side] for pair in candidate_pairs})
        show = partial(progress, f"{languages[side]} examples")
        samples = finder.find_all(phrases, settings.examples, settings.extra, settings.seed, show)
        examples.append(dict(zip(phrases, samples, strict=True)))
    full = (ExamplePair(a, b, tuple(examples[0][a]), tuple(examples[1][b])) for a, b in candidate_pairs)
    splits = divided(_with_examples(full, settings.least, removals), settings, removals)
    name = "-".join(languages)
    if not any(splits.values()):
        why = ", ".join(f"{count:,} {reason}" for reason, count in removals.items()) or "nothing was given"
        remedy = "give more pairs, more text or milder filters"
        raise InputError(f"{name}: no pair is left of {pair_count:,} ({why}); {remedy}")
    (Path(out) / name).mkdir(parents=True, exist_ok=True)
    for split, pair_list in splits.items():
        write(Path(out) / name / f"{split}.jsonl", pair_list)
    sides = _facts(languages[0], splits, 0), _facts(languages[1], splits, 1)
    counts = {split: len(examples) for split, examples in splits.items()}
    seconds = time.perf_counter() - start
    report = DatasetReport(name, pair_count, dict(removals), counts, sides, seconds, tuple(skipped))
    _note(Path(out), report, settings)
    return report


class SentenceSource(Protocol):
    """Source of example sentences for many phrases: `SentenceFiles`, or an ``ExampleIndex``."""

    def find_all(
        self,
        phrases: Sequence[str],
        limit: int = 32,
        extra: int = 10,
        seed: int = 0,
        progress: Callable[[int, int], None] = lambda step, total: None,
    ) -> list[list[Phrase]]:
        """Find at most ``limit`` sentences for each phrase, each at least ``extra`` characters longer than it."""


def _report_progress(pairs: Iterable[tuple[str, str]], progress: Progress) -> Iterator[tuple[str, str]]:
    """Yield the pairs, and report progress after every thousand of them."""
    for count, pair in enumerate(pairs, 1):
        if count % 1000 == 0:
            progress("phrase pairs", count, 0)
        yield pair


def _with_examples(pairs: Iterable[ExamplePair], least: int, removed: Counter[str]) -> Iterable[ExamplePair]:
    """Yield the pairs with at least ``least`` examples on both sides, and count the others."""
    for pair in pairs:
        if min(len(pair.source_examples), len(pair.target_examples)) >= least:
            yield pair
        else:
            removed["few examples"] += 1


def _facts(language: str, splits: Split, side: int) -> SideFacts:
    pairs = [pair for examples in splits.values() for pair in examples]
    phrases = [(pair.source, pair.target)[side] for pair in pairs]
    examples = [example.context for pair in pairs for example in (pair.source_examples, pair.target_examples)[side]]
    return SideFacts(
        language,
        len(phrases),
        _mean([len(words(phrase)) for phrase in phrases]),
        _mean([len(phrase) for phrase in phrases]),
        len(examples),
        round(len(examples) / len(phrases), 2),
        _mean([len(words(text)) for text in examples]),
        _mean([len(text) for text in examples]),
    )


def _mean(numbers: list[int]) -> float:
    return round(fmean(numbers), 2) if numbers else 0.0


def _note(out: Path, report: DatasetReport, settings: DatasetSettings) -> None:
    """Add the report of a language pair to the statistics of the folder."""
    path = out / STATS
    try:
        stored_facts = json.loads(path.read_text("utf-8")) if path.exists() else {}
    except (ValueError, RecursionError):
        stored_facts = {}
    facts = stored_facts if isinstance(stored_facts, dict) else {}
    facts[report.pair] = report.as_dict() | {"settings": asdict(settings)}
    write_text(path, json.dumps(facts, ensure_ascii=False, indent=1) + "\n")


WORK = ".work"
Pairs = Iterator[tuple[str, str]]


class Side:
    """Language of a data set: its code, its texts or dumps, and the settings for reading texts.

    Raises InputError if the code is empty or not a language code.
    """

    def __init__(self, language: str, paths: Sequence[str | Path], reading: Reading | None = None) -> None:
        if not language:
            raise InputError("the language code is empty; expected a code such as de")
        check_language(language)
        self.language, self.paths, self.reading = language, list(paths), reading or Reading()

    def staged(self, work: Path, progress: Progress = lambda *_: None) -> CorpusFiles:
        """Write the sentences and titles of the side into ``work``, unless they exist.

        The result lists what was skipped: pages of dumps that `paragraphs` leaves out, and damaged texts if ``reading``
        skips them. Raises ReadError for what cannot be read, InputError if there is no path.
        """
        if not self.paths:
            raise InputError(f"no text was given for {self.language}; expected files, folders or dumps")
        work.mkdir(parents=True, exist_ok=True)
        dumps = [Path(path) for path in self.paths if is_dump(path)]
        texts = [str(path) for path in self.paths if not is_dump(path)]
        files = [_from_dump(work, path, self.language, self.reading.encoding, progress) for path in dumps]
        sentences = [file for file, _ in files]
        if texts:
            sentences.append(_from_texts(work, texts, self.language, self.reading, progress))
        omissions = [item for path in sentences for item in _read_skipped(path)]
        return CorpusFiles(sentences, [titles for _, titles in files], omissions)


def build_files(
    out: str | Path,
    source: Side,
    target: Side,
    pairs: str | Path | None = None,
    links: str | Path | None = None,
    columns: tuple[int, int] = (1, 2),
    settings: DatasetSettings | None = None,
    force: bool = False,
    progress: Progress = lambda *_: None,
) -> DatasetReport:
    """Write a data set in the form of WikiXPR; `phrasemate.dataset.build.build` describes the files.

    The sentences of the sources are stored in ``OUT/.work`` and used again by the next run.

    Args:
        out: Folder to write to.
        source: Language and texts of the source side.
        target: Language and texts of the target side.
        pairs: Table of phrase pairs, with columns separated by tabs.
        links: Dump of the source wiki's langlinks, instead of ``pairs``. Its page numbers are looked up in the dumps
            among the source's texts.
        columns: Columns of the source and the target phrase in ``pairs``, from 1.
        settings: Filters and numbers of examples.
        force: Overwrite a data set that exists.
        progress: Called with a label, the number of finished steps, and the number of all steps (0: not known).

    Raises InputError for arguments that do not fit or a data set that already exists, ReadError for what cannot be
    read.
    """
    settings, languages = to_settings(settings, DatasetSettings), (source.language, target.language)
    _check(source, target, pairs, links, columns, settings)
    folder = Path(out) / "-".join(languages)
    if not force and any((folder / f"{split}.jsonl").exists() for split in SPLITS):
        raise InputError(f"{folder}: already exists; choose another folder, or add --force to overwrite it")
    work = Path(out) / WORK
    work.mkdir(parents=True, exist_ok=True)
    with locked(work / "lock", f"{Path(out)}: another process is writing it; wait for it to end"):
        source_files, target_files = (side.staged(work, progress) for side in (source, target))
        phrase_rows = (
            _linked_pairs(source_files, links, target.language, progress)
            if links
            else phrase_pairs(pairs or "", columns)
        )
        finders = [SentenceFiles(*item.sentences, longest=settings.longest) for item in (source_files, target_files)]
        omissions = list(dict.fromkeys([*source_files.skipped, *target_files.skipped]))
        return build(out, languages, phrase_rows, finders[0], finders[1], settings, progress, omissions)


def phrase_pairs(path: str | Path, columns: tuple[int, int] = (1, 2)) -> Pairs:
    """Yield the phrases in two columns (from 1) of a table separated by tabs (gzip if the name ends in .gz).

    Raises InputError for equal columns or columns below 1, ReadError for a missing file or a line with fewer columns.
    """
    path = Path(path)
    check_columns(columns)
    if not path.is_file():
        raise ReadError(str(path), 0, "not a file" if path.exists() else "no such file", "check the path")
    file = TextFile(path, str(path), path.suffix == ".gz", "utf-8", Damage(skip=False))
    for number, line in file.lines():
        cells = line.split("\t")
        if len(cells) >= max(columns):
            yield meant(cells[columns[0] - 1]), meant(cells[columns[1] - 1])
        elif line.strip():
            reason = f"{len(cells)} column{'s' * (len(cells) > 1)}; expected {max(columns)}, separated by tabs"
            raise ReadError(str(path), number, reason, "fix it or give --columns")


def _check(
    source: Side,
    target: Side,
    pairs: str | Path | None,
    links: str | Path | None,
    columns: tuple[int, int],
    settings: DatasetSettings,
) -> None:
    """Check at once what would otherwise fail after hours of reading dumps. Raises InputError and ReadError."""
    if (pairs is None) == (links is None):
        raise InputError("expected either a table of phrase pairs or a dump of langlinks, exactly one of the two")
    if pairs is not None:
        next(phrase_pairs(pairs, columns), None)
    elif not any(map(is_dump, source.paths)):
        raise InputError("--links needs the dump that its page numbers refer to; give it as source text")
    for path in [links, *source.paths, *target.paths]:
        if path not in (None, "-") and not Path(str(path)).exists():
            raise ReadError(str(path), 0, "no such file or folder", "check the path")
    if not settings.times:
        for side in (source, target):
            TimeWords.of(side.language)


def _linked_pairs(source: CorpusFiles, links: str | Path, language: str, progress: Progress) -> Pairs:
    """Yield the pairs of titles that the inter-language links connect."""
    show = partial(progress, f"reading {Path(links).name}")
    with Titles(*source.titles) as titles:
        yield from linked_titles(titles, links, language, show)
