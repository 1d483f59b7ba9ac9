"""Files that are made to do harm or come from another time: for bench/damage.py.

Newer versions, counts beyond all measure, archives and entities that unpack to gigabytes, nesting, sealed nonsense (a
stranger can compute a checksum, too), names that lead out of a folder, tables that SQLite would run.
"""

from __future__ import annotations

import bz2
import gzip
import json
import shutil
import sqlite3
import struct
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import damage_kinds as kinds
import hostile
import numpy as np
from test_index_forged import forge

HUGE = 10**15
Read = Callable[[Path], Any]


@dataclass
class Hostile:
    """Cases of one kind: what, where, and how it is read.

    What begins with "harmless" may be read; in a ``sealed`` kind only with the ``right`` answer.
    """

    name: str
    cases: list[tuple[str, Path, Read]] = field(default_factory=list)
    guard: str = kinds.OPEN
    right: int = -1


def hostile_cases(folder: Path) -> Iterator[Hostile]:
    """All of them; what is written goes below ``folder``."""
    readers = {kind.name: kind for kind in kinds.KINDS}
    for make in (_indexes, _models, _word_vectors, _states, _xml, _archives, _packed, _numbers):
        place = folder / make.__name__.strip("_")
        place.mkdir(parents=True)
        yield make(place, readers)


def _sound(kind: kinds.Kind, place: Path, name: str) -> Path:
    """A sound one in a folder of its own."""
    (place / name.replace(" ", "-")).mkdir()
    return kind.make(place / name.replace(" ", "-"))


def _rewritten(path: Path, **changes: Any) -> None:
    """Change a JSON file as one of our own writers would write it."""
    from phrasemate.index import manifest

    content = {key: value for key, value in json.loads(path.read_text("utf-8")).items() if key != "crc"}
    path.write_bytes(manifest._canonical(content | changes))


def _indexes(place: Path, readers: dict[str, kinds.Kind]) -> Hostile:
    kind = readers["index"]
    right = kinds.digest(kind.read(_sound(kind, place, "sound")))
    made = Hostile("hostile index", guard=kinds.SEALED, right=right)

    def case(what: str, change: Callable[[Path], object]) -> None:
        folder = _sound(kind, place, what)
        change(folder)
        made.cases.append((what, folder, kind.read))

    def table(statement: str) -> Callable[[Path], object]:
        def change(folder: Path) -> None:
            connection = sqlite3.connect(folder / "store.sqlite")
            with connection:
                connection.execute(statement)
            connection.close()

        return change

    for key, value in {"version": 2, "format": "other", "dim": HUGE, "generation": HUGE}.items():
        case(f"{key} {value}", lambda folder, key=key, value=value: _rewritten(folder / "index.json", **{key: value}))
    for key, value in {"dim": "16", "dim ": -1, "model_hash": None}.items():
        change = {key.strip(): value}
        case(f"{key} is {value!r}", lambda folder, change=change: _rewritten(folder / "index.json", **change))
    case("another name for a table", table("ALTER TABLE sentences RENAME TO other"))
    case("a view", table("CREATE VIEW v AS SELECT * FROM sentences"))
    case("a trigger", table("CREATE TRIGGER t AFTER DELETE ON documents BEGIN DELETE FROM sentences; END"))
    case("a count of phrases", table(f"UPDATE state SET phrases = {HUGE}"))
    case("a sentence of a gigabyte", table("UPDATE sentences SET text = zeroblob(900000000) WHERE id = 75"))
    case("a text for a number", table("UPDATE sentences SET first_phrase = 'x' WHERE id = 75"))
    last = "(SELECT max(id) FROM words_data)"
    case("harmless text for a block", table(f"UPDATE words_data SET block = 'x' WHERE id = {last}"))
    for key, value in {
        "rows": HUGE,
        "covered": HUGE,
        "file": "../../x",
        "runs": [[0, HUGE]],
        "factory": "Flat",
    }.items():
        change = {key: value}
        case(f"harmless vectors {key}", lambda folder, change=change: _rewritten(folder / "vectors.json", **change))
    for where, column, forged in [
        ("state", "next_document", (1 << 63) - 1),
        ("state", "next_phrase", -1),
        ("documents", "id", 7),
        ("sentences", "document", 7),
        ("sentences", "metadata", b"[" * 100_000),
        ("sentences", "position", -1),
        ("extras", "value", b'{"generation": 1, "crc": "x"}'),
    ]:
        row = (where, column, forged)
        what = f"harmless extras {column}" if where == "extras" else f"sealed {where} {column} {str(forged)[:20]!r}"
        case(what, lambda folder, row=row: forge(folder, *row))
    return made


def _models(place: Path, readers: dict[str, kinds.Kind]) -> Hostile:
    from safetensors.numpy import load_file, save_file

    from phrasemate.encode.model_folder import write_manifest

    kind, made = readers["model folder"], Hostile("hostile model")
    sound = _sound(kind, place, "sound")

    def case(what: str, file: str, change: Callable[[Any], Any]) -> None:
        folder = Path(shutil.copytree(sound, place / what.replace(" ", "-").replace("/", "-")))
        path = folder / file
        if path.suffix == ".json":
            path.write_text(json.dumps(change(json.loads(path.read_text("utf-8")))), "utf-8")
        elif path.suffix == ".gz":
            path.write_bytes(change(path.read_bytes()))
        else:
            save_file(change(load_file(path)), path)
        if file != "MANIFEST.json":
            write_manifest(folder)
        made.cases.append((what, folder, kind.read))

    config = json.loads((sound / "config.json").read_text("utf-8"))
    for key in config:
        needed = ("format", "version", "layers", "max_tokens", "pooling", "name", "width")
        case(
            f"{'' if key in needed else 'harmless '}no {key}",
            "config.json",
            lambda content, key=key: {k: content[k] for k in content if k != key},
        )
        mark = "" if key in (*needed, "common_words", "segmenter") else "harmless "
        case(f"{mark}{key} null", "config.json", lambda content, key=key: content | {key: None})
    for key, value in {
        "layers": [99],
        "max_tokens": HUGE,
        "max_tokens ": -5,
        "max_tokens  ": "x",
        "pooling": "x",
    }.items():
        case(f"{key} {value}", "config.json", lambda content, k=key, v=value: content | {k.strip(): v})
    for key, value in {"width": 10**12, "segmenter": {"max_words": 1 << 80}, "signature": _deep(950)}.items():
        case(f"{key} {str(value)[:20]!r}", "config.json", lambda content, k=key, v=value: content | {k: v})
    for key, value in {"post_processor": _template("zz"), "unk_id": None, "padding": _padding(10**8)}.items():
        mark = "harmless " if key == "padding" else ""
        case(f"{mark}tokenizer {key}", "tokenizer.json.gz", lambda raw, k=key, v=value: _tokenizer(raw, k, v))
    case("version 2", "MANIFEST.json", lambda content: content | {"version": 2})
    case("a tokenizer of a gigabyte", "tokenizer.json.gz", lambda _: gzip.compress(bytes(1_000_000_000), 9))
    case("a tokenizer of another size", "tokenizer.json.gz", lambda raw: gzip.compress(_larger(gzip.decompress(raw))))
    for name in load_file(sound / "heads.safetensors"):
        case(f"heads {name} wide", "heads.safetensors", lambda t, n=name: t | {n: np.zeros((3, 3), np.float32)})
        case(f"heads no {name}", "heads.safetensors", lambda t, n=name: {k: v for k, v in t.items() if k != n})
    for name in load_file(sound / "embeddings.safetensors"):
        case(f"embeddings no {name}", "embeddings.safetensors", lambda t, n=name: {k: t[k] for k in t if k != n})
        case(f"embeddings {name} short", "embeddings.safetensors", lambda t, n=name: t | {n: t[n][:1].copy()})
    return made


def _deep(depth: int) -> list[Any]:
    made: list[Any] = []
    for _ in range(depth):
        made = [made]
    return made


def _template(unknown: str) -> dict[str, Any]:
    """The library panics at it."""
    token = {"SpecialToken": {"id": unknown, "type_id": 0}}
    return {"type": "TemplateProcessing", "single": [token, token], "pair": [token], "special_tokens": {}}


def _padding(tokens: int) -> dict[str, Any]:
    ids = {"pad_id": 0, "pad_type_id": 0, "pad_token": "x"}
    return {"strategy": {"Fixed": tokens}, "direction": "Right", "pad_to_multiple_of": None} | ids


def _tokenizer(raw: bytes, key: str, value: Any) -> bytes:
    """With another entry."""
    content = json.loads(gzip.decompress(raw))
    content["model"] |= {"vocab": content["model"]["vocab"][:5]} if key == "unk_id" else {}
    (content["model"] if key == "unk_id" else content)[key] = value
    return gzip.compress(json.dumps(content).encode())


def _larger(tokenizer: bytes) -> bytes:
    """A tokenizer that gives numbers beyond the table of embeddings."""
    content = json.loads(tokenizer)
    content["model"]["vocab"] += [[f"extra{n}", -1.0] for n in range(500)] + [["bank", 0.0], ["▁bank", 0.0]]
    return json.dumps(content).encode()


def _word_vectors(place: Path, readers: dict[str, kinds.Kind]) -> Hostile:
    from phrasemate.vectors.word_vectors import write_folder

    kind, made = readers["word vectors"], Hostile("hostile word vectors")
    matrix = np.ones((3, 2), np.float32)
    for what, words, arrays in [
        ("no matrix", ["a", "b", "c"], {"other": matrix}),
        ("fewer rows", ["a", "b", "c", "d"], {"matrix": matrix}),
        ("not finite", ["a", "b", "c"], {"matrix": matrix * np.inf}),
        ("twice a word", ["a", "a", "c"], {"matrix": matrix}),
        ("numbers for words", [1, 2, 3], {"matrix": matrix}),
        ("counts of another length", ["a", "b", "c"], {"matrix": matrix, "counts": np.arange(2)}),
        ("three dimensions", ["a", "b", "c"], {"matrix": matrix.reshape(3, 2, 1)}),
    ]:
        write_folder(place / what, words, arrays, {"language": "en"})  # type: ignore[arg-type]
        made.cases.append((what, place / what, kind.read))
    return made


def _states(place: Path, readers: dict[str, kinds.Kind]) -> Hostile:
    """What safetensors and JSON may claim, sealed."""
    from hashlib import sha256

    kind, made = readers["checkpoint"], Hostile("hostile checkpoint")
    header = {"a": {"dtype": "F32", "shape": [HUGE], "data_offsets": [0, 4 * HUGE]}}
    raw = json.dumps(header).encode()
    for what, tensors, facts in [
        ("a huge count", struct.pack("<Q", len(raw)) + raw, {"step": 3}),
        ("a header of an exabyte", struct.pack("<Q", 1 << 60) + b"{}", {"step": 3}),
        ("nested JSON", b"x", "[" * 100_000),
        ("a number of many digits", b"x", '{"step": ' + "9" * 5_000 + "}"),
    ]:
        folder = place / what
        folder.mkdir()
        (folder / "state.safetensors").write_bytes(tensors)
        sealed = {"sha256": sha256(tensors).hexdigest()}
        text = facts if isinstance(facts, str) else json.dumps(facts | sealed)
        (folder / "state.json").write_text(text, "utf-8")
        made.cases.append((what, folder, kind.read))
    folder = _sound(kind, place, "one digit")
    facts = (folder / "state.json").read_text("utf-8")
    (folder / "state.json").write_text(facts.replace('"step": 3', '"step": 4'), "utf-8")
    made.cases.append(("another step", folder, kind.read))
    return made


def _xml(place: Path, readers: dict[str, kinds.Kind]) -> Hostile:
    made = Hostile("hostile XML")
    for suffix, document in hostile.XML.items():
        root = {"xlf": "xliff"}.get(suffix, suffix)
        for what, content in {
            "laughs": hostile.with_doctype(document, hostile.laughs(root), "&l11;"),
            "a file as an entity": hostile.with_doctype(
                document, f'<!DOCTYPE {root} [<!ENTITY f SYSTEM "file:///etc/passwd">]>', "&f;"
            ),
            "deep": document.replace("Gr", "<a>" * 5_000, 1),
            "a tag of 9 MB": document.replace("Gr", f"<a b='{'x' * 9_000_000}'>", 1),
            "many names": document.replace("Gr", "".join(f"<n{n}/>" for n in range(20_000)), 1),
            "an unknown encoding": document.replace("UTF-8", "EBCDIC-9", 1),
        }.items():
            made.cases.append(
                (
                    f"{suffix} {what}",
                    hostile.write(place / f"{len(made.cases)}.{suffix}", content),
                    readers[suffix].read,
                )
            )
    return made


def _archives(place: Path, readers: dict[str, kinds.Kind]) -> Hostile:
    made = Hostile("hostile archives")
    for suffix, member in (("docx", "word/document.xml"), ("xlsx", "xl/workbook.xml")):
        for what, members in {
            "a bomb": {member: b" " * 600_000_000},
            "a way out": {"../../x": b"x", member: b"<a/>"},
            "an absolute name": {"/etc/x": b"x", member: b"<a/>"},
            "many members": {f"m{n}": b"" for n in range(11_000)},
            "another root": {member: b"<html/>"},
        }.items():
            path = hostile.zipped(place / f"{len(made.cases)}.{suffix}", members)
            made.cases.append((f"{suffix} {what}", path, readers[suffix].read))
        raw = bytearray(hostile.zipped(place / f"sizes.{suffix}", {member: b"<a/>"}).read_bytes())
        at = raw.rindex(b"PK\x01\x02") + 24
        raw[at : at + 4] = struct.pack("<I", 0xFFFFFFF0)
        path = hostile.write(place / f"claims.{suffix}", bytes(raw))
        made.cases.append((f"{suffix} claims 4 GB", path, readers[suffix].read))
        assert zipfile.is_zipfile(path)
    return made


def _packed(place: Path, readers: dict[str, kinds.Kind]) -> Hostile:
    """Packed files that unpack to hundreds of times their size: one line, or one page, of 300 MB."""
    made = Hostile("hostile gz and bz2")
    line = b"a" * 1_000_000
    for name, kind, pack in (
        ("a.txt.gz", "txt.gz", gzip.open),
        ("a.xml.gz", "dump xml.gz", gzip.open),
        ("a.xml.bz2", "dump xml.bz2", bz2.open),
    ):
        head = b"" if "txt" in name else kinds.DUMP.encode().partition(b"Title 0")[0]
        with pack(place / name, "wb", 1) as file:
            file.write(head)
            for _ in range(300):
                file.write(line)
        made.cases.append((f"{name} one line of 300 MB", place / name, readers[kind].read))
    path = hostile.write(place / "b.txt.gz", gzip.compress(b"One.\n") + b"trailing")
    made.cases.append(("harmless bytes after gzip", path, readers["txt.gz"].read))
    return made


def _numbers(place: Path, readers: dict[str, kinds.Kind]) -> Hostile:
    made = Hostile("hostile tables and lines")
    for kind, name, content in [
        ("vec", "a.vec", f"{HUGE} 300\na 1\n"),
        ("vec", "b.vec", f"3 {HUGE}\na 1\n"),
        ("vec", "c.vec", "9" * 5_000 + " 3\na 1 2 3\n"),
        ("vec", "d.vec", "1 2\na nan inf\n"),
        ("vec", "e.vec", "1 2\na 1e999 2\n"),
        ("jsonl", "a.jsonl", "[" * 200_000 + "\n"),
        ("jsonl", "b.jsonl", '{"text": ' + "9" * 5_000 + "}\n"),
        ("jsonl", "c.jsonl", '{"text": "\\ud800"}\n'),
        ("word links", "a.links", f"0-{HUGE}{HUGE}\n"),
        ("word links", "b.links", "0-" + "9" * 5_000 + "\n"),
        ("word links", "c.links", "-1--2\n"),
        ("phrase pairs", "a.jsonl", '{"source": "a", "target": "b", "pairs": [[0, 9, 0, 1]]}\n'),
        ("phrase pairs", "b.jsonl", '{"source": "a", "target": "b", "pairs": [[-1, 1, 0, 1]]}\n'),
        ("phrase pairs", "c.jsonl", "[" * 200_000 + "\n"),
        ("tsv", "a.tsv", "x\n" * 40),
    ]:
        mark = "harmless " if name == "a.links" else ""
        path = hostile.write(place / f"{len(made.cases)}-{name}", content)
        made.cases.append((f"{mark}{kind} {content[:20]!r}", path, readers[kind].read))
    return made
