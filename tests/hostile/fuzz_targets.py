"""The targets of bench/fuzz.py: a function for each reader and parser, with what must hold of any input at all.

A target takes bytes. It may raise PhrasemateError; anything else that it raises is a finding, and so is a crash, a hang
or memory beyond the limit. `SEEDS` are the documents that mutation begins with.
"""

from __future__ import annotations

import atexit
import bz2
import gzip
import io
import itertools
import json
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / folder) for folder in ("text", "dataset")]

import hostile  # noqa: E402
import wiki_files  # noqa: E402

from phrasemate.errors import PhrasemateError  # noqa: E402

RAM_DISK = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
MOST = 5_000  # sentences that are looked at of one input
Target = Callable[[bytes], None]


@cache
def _place() -> Path:
    """A folder for the inputs, which goes with this process."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-", dir=RAM_DISK))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _file(name: str, data: bytes) -> Path:
    path = _place() / name
    path.write_bytes(data)
    return path


def run(target: str, data: bytes) -> bool:
    """Feed one input; whether it was read without an error. Raises whatever is a finding."""
    try:
        TARGETS[target](data)
    except PhrasemateError as error:
        message = str(error)
    else:
        return True
    assert "\n" not in message, "an error of several lines"
    return False


def _reader(name: str, pack: Callable[[bytes], bytes] = lambda data: data, **options: Any) -> Target:
    """``phrasemate.read`` on a file of that name, strict and skipping."""

    def feed(data: bytes) -> None:
        from phrasemate import read

        path = _file(name, pack(data))
        for on_error in ("skip", "raise"):
            for document in read(path, on_error=on_error, **options):
                for sentence in itertools.islice(document.sentences(), MOST):
                    assert sentence.text == sentence.text.strip() != "", "white space around a sentence, or nothing"
                    assert "\0" not in sentence.text, "a NUL character"
                    sentence.text.encode()

    return feed


def _archived(suffix: str, make: Callable[[Path, str], Path], members: tuple[str, ...]) -> Target:
    """The bytes as they are, or as one member of a sound archive: its checksum would keep all mutation out."""
    plain = _reader(f"a.{suffix}")

    def pack(data: bytes) -> bytes:
        if not data or data[0] >= len(members):
            return data
        sound = zipfile.ZipFile(make(_place() / f"sound.{suffix}", ""))
        packed = io.BytesIO()
        with sound, zipfile.ZipFile(packed, "w") as out:
            for member in sound.namelist():
                out.writestr(member, data[1:] if member == members[data[0]] else sound.read(member))
        return packed.getvalue()

    return lambda data: plain(pack(data))


def _terms(name: str) -> Target:
    def feed(data: bytes) -> None:
        from phrasemate.text.term_lists import read_terms

        for term in itertools.islice(read_terms(_file(name, data), "*"), MOST):
            term.text.encode()

    return feed


def _dump(name: str, pack: Callable[[bytes], bytes] = lambda data: data) -> Target:
    def feed(data: bytes) -> None:
        from phrasemate.dataset.dump import pages, paragraphs

        names: set[str] = set()
        for page in itertools.islice(pages(_file(name, pack(data)), names), MOST):
            for paragraph in paragraphs(page.text, names):
                paragraph.encode()

    return feed


def _vectors(data: bytes) -> None:
    from phrasemate.vectors.word_vectors import read_fasttext

    vectors = read_fasttext(_file("a.vec", data), limit=1_000)
    assert np.isfinite(vectors.matrix).all()
    assert len(vectors.words) == len(vectors.matrix)


def _manifest(data: bytes) -> None:
    """Both files of an index, as they are and, where they are JSON, with a checksum that holds."""
    from phrasemate.index.faiss_search import Asking, Layout
    from phrasemate.index.manifest import Manifest, VectorsManifest, write_json
    from phrasemate.index.types import IndexSettings

    for kind in (Manifest, VectorsManifest):
        with suppress(PhrasemateError):
            kind.read(_file("index.json", data))
    path = _place() / "index.json"
    try:
        content = json.loads(data)
        if not isinstance(content, dict):
            return
        write_json(path, content | {"format": "phrasemate-index", "version": 1})
    except (ValueError, RecursionError):
        return
    with suppress(PhrasemateError):
        assert type(Manifest.read(path).dim) is int
    manifest = VectorsManifest.read(path)
    assert Path(manifest.file).name == manifest.file, "a file elsewhere"
    assert manifest.rows == sum(count for _, count in manifest.runs) <= manifest.covered
    assert Layout.parse(manifest.factory).parts > 0
    assert Asking.of(manifest, IndexSettings()).probes > 0


def _decoded(data: bytes) -> str:
    """Any text, halves of surrogate pairs among it: what is not UTF-8 gives one."""
    return data.decode("utf-8", "replace").replace("\ufffd", "\ud83d")


def _query(data: bytes) -> None:
    from phrasemate.query import parse_query
    from phrasemate.utils.hyphens import without_line_hyphens

    query = without_line_hyphens(_decoded(data))
    parsed = parse_query(query)
    before = 0
    for phrase in parsed.phrases:
        assert phrase.context == parsed.text
        assert before <= phrase.start < phrase.end <= len(parsed.text)
        assert phrase.text == phrase.text.strip()
        before = phrase.end
    plain = re.sub(r"\[\[|\]\]", "", query)
    if "\\" not in query and "[" not in plain and "]" not in plain:
        assert parsed.text == plain


def _split(data: bytes) -> None:
    from phrasemate.text import split_sentences, words

    text = _decoded(data[1:])
    lang = ("", "de", "en", "ja", "th", "tr", "zh")[data[0] % 7] if data else ""
    for spans in (words(text), split_sentences(text, lang)):
        ends = [0, *(end for _, end in spans)]
        assert all(last <= start < end <= len(text) for last, (start, end) in zip(ends, spans, strict=False))
    inside = {at for start, end in split_sentences(text, lang) for at in range(start, end)}
    assert all(letter.isspace() for at, letter in enumerate(text) if at not in inside), "a character is lost"


def _tokens(data: bytes) -> None:
    """Tokens of the bundled model onto characters, without its transformer: any span has tokens that cover it."""
    from phrasemate.encode.pooling import token_rows

    parts = data.decode("utf-8", "replace").split("\x1e")
    states = _runtime()._states(parts, list(_runtime()._tokens(parts)), "")
    for number, text in enumerate(parts):
        low, high = int(states.bounds[number]), int(states.bounds[number + 1])
        starts, ends = states.starts[low + 1 : high - 1], states.ends[low + 1 : high - 1]
        assert ((starts >= 0) & (starts <= ends) & (ends <= len(text))).all(), "a token outside its text"
        assert (np.diff(starts) >= 0).all(), "tokens out of order"
        assert (np.diff(ends) >= 0).all(), "ends out of order"
        spans = np.array([(a, b) for a in range(len(text)) for b in (a + 1, len(text))][:400], np.int32).reshape(-1, 2)
        first, last = token_rows(states, np.full(len(spans), number), spans[:, 0].copy(), spans[:, 1].copy())
        assert ((low <= first) & (first <= last) & (last < high)).all(), "a span with tokens of another text"


@cache
def _runtime() -> Any:
    """A runtime whose transformer gives nothing: offsets are what is looked at."""
    from phrasemate.encode import bundled_folder, model_folder
    from phrasemate.encode.runtime import Runtime
    from phrasemate.encode.tokenizer import open_tokenizer

    runtime: Any = object.__new__(Runtime)
    runtime._tokenizer = open_tokenizer(bundled_folder() / model_folder.TOKENIZER)
    runtime.opening, runtime.closing = runtime._tokenizer.opening, runtime._tokenizer.closing
    runtime.window, runtime.threads, runtime._lock = 510, 1, Lock()
    runtime.table, runtime.width = type("Table", (), {"dim": 1}), 1
    runtime._run = lambda windows, output, values: None
    return runtime


DOCX = ("word/document.xml", "_rels/.rels", "word/styles.xml", "word/_rels/document.xml.rels")
XLSX = ("xl/worksheets/sheet1.xml", "xl/sharedStrings.xml", "xl/workbook.xml", "xl/_rels/workbook.xml.rels")
BODY = """<w:p><w:r><w:t>One two.</w:t></w:r></w:p><w:tbl><w:tr><w:tc><w:p><w:pPr><w:pStyle w:val="H1"/></w:pPr><w:r>
<mc:AlternateContent xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"><mc:Choice><w:t>a</w:t>
</mc:Choice><mc:Fallback><w:t>b</w:t></mc:Fallback></mc:AlternateContent><w:tab/></w:r></w:p></w:tc></w:tr></w:tbl>"""
STYLES = '<w:styles xmlns:w="{}"><w:style w:styleId="H1"><w:name w:val="heading 1"/></w:style></w:styles>'
ROWS = '<row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1"><v>2</v></c></row>'
STRINGS = "<si><t>One _x0041_ two.</t></si>"


def _sound_docx(path: Path, _: str) -> Path:
    return hostile.docx(path, BODY, styles=STYLES.format(hostile.WORD))


def _sound_xlsx(path: Path, _: str) -> Path:
    return hostile.xlsx(path, ROWS, STRINGS)


TARGETS: dict[str, Target] = {
    "bz2": _dump("a.xml.bz2"),
    "csv": _reader("a.csv", column=2),
    "docx": _archived("docx", _sound_docx, DOCX),
    "dump": _dump("a.xml"),
    "gz": _reader("a.txt.gz"),
    "html": _reader("a.html"),
    "jsonl": _reader("a.jsonl"),
    "manifest": _manifest,
    "query": _query,
    "split": _split,
    "tbx": _reader("a.tbx", lang="en"),
    "terms": _terms("a.tsv"),
    "tmx": _reader("a.tmx", lang="en"),
    "tokens": _tokens,
    "tsv": _reader("a.tsv", column="de"),
    "txt": _reader("a.txt"),
    "vectors": _vectors,
    "xliff": _reader("a.xlf", lang="en"),
    "xlsx": _archived("xlsx", _sound_xlsx, XLSX),
}


def _bytes(make: Callable[[Path, str], Path], suffix: str) -> bytes:
    return make(_place() / f"seed.{suffix}", "").read_bytes()


def _members(make: Callable[[Path, str], Path], suffix: str, members: tuple[str, ...]) -> list[bytes]:
    """A sound archive, and each of its members as `_archived` takes it."""
    raw = _bytes(make, suffix)
    with zipfile.ZipFile(io.BytesIO(raw)) as sound:
        return [raw, *(bytes([at]) + sound.read(name) for at, name in enumerate(members))]


TEXTS = [
    "Er sitzt auf der [[Bank]]. z. B. am 5. Mai.",
    "「はい。」と言った。ไทย 中文。",
    "e\u0301 \u202eabc\u202c 👨\u200d👩\u200d👧 \ufeff",
]
DUMP = wiki_files.articles(
    {"Bank": "Die '''[[Bank|Bänke]]''' {{x|y}} <ref>z</ref> [[Datei:a.jpg|mini]] Ende."}
).encode()
XLIFF = """<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2" xmlns:mtc="urn:oasis:names:tc:xliff:matches:2.0"
 version="1.2"><file original="a" source-language="en" target-language="de"><body><group><trans-unit id="1" resname="n">
<source>One<g id="1"> two</g>.<sub>x</sub></source><seg-source><mrk mtype="seg" mid="1">One <ph>&lt;b&gt;</ph>two.</mrk>
</seg-source><target state="final"><mrk mtype="seg" mid="1">Eins<x id="2" ctype="lb"/>zwei.</mrk></target><note>n</note>
<alt-trans><target>x</target></alt-trans></trans-unit></group></body></file></xliff>"""
MANIFESTS = [
    b'{"model_name": "a", "model_hash": "b", "model_path": null, "dim": 16, "generation": 3, "segment": {}}',
    b'{"file": "vectors-0123456789abcdef.faiss", "size": 9, "sha256": "00", "codes": "vectors-0123456789abcdef.codes", '
    b'"codes_sha256": "11", "rows": 7, "generation": 3, "covered": 12, "factory": "OPQ4,IVF16,PQ4x4fs", "trained": 7, '
    b'"runs": [[0, 4], [6, 3]], "asking": {"probes": 4, "slack": 0.5, "candidates": 9}, '
    b'"tuned": {"target": 0.9, "phrases": 7, "layout": "PQ8x4fs"}, "parts": ["22"], "codes_parts": []}',
]
SEEDS: dict[str, Callable[[], list[bytes]]] = {
    "bz2": lambda: [bz2.compress(DUMP)],
    "csv": lambda: [b'a,b\n"x ""y""\nz",2\n'],
    "docx": lambda: _members(_sound_docx, "docx", DOCX),
    "dump": lambda: [DUMP],
    "gz": lambda: [gzip.compress(b"One. Two.\n")],
    "html": lambda: [
        b'<html lang="de"><meta charset="utf-8"><title>T</title><p>One<br>two &amp; &#x41;.</p><pre>x</pre>'
    ],
    "jsonl": lambda: [b'{"text": "One.", "n": [1, null, {"a": "\\u00e4"}]}\n'],
    "manifest": lambda: [b'{"format": "phrasemate-index", "version": 1, "crc": 1}\n', *MANIFESTS],
    "query": lambda: [text.encode() for text in (*TEXTS, "a \\[[ b \\]] [[c]] [[ d ]]")],
    "split": lambda: [bytes([at]) + text.encode() for at, text in enumerate(TEXTS)],
    "tbx": lambda: [hostile.TBX.encode()],
    "terms": lambda: [b"term\tlanguage\tdefinition\nBank\tde\tx\n"],
    "tmx": lambda: [hostile.TMX.encode()],
    "tokens": lambda: [text.encode() for text in TEXTS],
    "tsv": lambda: [b"en\tde\nOne.\tEins.\n"],
    "txt": lambda: [text.encode() for text in TEXTS] + ["Gr\u00fc\u00df".encode("utf-16")],
    "vectors": lambda: [b"2 3\na 1 2 3\nb 0.5 -1e-3 2\n"],
    "xliff": lambda: [hostile.XLIFF.encode(), XLIFF.encode()],
    "xlsx": lambda: _members(_sound_xlsx, "xlsx", XLSX),
}
