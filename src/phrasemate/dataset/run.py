"""From files to a data set: phrase pairs of a table or of inter-language links, texts or dumps of both languages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from phrasemate.dataset.build import Progress, Report, build
from phrasemate.dataset.choose import Settings
from phrasemate.dataset.dump import is_dump
from phrasemate.dataset.links import Titles, linked_titles
from phrasemate.dataset.onepass import SentenceFiles
from phrasemate.dataset.records import SPLITS
from phrasemate.dataset.texts import Reading, Staged, staged
from phrasemate.dataset.times import TimeWords
from phrasemate.errors import InputError, ReadError
from phrasemate.text.error_policy import Damage
from phrasemate.text.formats.tables import meant
from phrasemate.text.text_file import TextFile
from phrasemate.types import check_language
from phrasemate.utils.locks import give_back, take

WORK = ".work"
Pairs = Iterator[tuple[str, str]]


class Side:
    """One language of a data set: its code, its texts or dumps, and how texts are read."""

    def __init__(self, language: str, paths: Sequence[str | Path], reading: Reading | None = None) -> None:
        if not language:
            raise InputError("no language; expected a code such as de")
        check_language(language)
        self.language, self.paths, self.reading = language, list(paths), reading or Reading()

    def staged(self, work: Path, progress: Progress) -> Staged:
        """Its sentences and titles, made where they are not there yet."""
        return staged(work, self.paths, self.language, self.reading, progress)


def build_files(
    out: str | Path,
    source: Side,
    target: Side,
    pairs: str | Path | None = None,
    links: str | Path | None = None,
    columns: tuple[int, int] = (1, 2),
    settings: Settings | None = None,
    force: bool = False,
    progress: Progress = lambda *_: None,
) -> Report:
    """Write a data set of the WikiXPR form; see `phrasemate.dataset.build.build` for what is written.

    The phrase pairs come from ``pairs``, a table with tabs, or from ``links``, a dump of the source wiki's langlinks,
    whose page numbers are looked up in the dumps among the source's texts. What was read is kept in ``OUT/.work`` and
    not read again. Raises InputError for arguments that do not fit or a data set that is there already, ReadError for
    what cannot be read.
    """
    settings, languages = settings or Settings(), (source.language, target.language)
    _check(source, target, pairs, links, columns, settings)
    folder = Path(out) / "-".join(languages)
    if not force and any((folder / f"{split}.jsonl").exists() for split in SPLITS):
        raise InputError(f"{folder}: is there already; take another folder, or --force to write it anew")
    with _locked(Path(out)):
        ours, theirs = (side.staged(Path(out) / WORK, progress) for side in (source, target))
        given = _linked(ours, links, target.language, progress) if links else phrase_pairs(pairs or "", columns)
        finders = [SentenceFiles(*each.sentences, longest=settings.longest) for each in (ours, theirs)]
        skipped = list(dict.fromkeys([*ours.skipped, *theirs.skipped]))
        return build(out, languages, given, finders[0], finders[1], settings, progress, skipped)


def phrase_pairs(path: str | Path, columns: tuple[int, int] = (1, 2)) -> Pairs:
    """The phrases in two columns (from 1) of a table with tabs (gzip where the name ends in .gz).

    Raises ReadError for a line with fewer columns.
    """
    path = Path(path)
    if min(columns) < 1 or columns[0] == columns[1]:
        raise InputError(f"columns {columns[0]},{columns[1]}; expected two different numbers from 1, such as 1,2")
    if not path.is_file():
        raise ReadError(str(path), 0, "not a file" if path.exists() else "no such file", "check the path")
    file = TextFile(path, str(path), path.suffix == ".gz", "utf-8", Damage(skip=False))
    for number, line in file.lines():
        cells = line.split("\t")
        if len(cells) >= max(columns):
            yield meant(cells[columns[0] - 1]), meant(cells[columns[1] - 1])
        elif line.strip():
            reason = f"{len(cells)} column{'s' * (len(cells) > 1)}; expected {max(columns)}, separated by tabs"
            raise ReadError(str(path), number, reason, "mend it or give --columns")


def _check(
    source: Side,
    target: Side,
    pairs: str | Path | None,
    links: str | Path | None,
    columns: tuple[int, int],
    settings: Settings,
) -> None:
    """What would show only after hours of reading dumps."""
    if (pairs is None) == (links is None):
        raise InputError("give either a table of phrase pairs or a dump of langlinks, one of the two")
    if pairs is not None:
        next(phrase_pairs(pairs, columns), None)
    elif not any(map(is_dump, source.paths)):
        raise InputError("--links needs the dump that its page numbers belong to; give it as source text")
    for path in [links, *source.paths, *target.paths]:
        if path not in (None, "-") and not Path(str(path)).exists():
            raise ReadError(str(path), 0, "no such file or folder", "check the path")
    if not settings.times:
        for side in (source, target):
            TimeWords.of(side.language)


def _linked(source: Staged, links: str | Path, language: str, progress: Progress) -> Pairs:
    show = partial(progress, f"reading {Path(links).name}")
    with Titles(*source.titles) as titles:
        yield from linked_titles(titles, links, language, show)


@contextmanager
def _locked(out: Path) -> Iterator[None]:
    """One process at a time writes to a folder."""
    (out / WORK).mkdir(parents=True, exist_ok=True)
    lock = take(out / WORK / "lock", f"{out}: another process is writing it; wait for it to end")
    try:
        yield
    finally:
        give_back(lock)
