"""The program that reads PDFs, in this process and with its limits replaced; and the files that it never gets."""

from __future__ import annotations

import gzip
import json
import resource
import runpy
from pathlib import Path

import pytest
from test_text_more_formats import pdf, texts, written

from phrasemate.errors import MissingExtra, ReadError
from phrasemate.text.formats import pdf_process, publications

TWO = pdf([(50, 700, "Above."), (50, 600, "Below.")], [(50, 700, "Behind.")])


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, tuple[int, int]]]:
    """The limits that the program would set for its process, in their order; this process gets none."""
    calls: list[tuple[int, tuple[int, int]]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda kind, pair: calls.append((kind, pair)))
    return calls


def lines_of(captured: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in captured.readouterr().out.splitlines()]


@pytest.mark.usefixtures("limits")
def test_the_program_writes_the_count_of_pages_and_the_boxes_of_their_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pdf_process.main(str(written(tmp_path / "a.pdf", TWO)))
    first, *pages = lines_of(capsys)
    assert first == {"pages": 2}
    boxes: list[list[list[float | str]]] = [page["boxes"] for page in pages]  # type: ignore[misc]
    assert [[box[4] for box in page] for page in boxes] == [["Above.", "Below."], ["Behind."]]
    x0, y0, x1, y1, _ = boxes[0][1]
    # in points from the lower left corner: a line of 10 points begins at (50, 600)
    assert 50 <= float(x0) < 52 < float(x1) < 100
    assert 597 < float(y0) <= 600 < float(y1) < 610


@pytest.mark.usefixtures("limits")
def test_the_text_of_a_page_is_cut_at_its_limits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(written(tmp_path / "a.pdf", pdf([(50, 700 - 50 * at, "abcd") for at in range(5)])))
    monkeypatch.setattr(pdf_process, "STRETCHES", 3)
    monkeypatch.setattr(pdf_process, "CHARACTERS", 4 + 2)
    pdf_process.main(path)
    _, page = lines_of(capsys)
    assert [box[4] for box in page["boxes"]] == ["abcd", "ab", ""]  # type: ignore[attr-defined]


@pytest.mark.usefixtures("limits")
def test_the_program_says_which_file_or_page_it_cannot_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pdf_process.main(str(written(tmp_path / "a.pdf", b"%PDF-1.4\nnothing")))
    [line] = lines_of(capsys)
    assert "Failed to load document" in str(line["error"])
    broken = written(tmp_path / "b.pdf", TWO.replace(b"<</Type/Page/Parent", b"<</Type/Pear/Parent", 1))
    pdf_process.main(str(broken))
    first, bad, good = lines_of(capsys)
    assert first == {"pages": 2}
    assert "Failed to load page" in str(bad["error"])
    assert good["boxes"][0][4] == "Behind."  # type: ignore[index]
    with pytest.raises(ReadError, match=r"b\.pdf, line 1: page 1 cannot be read \(Failed to load page"):
        texts(broken)
    assert texts(broken, on_error="skip") == ["Behind."]


def test_the_program_limits_its_memory_and_the_time_of_each_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], limits: list[tuple[int, tuple[int, int]]]
) -> None:
    began = resource.getrusage(resource.RUSAGE_SELF)
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    pdf_process.main(str(written(tmp_path / "a.pdf", TWO)))
    ended = resource.getrusage(resource.RUSAGE_SELF)
    assert [kind for kind, _ in limits] == [resource.RLIMIT_AS, resource.RLIMIT_CORE] + 3 * [resource.RLIMIT_CPU]
    memory, core, *times = [pair for _, pair in limits]
    assert memory[0] == memory[1] >= pages * resource.getpagesize() // 2 + pdf_process.MEMORY
    assert memory[0] % resource.getpagesize() == pdf_process.MEMORY % resource.getpagesize()
    assert core == (0, 0)
    used = [int(usage.ru_utime + usage.ru_stime) for usage in (began, ended)]
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    for soft, hard_limit in times:
        assert used[0] + 1 + pdf_process.SECONDS <= soft <= used[1] + 1 + pdf_process.SECONDS
        assert hard_limit == hard
    assert len(lines_of(capsys)) == 3


def test_a_system_without_limits_reads_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(kind: int, pair: tuple[int, int]) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    pdf_process.main(str(written(tmp_path / "a.pdf", TWO)))
    assert lines_of(capsys)[0] == {"pages": 2}


@pytest.mark.usefixtures("limits")
def test_the_program_reads_the_file_of_its_argument(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["pdf_process.py", str(written(tmp_path / "a.pdf", TWO))])
    runpy.run_path(pdf_process.__file__, run_name="__main__")
    assert lines_of(capsys)[0] == {"pages": 2}


def test_a_pdf_in_gzip_or_with_too_many_pages_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ReadError, match=r"a\.pdf\.gz: the suffix '\.pdf\.gz' is not one that is read"):
        texts(written(tmp_path / "a.pdf.gz", gzip.compress(TWO)))
    monkeypatch.setattr(publications, "PAGES", 1)
    with pytest.raises(ReadError, match="2 pages; expected at most 1; split it"):
        texts(written(tmp_path / "a.pdf", TWO))


def test_a_pdf_needs_the_library_that_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publications, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pypdfium2.*phrasemate\[formats\]"):
        texts(written(tmp_path / "a.pdf", TWO))
