"""Large translation memories: how fast they are read and written, and in how much memory.

A TMX file is generated (its texts are drawn from a list of words, 420 bytes a unit), read in a process of its own whose
peak memory is measured, and deleted.

    python bench/formats.py                            200 MB
    python bench/formats.py --gigabytes 2              2 GB
    python bench/formats.py --gigabytes 0.05 --others  beside lxml and ElementTree
    python bench/formats.py --workbooks                two Excel workbooks, beside openpyxl

The other readers do what is usual with them: they iterate over the units, take id, languages and texts of each, and
drop it. They do not limit what a document may cost. The second workbook shows what that means: some 3 MB more of it
unpack to five million empty elements that no workbook has.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from common import report

from phrasemate.evaluate.report import signature
from phrasemate.text import read
from phrasemate.text.error_policy import Damage
from phrasemate.text.formats.bilingual import read_units, write_units
from phrasemate.text.formats.units import Side, Unit
from phrasemate.text.formats.xlsx import sheet_rows, write_sheet
from phrasemate.text.text_file import TextFile

WORDS = ("house", "river", "careful", "window", "morning", "letter", "small green", "walked around", "never", "because")
WORTE = ("Haus", "Fluss", "vorsichtig", "Fenster", "Morgen", "Brief", "klein grün", "ging herum", "niemals", "weil")
VARIETY = 997  # different units, over and over
LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


def main() -> None:
    """Prints the table; in a process of its own, one line of it as JSON."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--gigabytes", type=float, default=0.2, help="size of the file (default: %(default)s)")
    options.add_argument("--task", action="append", choices=["units", "sentences", "write"], help="default: all three")
    options.add_argument("--others", action="store_true", help="measure lxml and ElementTree too")
    options.add_argument("--workbooks", action="store_true", help="read workbooks instead")
    options.add_argument("--folder", type=Path, help="where the file is made (default: a temporary folder)")
    options.add_argument("--worker", nargs=2, metavar=("READER", "FILE"), help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.worker:
        print(json.dumps(measured(*given.worker)))
        return
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        if given.workbooks:
            rows = [
                [f"{path.name}, {name}", *in_a_process(name, path)]
                for path in workbooks(Path(folder))
                for name in BOOKS
            ]
        else:
            path = Path(folder) / "memory.tmx"
            generate(path, int(given.gigabytes * 1e9))
            tasks = [*(given.task or list(READERS)[:3]), *(list(READERS)[3:] if given.others else [])]
            rows = [[name, *in_a_process(name, path)] for name in tasks]
    what = "two workbooks" if given.workbooks else f"TMX of {given.gigabytes} GB"
    report("workbooks" if given.workbooks else "formats", HEADER, rows, signature(None, file=what))


HEADER = ["task", "units", "seconds", "MB/s", "processor s", "peak MB"]


def generate(path: Path, size: int) -> None:
    """A translation memory of about so many bytes, written in pieces."""
    draw = random.Random(0)
    units = [unit(draw) for _ in range(VARIETY)]
    with path.open("w", encoding="utf-8") as file:
        file.write('<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4">')
        file.write('<header srclang="de" segtype="sentence" datatype="plaintext" adminlang="en" o-tmf="x" ')
        file.write('creationtool="x" creationtoolversion="1"/><body>\n')
        written = number = 0
        while written < size:
            block = "".join(each.format(number + at) for at, each in enumerate(units))
            written, number = written + file.write(block), number + len(units)
        file.write("</body></tmx>\n")


def unit(draw: random.Random) -> str:
    """A unit with two languages, a property and inline markup; its id is left open."""
    english, german = (" ".join(draw.choices(words, k=14)) for words in (WORDS, WORTE))
    bold, end, line = '<bpt i="1">&lt;b&gt;</bpt>', '<ept i="1">&lt;/b&gt;</ept>', '<ph x="1">&lt;br/&gt;</ph>'
    made_from = f'<prop type="x-document">manual-{draw.randrange(50)}.docx</prop>'
    return (
        f'<tu tuid="{{0}}" creationdate="20240101T120000Z">{made_from}\n'
        f'<tuv xml:lang="de"><seg>{german.capitalize()} {bold}&amp;{end}.</seg></tuv>\n'
        f'<tuv xml:lang="en"><seg>{english.capitalize()} {line} end.</seg></tuv></tu>\n'
    )


def in_a_process(name: str, path: Path) -> list[Any]:
    done = subprocess.run([sys.executable, __file__, "--worker", name, str(path)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    found: list[Any] = json.loads(done.stdout)
    return found


def measured(name: str, path: str) -> list[Any]:
    """Units, seconds, MB/s, processor seconds and peak memory of one task."""
    started, before = time.perf_counter(), time.process_time()
    units = {**READERS, **BOOKS}[name](path)
    seconds, used = time.perf_counter() - started, time.process_time() - before
    peak = (
        int(re.findall(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())[0]) / 1024
    )  # since exec, unlike rusage
    return [units, round(seconds, 1), round(Path(path).stat().st_size / 1e6 / seconds, 1), round(used, 1), round(peak)]


def by_units(path: str) -> int:
    return sum(1 for _ in read_units(path))


def by_sentences(path: str) -> int:
    """As ``phrasemate index`` reads: one language, cut into sentences."""
    return sum(1 for document in read(path, lang="en", lines="sentence") for _ in document.sentences())


def by_writing(path: str) -> int:
    """Writes as many units to another file."""
    count = Path(path).stat().st_size // 420
    draw = random.Random(0)
    sides = [(Side(" ".join(draw.choices(WORTE, k=14)), "de"), Side(" ".join(draw.choices(WORDS, k=14)), "en"))]

    def units() -> Iterator[Unit]:
        for number in range(count):
            yield Unit(sides[0], {"tuid": str(number), "creationdate": "20240101T120000Z", "x-document": "manual.docx"})

    write_units(path + ".written.tmx", units())
    return count


def by_lxml(path: str) -> int:
    from lxml import etree

    count = 0
    safe: dict[str, Any] = {"resolve_entities": False, "no_network": True, "huge_tree": False, "load_dtd": False}
    for _, element in etree.iterparse(path, tag="tu", **safe):
        taken(element)
        count += 1
        element.clear()
        while element.getprevious() is not None:
            del element.getparent()[0]
    return count


def by_etree(path: str) -> int:
    from xml.etree import ElementTree

    count = 0
    root: Any = None
    for event, element in ElementTree.iterparse(path, events=("start", "end")):
        root = element if root is None else root
        if event == "end" and element.tag == "tu":
            taken(element)
            count += 1
            root.find("body").clear()
    return count


def taken(element: Any) -> list[tuple[str, str]]:
    """What is wanted of a unit; codes left out."""
    return [
        (tuv.get(LANGUAGE), "".join([seg.text or "", *(code.tail or "" for code in seg)]))
        for tuv in element.iter("tuv")
        for seg in tuv.iter("seg")
    ]


def workbooks(folder: Path) -> list[Path]:
    """100,000 rows of three cells; and the same workbook with five million elements that mean nothing."""
    ordinary, strange = folder / "ordinary.xlsx", folder / "strange.xlsx"
    draw = random.Random(0)
    write_sheet(ordinary, ([n, " ".join(draw.choices(WORDS, k=4)), draw.choice(WORTE)] for n in range(100_000)))
    with zipfile.ZipFile(ordinary) as old, zipfile.ZipFile(strange, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            with new.open(name, "w") as stream:
                content = old.read(name)
                end = content.find(b"</sheetData>") if name.endswith("sheet1.xml") else -1
                stream.write(content if end < 0 else content[:end])
                for _ in range(5000 if end >= 0 else 0):
                    stream.write(b"<x/>" * 1000 + draw.randbytes(300).hex().encode())
                stream.write(b"" if end < 0 else content[end:])
    return [ordinary, strange]


def by_rows(path: str) -> int:
    return sum(1 for _ in sheet_rows(TextFile(Path(path), path, False, "utf-8", Damage(skip=False))))


def by_openpyxl(path: str) -> int:
    from openpyxl import load_workbook

    book = load_workbook(path, read_only=True, data_only=True)
    return sum(1 for _ in book.worksheets[0].iter_rows(values_only=True))


BOOKS: dict[str, Callable[[str], int]] = {"rows": by_rows, "openpyxl": by_openpyxl}
READERS: dict[str, Callable[[str], int]] = {
    "units": by_units,
    "sentences": by_sentences,
    "write": by_writing,
    "lxml iterparse": by_lxml,
    "ElementTree iterparse": by_etree,
}

if __name__ == "__main__":
    main()
