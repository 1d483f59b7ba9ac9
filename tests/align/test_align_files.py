"""Whole files: reading parallel text, stopping and continuing, and every way in which files may disagree."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from phrasemate.align import ParallelText, PhraseSettings, TokenizedSentence, align_files, pair_files, read_pairs
from phrasemate.align.symmetrise import Links
from phrasemate.errors import InputError, ReadError
from phrasemate.utils.storage import ResumableFile

Pair = tuple[TokenizedSentence, TokenizedSentence]


class Diagonal:
    """Links word i with word i, in chunks of two pairs; may stop after some of them."""

    chunk = 2

    def __init__(self, stop_after: int = 99) -> None:
        self.left, self.aligned = stop_after, 0
        self.learned: list[tuple[str, Links]] = []

    @property
    def signature(self) -> dict[str, str]:
        return {"method": "diagonal"}

    def align(self, pairs: Sequence[Pair]) -> list[Links]:
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        self.aligned += len(pairs)
        return [[(i, i) for i in range(min(len(a.spans), len(b.spans)))] for a, b in pairs]

    def learn(self, aligned: Iterable[tuple[TokenizedSentence, TokenizedSentence, Links]]) -> None:
        self.learned = [(source.text, links) for source, _, links in aligned]


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(line + "\n" for line in lines), "utf-8")
    return path


@pytest.fixture
def text(tmp_path: Path) -> ParallelText:
    source = write(tmp_path / "de.txt", "Das Haus.", "", "Der Hund schläft", "Tür", "Die Tür")
    return ParallelText(source, write(tmp_path / "en.txt", "The house.", " ", "the dog sleeps", "door", "the door"))


LINKS = "0-0 1-1\n\n0-0 1-1 2-2\n0-0\n0-0 1-1\n"


def test_a_line_of_links_for_every_line(text: ParallelText, tmp_path: Path) -> None:
    records: list[tuple[str, int, int]] = []
    report = align_files(text, tmp_path / "out", Diagonal(), progress=lambda *event: records.append(event))
    assert (tmp_path / "out").read_text() == LINKS
    assert (report.lines, report.new, report.found, report.blank) == (5, 5, 2 + 0 + 3 + 1 + 2, 1)
    assert records == [("aligning", 2, 5), ("aligning", 4, 5), ("aligning", 5, 5)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["de.txt", "en.txt", "out"]


@pytest.mark.parametrize("torn", ["", "1-", "0-0 1-1"])
def test_a_stopped_run_continues_at_its_last_whole_line(text: ParallelText, tmp_path: Path, torn: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        align_files(text, tmp_path / "out", Diagonal(stop_after=2))
    with (tmp_path / "out.part").open("a") as file:
        file.write(torn)
    aligner = Diagonal()
    report = align_files(text, tmp_path / "out", aligner)
    assert (tmp_path / "out").read_text() == LINKS
    assert (report.lines, report.new, aligner.aligned) == (5, 1, 1)
    assert aligner.learned == [("Das Haus.", [(0, 0), (1, 1)]), ("", [])]  # a chunk of what was there


def test_a_run_that_only_lacks_its_name(text: ParallelText, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        align_files(text, tmp_path / "out", Diagonal(stop_after=2))
    (tmp_path / "out.part").write_text(LINKS)
    assert align_files(text, tmp_path / "out", Diagonal()).new == 0
    assert (tmp_path / "out").read_text() == LINKS


def test_other_settings_or_another_text_are_refused(text: ParallelText, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        align_files(text, tmp_path / "out", Diagonal(stop_after=1))
    with pytest.raises(InputError, match="started with tokenised False, now True"):
        align_files(text, tmp_path / "out", Diagonal(), tokenised=True)
    write(tmp_path / "de.txt", "Ein Haus.", "", "Der Hund schläft!", "Tür", "Die Tür")
    with pytest.raises(InputError, match=r"started with source .* bytes, checksum .*, now"):
        align_files(text, tmp_path / "out", Diagonal())
    assert align_files(text, tmp_path / "out", Diagonal(), force=True).new == 5


def test_a_finished_output_is_not_overwritten(text: ParallelText, tmp_path: Path) -> None:
    write(tmp_path / "out", "precious")
    with pytest.raises(InputError, match=r"already exists.*--force"):
        align_files(text, tmp_path / "out", Diagonal())
    with pytest.raises(KeyboardInterrupt):  # and is kept until the new one is whole
        align_files(text, tmp_path / "out", Diagonal(stop_after=1), force=True)
    assert (tmp_path / "out").read_text() == "precious\n"


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with ResumableFile(tmp_path / "out", {}), pytest.raises(InputError, match="another process"):
        ResumableFile(tmp_path / "out", {})
    assert not (tmp_path / "out.part.lock").exists()


def test_an_output_in_no_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        ResumableFile(tmp_path / "nowhere" / "out", {})


@pytest.mark.parametrize(
    ("name", "expected"),
    [("", "is a folder"), (".", "is a folder"), ("made", "is a folder"), ("out.gz", "without .gz")],
)
def test_a_name_that_no_plain_file_has(
    text: ParallelText, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, expected: str
) -> None:
    """A folder would show when all is aligned, and .gz when it is read."""
    monkeypatch.chdir(tmp_path)
    Path("made").mkdir()
    before = sorted(tmp_path.iterdir())
    with pytest.raises(InputError, match=expected):
        align_files(text, name, Diagonal(), force=True)
    assert sorted(tmp_path.iterdir()) == before


def test_files_of_different_length_are_reported_before_any_work(text: ParallelText, tmp_path: Path) -> None:
    write(tmp_path / "en.txt", "The house.", "the dog")
    aligner = Diagonal()
    with pytest.raises(ReadError, match=r"en\.txt, line 2: the file ends here, but .*de\.txt has 5 lines"):
        align_files(text, tmp_path / "out", aligner)
    assert aligner.aligned == 0


@pytest.mark.parametrize("skip", [False, True])
def test_files_of_different_length_that_are_only_read(tmp_path: Path, skip: bool) -> None:
    long, short = write(tmp_path / "a", "eins", "zwei"), write(tmp_path / "b", "one")
    for text in (ParallelText(long, short, skip=skip), ParallelText(short, long, skip=skip)):
        with pytest.raises(ReadError, match=r"b, line 1: the file ends here, but .*a has 2 lines"):
            list(text)


def test_a_pair_that_is_blank_on_one_side(tmp_path: Path) -> None:
    files = write(tmp_path / "a", "eins", "zwei", "drei"), write(tmp_path / "b", "one", "", "three")
    with pytest.raises(ReadError, match="b, line 2: blank, but the other side is not"):
        list(ParallelText(*files))
    lenient = ParallelText(*files, skip=True)
    assert list(lenient) == [("eins", "one"), ("", ""), ("drei", "three")]
    assert [(item.file, item.line) for item in lenient.skipped] == [(str(files[1]), 2)]


def test_what_is_not_utf8_keeps_its_place(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"eins\n\xff\xfe\xfa\ndrei\n\xff")
    target = write(tmp_path / "b", "one", "two", "three", "four")
    with pytest.raises(ReadError, match="a, line 2"):
        list(ParallelText(tmp_path / "a", target))
    assert list(ParallelText(tmp_path / "a", target, skip=True)) == [
        ("eins", "one"),
        ("", ""),
        ("drei", "three"),
        ("", ""),
    ]


def test_one_file_with_columns(tmp_path: Path) -> None:
    path = tmp_path / "both.tsv.gz"
    path.write_bytes(gzip.compress("a house\tein Haus\tnews\n\na door\n\tTür\tx\n".encode()))
    with pytest.raises(ReadError, match="line 3: 1 column; expected 2"):
        list(ParallelText(path))
    some = ParallelText(path, columns=(2, 1), skip=True)
    assert list(some) == [("ein Haus", "a house"), ("", ""), ("", ""), ("", "")]
    assert "column 1 is blank" in some.skipped[1].reason
    assert some.count() == 4
    for columns in ((0, 1), (2, 2)):
        with pytest.raises(InputError, match="two different numbers"):
            ParallelText(path, columns=columns)


def test_a_blank_line_costs_no_more_for_columns_far_to_the_right(tmp_path: Path) -> None:
    path = tmp_path / "both.tsv"
    path.write_text("\n \t\n", encoding="utf-8")
    tracemalloc.start()
    assert list(ParallelText(path, columns=(1, 10_000_000))) == [("", ""), ("", "")]
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


def test_no_such_file_and_damaged_gzip(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="no such file"):
        ParallelText(tmp_path / "none").count()
    with pytest.raises(ReadError, match="not a file"):
        ParallelText(tmp_path).count()
    (tmp_path / "torn.gz").write_bytes(gzip.compress(b"a\tb\n" * 1000)[:-20])
    with pytest.raises(ReadError, match="damaged gzip"):
        ParallelText(tmp_path / "torn.gz").count()


def test_a_file_that_is_not_text_cannot_be_passed_over(tmp_path: Path) -> None:
    """Its lines have no number: none of the other file's could keep its partner."""
    (tmp_path / "a").write_bytes("eins\nzwei\n".encode("utf-16"))
    target = write(tmp_path / "b", "one", "two")
    with pytest.raises(ReadError, match="a: begins with the byte-order mark of UTF-16; fix the file"):
        list(ParallelText(tmp_path / "a", target, skip=True))


def test_a_file_that_may_not_be_read_is_one_error(
    text: ParallelText, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr("phrasemate.align.files.sha256_of", refuse)
        with pytest.raises(ReadError, match=r"de\.txt: cannot be read \(Permission denied\); check the path"):
            align_files(text, tmp_path / "out", Diagonal())
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ReadError, match=r"de\.txt: cannot be read \(Permission denied\); check its permissions"):
        text.count()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["de.txt", "en.txt"]


def pairs_of(path: Path) -> set[tuple[str, str]]:
    return {(pair.source.text, pair.target.text) for pair in read_pairs(path)}


def test_phrase_pairs_of_a_file(text: ParallelText, tmp_path: Path) -> None:
    links = tmp_path / "links"
    links.write_text(LINKS)
    report = pair_files(text, links, tmp_path / "out", PhraseSettings(rate=0.3, least=0))  # "the" and "tür": 2 of 5
    rows = [json.loads(line) for line in (tmp_path / "out").read_text("utf-8").splitlines()]
    assert [row["source"] for row in rows] == ["Das Haus.", "", "Der Hund schläft", "Tür", "Die Tür"]
    assert rows[0] == {"source": "Das Haus.", "target": "The house.", "pairs": [[4, 8, 4, 9]]}
    assert pairs_of(tmp_path / "out") == {
        ("Haus", "house"), ("Hund", "dog"), ("schläft", "sleeps"), ("Hund schläft", "dog sleeps"),
    }  # fmt: skip
    assert (report.lines, report.new, report.found, report.blank) == (5, 5, 4, 1)


def test_phrase_pairs_continue(text: ParallelText, tmp_path: Path) -> None:
    links = tmp_path / "links"
    links.write_text(LINKS)
    pair_files(text, links, tmp_path / "whole")
    whole = (tmp_path / "whole").read_text("utf-8")

    def stop(what: str, number: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pair_files(text, links, tmp_path / "out", progress=stop)
    part = tmp_path / "out.part"
    part.write_text(whole[: whole.index("Hund")], "utf-8")
    assert pair_files(text, links, tmp_path / "out").new == 3
    assert (tmp_path / "out").read_text("utf-8") == whole


@pytest.mark.parametrize(
    ("links", "expected"),
    [
        ("0-0\n", "line 1: the file ends here"),
        ("0-0\n\n0-7\n0-0\n0-0\n", "line 3: a link to word 0-7 in a pair of 3 and 3 words"),
        ("0-0\n0-0\n0-0\n0-0\n0-0\n", "line 2: a link to word 0-0 in a pair of 0 and 0 words"),
        ("0-0\n\n0:1\n0-0\n0-0\n", "line 3: '0:1' is not a word link"),
    ],
)
def test_links_of_another_text(text: ParallelText, tmp_path: Path, links: str, expected: str) -> None:
    (tmp_path / "links").write_text(links)
    with pytest.raises(ReadError, match=f"links, {expected}"):
        pair_files(text, tmp_path / "links", tmp_path / "out")


@pytest.mark.parametrize(
    "line", ["", "[]", "{}", '{"source": "a", "target": "b", "pairs": [[0, 2, 0, 1]]}',
             '{"source": "a", "target": "b", "pairs": [[0, 1]]}', '{"source": "a", "target": "b", "pairs": 3}']
)  # fmt: skip
def test_what_is_not_line_of_phrase_pairs(tmp_path: Path, line: str) -> None:
    path = write(tmp_path / "pairs.jsonl", '{"source": "a", "target": "b", "pairs": []}', line)
    with pytest.raises(ReadError, match=r"pairs\.jsonl, line 2: not a line of phrase pairs"):
        list(read_pairs(path))
