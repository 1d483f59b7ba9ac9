"""The files of bench/damage.py: of each kind a sound one, how it is read, what an answer from it is; and hostile files.

``sealed`` kinds carry checksums: an altered byte is an error or makes no difference. ``closed`` ones (XML, archives)
have an end that a cut takes away. In ``open`` ones (lines) a change may be just another text, and no reader knows.

Hostile files are made to do harm or come from another time: newer versions, counts beyond all measure, archives and
entities that unpack to gigabytes, nesting, sealed nonsense (a stranger can compute a checksum, too), names that lead
out of a folder, tables that SQLite would run.
"""

from __future__ import annotations

import bz2
import gzip
import json
import shutil
import sqlite3
import struct
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import numpy as np
from safetensors.numpy import load_file, save_file

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / folder) for folder in ("text", "dataset", "index", "encode", "training")]

import example_data  # noqa: E402
import hostile  # noqa: E402
import index_fakes  # noqa: E402
import pair_files  # noqa: E402
import wiki_files  # noqa: E402
from test_index_forged import forge  # noqa: E402

import phrasemate  # noqa: E402
from phrasemate import Document, Index, Phrase, load_model  # noqa: E402
from phrasemate.align import read_pairs  # noqa: E402
from phrasemate.align.pairs import read_links  # noqa: E402
from phrasemate.dataset import wikixpr  # noqa: E402
from phrasemate.dataset.dump import language_links, pages, paragraphs  # noqa: E402
from phrasemate.encode.model_folder import write_manifest  # noqa: E402
from phrasemate.examples.sources import TextStore  # noqa: E402
from phrasemate.index import IndexSettings, manifest  # noqa: E402
from phrasemate.index.types import IdRange  # noqa: E402
from phrasemate.mine.work_folder import Blocks, WorkFolder, checked, seal  # noqa: E402
from phrasemate.text.term_lists import read_terms  # noqa: E402
from phrasemate.utils.storage import ResumableSum  # noqa: E402
from phrasemate.vectors.word_vectors import (  # noqa: E402
    WordVectors,
    read_fasttext,
    write_folder,
)

SEALED, CLOSED, OPEN = "sealed", "closed", "open"
TEXTS = index_fakes.sentences(60, seed=1)
MODEL = index_fakes.FakeModel(dim=16)
SETTINGS = IndexSettings(
    chunk=32, learn=50, exact_below=100, forced_rebuild=600, exact_filtered=200, train=900, block=250
)


@dataclass(frozen=True)
class Kind:
    """``make`` writes a sound one (a file, or a folder whose ``files`` are damaged) and returns where it is."""

    name: str
    guard: str
    make: Callable[[Path], Path]
    read: Callable[[Path], Any]
    files: tuple[str, ...] = ()  # globs within a folder; none: it is a file itself
    training: bool = False  # needs torch

    def targets(self, place: Path) -> list[Path]:
        """The files to be damaged, one at a time."""
        return [next(place.glob(pattern)) for pattern in self.files] if self.files else [place]


def digest(answer: Any) -> int:
    """What an answer is compared by; 1 or more."""
    return crc32(repr(answer).encode("utf-8", "surrogatepass")) + 1


def _text(name: str, content: str | bytes, guard: str, **options: Any) -> Kind:
    def read(path: Path) -> list[str]:
        return [sentence.text for document in phrasemate.read(path, **options) for sentence in document.sentences()]

    kind = name.partition(".")[2]
    return Kind(kind, guard, lambda folder: hostile.write(folder / name, content), read)


def _office_file(kind: str, suffix: str, make: Callable[[Path], Path]) -> Kind:
    plain = _text(f"a.{suffix}", b"", CLOSED)
    return Kind(kind, CLOSED, lambda folder: make(folder / f"a.{suffix}"), plain.read)


def _docx(path: Path) -> Path:
    body = "".join(f"<w:p><w:r><w:t>{text or 'x'} end.</w:t></w:r></w:p>" for text in TEXTS[:9])
    return hostile.docx(path, body, styles=f'<w:styles xmlns:w="{hostile.WORD}"/>')


def _xlsx(path: Path) -> Path:
    rows = "".join(f'<row r="{n}"><c r="A{n}" t="s"><v>{n - 1}</v></c></row>' for n in range(1, 9))
    return hostile.xlsx(path, rows, "".join(f"<si><t>{text}</t></si>" for text in TEXTS[:9]))


DUMP = wiki_files.articles({f"Title {n}": f"'''{text}''' [[Bank|banks]]. {{{{x}}}}" for n, text in enumerate(TEXTS)})


def _dump(name: str, pack: Callable[[bytes], bytes], guard: str = CLOSED) -> Kind:
    def read(path: Path) -> list[Any]:
        names: set[str] = set()
        return [(page.id, page.title, list(paragraphs(page.text, names))) for page in pages(path, names)]

    kind = f"dump {name.partition('.')[2]}"
    return Kind(kind, guard, lambda folder: hostile.write(folder / name, pack(DUMP.encode())), read)


def _index(folder: Path) -> Path:
    with Index.create(folder / "index", MODEL, settings=SETTINGS, threads=1) as index:
        index.add(
            [Document.from_texts("a", TEXTS), Document.from_texts("b", index_fakes.sentences(70, seed=2))], lang="en"
        )
        index.delete("a")
        index.add([Document.from_texts("c", TEXTS[:20])], lang="de")
        index.optimize()
    return folder / "index"


def _ask_index(folder: Path) -> Any:
    """Every row, and the best hits of some phrases: from FAISS, with scores as they are read."""
    with Index.open(folder, MODEL, settings=SETTINGS, threads=1) as index:
        queries = [Phrase(word, 0, len(word)) for word in ("w1", "w2", "w3 w1", "w5", "w17")]
        run = index.search(MODEL.encode(queries), 1)
        hits = [(hit.text, round(hit.score, 2)) for hit in index.hits(run.ids, run.scores)]
        with index.store.reading():
            rows = [(row.text, row.line, row.spans) for row in index.store.all_sentences()]
        documents = [(document.name, document.language) for document in index.documents()]
        return hits, rows, documents, len(index.containing("w1"))


def _ask_rows(folder: Path) -> Any:
    """All that a store holds, vectors and counts included."""
    with Index.open(folder, MODEL, settings=SETTINGS, threads=1) as index, index.store.reading() as state:
        vectors = [row for block in index.store.vectors() for row in block]
        deleted = index.store.tombstones().tolist()
        return state, list(index.documents()), list(index.store.all_sentences()), vectors, deleted


def _model(folder: Path) -> Path:
    import encoders

    from phrasemate.encode.export.export import export_model

    base = encoders.save_trained(encoders.save_xlmr(folder / "base"))
    export_model(base, folder / "model")
    return folder / "model"


def _ask_model(folder: Path) -> Any:
    model = load_model(folder, threads=1)
    text = "The old bank on the river was closed."
    return model.encode([Phrase(text, 8, 12)]).round(3).tolist(), model.segment([text])


def _checkpoint(folder: Path) -> Path:
    import torch

    from phrasemate.training.trainer import Checkpoint

    Checkpoint(folder / "checkpoint").save({"a": torch.arange(300.0), "random/cpu": torch.zeros(9)}, {"step": 3})
    return folder / "checkpoint"


def _ask_checkpoint(folder: Path) -> Any:
    from phrasemate.training.trainer import Checkpoint

    tensors, facts = Checkpoint(folder).load()
    return {name: value.tolist() for name, value in tensors.items()}, facts


def _words(folder: Path) -> Path:
    matrix = np.random.default_rng(1).standard_normal((40, 8)).astype(np.float32)
    WordVectors([f"w{n}" for n in range(40)], matrix, "en", facts={"method": "drawn"}).save(folder / "words")
    return folder / "words"


def _ask_words(folder: Path) -> Any:
    vectors = WordVectors.load(folder)
    return vectors.words, vectors.matrix.tolist(), vectors.language


def _fasttext(folder: Path) -> Path:
    rows = "".join(f"w{n} {n}.5 -1e-3 2\n" for n in range(40))
    return hostile.write(folder / "a.vec", f"40 3\n{rows}")


def _ask_fasttext(path: Path) -> Any:
    vectors = read_fasttext(path)
    return vectors.words, vectors.matrix.tolist()


def _sums(fill: float) -> Any:
    sums = np.zeros((30, 4), np.float32)
    return sums, lambda path: ResumableSum(path, {"texts": "a"}, sums)


def _unfinished(folder: Path) -> Path:
    _, opened = _sums(0)
    try:
        with opened(folder / "sums.state") as state:
            state.add(7, np.arange(30), np.ones((30, 4), np.float32))
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        return folder / "sums.state"


def _ask_unfinished(path: Path) -> Any:
    sums, opened = _sums(0)
    return opened(path).done, sums.tolist()


def _frozen_states(folder: Path) -> Path:
    """States of the lower layers, written as `phrasemate.training.frozen_states` does."""
    _ask_frozen_states(folder / "x.npy")
    return folder / "x.npy"


def _ask_frozen_states(path: Path) -> Any:
    """What a run continues with: kept states that are not whole are computed again, so all is right or new."""
    from phrasemate.training.frozen_states import BLOCK, Feed

    assert BLOCK
    contexts: Any = SimpleNamespace(ids=np.arange(40), bounds=np.arange(0, 41, 4), first=np.arange(10), name="x")
    lower: Any = SimpleNamespace(width=6)
    feed = Feed([contexts], lower, 0, 32, lambda: None)
    feed._computed = lambda _, start, stop: np.arange(240, dtype=np.float16).reshape(40, 6)  # type: ignore[method-assign]
    return feed._opened(path, contexts, lambda *_: None).tolist()


def _work(folder: Path) -> Path:
    with WorkFolder(folder / "work", {"margin": 1}) as work:
        blocks = Blocks(work.path, "source", (20, 4), np.float32, 8, ["a", "b", "c"])
        for number in range(3):
            blocks.write(number, np.full((4 if number == 2 else 8, 4), number))
        seal(work.path / "forward.json", {"rows": 20}, [work.path / "source.bin"])
    return folder / "work"


def _ask_work(folder: Path) -> Any:
    """What a run that resumes there has: blocks that do not hold their checksum are made again."""
    with WorkFolder(folder, {"margin": 1}) as work:
        totals = checked(folder / "forward.json") or {"rows": 20}
        blocks = Blocks(work.path, "source", (20, 4), np.float32, 8, ["a", "b", "c"])
        for number in blocks.missing:
            blocks.write(number, np.full((4 if number == 2 else 8, 4), number))
        return totals, blocks.array.tolist()


def _examples(folder: Path) -> Path:
    TextStore.build([Document.from_texts("a", TEXTS)], folder / "text.sqlite", "en", lambda *_: None).close()
    return folder / "text.sqlite"


def _ask_examples(path: Path) -> Any:
    store = TextStore.open(path)
    with store.snapshot():
        candidates = store.candidates("w1 w2", IdRange(0, 1 << 30, 20))
        return store.count(), candidates, store.rows(range(store.count())), store.parts


def _records(folder: Path) -> Path:
    return example_data.write_split(folder / "set" / "xx-en" / "train.jsonl", 3).parents[1]


def _ask_records(folder: Path) -> Any:
    return wikixpr.read_dataset(folder, "xx-en", "train")


def _pairs(folder: Path) -> Path:
    return pair_files.write_pairs(folder / "en-xx.jsonl", 30, 1)


def _links(folder: Path) -> Path:
    return hostile.write(folder / "a.links", LINKS)


def _tbx(folder: Path) -> Path:
    return hostile.write(folder / "a.tbx", hostile.TBX)


def _langlinks(folder: Path) -> Path:
    rows: Iterable[tuple[int, str, str]] = [(n, "de" if n % 2 else "fr", f"Titel {n}") for n in range(1, 40)]
    return hostile.write(folder / "langlinks.sql.gz", gzip.compress(wiki_files.sql(rows).encode(), mtime=0))


JSONL = "".join(f'{{"text": "{text}", "n": {n}}}\n' for n, text in enumerate(TEXTS))
TENSORS = ("embeddings.safetensors", "heads.safetensors")
MODEL_FILES = ("config.json", "tokenizer.json.gz", "encoder.onnx", *TENSORS, "MANIFEST.json")
LINKS = "".join(f"0-{n % 5} {n % 7}-1\n" for n in range(40))
TSV = "".join(f"{n}\t{text}\n" for n, text in enumerate(TEXTS))
KINDS = [
    Kind("index", SEALED, _index, _ask_index, ("index.json", "store.sqlite", "vectors.json", "*.faiss", "*.codes")),
    Kind("rows of an index", SEALED, _index, _ask_rows, ("store.sqlite",)),
    Kind("model folder", SEALED, _model, _ask_model, MODEL_FILES, training=True),
    Kind("checkpoint", SEALED, _checkpoint, _ask_checkpoint, ("state.json", "state.safetensors"), training=True),
    Kind("word vectors", SEALED, _words, _ask_words, ("words.json", "vectors.safetensors", "MANIFEST.json")),
    Kind("unfinished sums", SEALED, _unfinished, _ask_unfinished),
    Kind("kept states", SEALED, _frozen_states, _ask_frozen_states, training=True),
    Kind("mining work", SEALED, _work, _ask_work, ("work.json", "source.bin", "source.log", "forward.json")),
    Kind("examples store", SEALED, _examples, _ask_examples),
    _text("a.tmx", hostile.TMX, CLOSED, lang="en"),
    _text("a.tbx", hostile.TBX, CLOSED, lang="en"),
    _text("a.xlf", hostile.XLIFF, CLOSED, lang="en"),
    Kind("tbx terms", CLOSED, _tbx, lambda path: list(read_terms(path, "*"))),
    _office_file("docx", "docx", _docx),
    _office_file("xlsx", "xlsx", _xlsx),
    _text("a.jsonl", JSONL, OPEN),
    _text("a.txt.gz", gzip.compress("\n".join(TEXTS).encode(), mtime=0), SEALED),
    _text("a.tsv", TSV, OPEN, column=2),
    _text("a.html", "<html><body>" + "".join(f"<p>{text}</p>" for text in TEXTS) + "</body></html>", OPEN),
    _dump("a.xml", lambda raw: raw),
    _dump("a.xml.gz", lambda raw: gzip.compress(raw, mtime=0), SEALED),
    _dump("a.xml.bz2", bz2.compress, SEALED),
    Kind("langlinks sql.gz", SEALED, _langlinks, lambda path: sorted(map(repr, language_links(path, "de")))),
    Kind("vec", OPEN, _fasttext, _ask_fasttext),
    Kind("data set", OPEN, _records, _ask_records, ("xx-en/train.jsonl",)),
    Kind("phrase pairs", OPEN, _pairs, lambda path: list(read_pairs(path))),
    Kind("word links", OPEN, _links, lambda path: list(read_links(path))),
]

# -- hostile files

HUGE = 10**15
Read = Callable[[Path], Any]


@dataclass
class Hostile:
    """Cases of one kind: what, where, and how it is read.

    What begins with "harmless" may be read; in a ``sealed`` kind only with the ``right`` answer.
    """

    name: str
    cases: list[tuple[str, Path, Read]] = field(default_factory=list)
    guard: str = OPEN
    right: int = -1


def hostile_cases(folder: Path) -> Iterator[Hostile]:
    """All of them; what is written goes below ``folder``."""
    readers = {kind.name: kind for kind in KINDS}
    for make in (_indexes, _models, _word_vectors, _states, _xml, _archives, _packed, _numbers):
        place = folder / make.__name__.strip("_")
        place.mkdir(parents=True)
        yield make(place, readers)


def _sound(kind: Kind, place: Path, name: str) -> Path:
    """A sound one in a folder of its own."""
    (place / name.replace(" ", "-")).mkdir()
    return kind.make(place / name.replace(" ", "-"))


def _rewritten(path: Path, **changes: Any) -> None:
    """Change a JSON file as one of our own writers would write it."""
    content = {key: value for key, value in json.loads(path.read_text("utf-8")).items() if key != "crc"}
    path.write_bytes(manifest._canonical(content | changes))


def _indexes(place: Path, readers: dict[str, Kind]) -> Hostile:
    kind = readers["index"]
    right = digest(kind.read(_sound(kind, place, "sound")))
    group = Hostile("hostile index", guard=SEALED, right=right)

    def case(what: str, change: Callable[[Path], object]) -> None:
        folder = _sound(kind, place, what)
        change(folder)
        group.cases.append((what, folder, kind.read))

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
    return group


def _models(place: Path, readers: dict[str, Kind]) -> Hostile:
    kind, group = readers["model folder"], Hostile("hostile model")
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
        group.cases.append((what, folder, kind.read))

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
    return group


def _deep(depth: int) -> list[Any]:
    nested: list[Any] = []
    for _ in range(depth):
        nested = [nested]
    return nested


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


def _word_vectors(place: Path, readers: dict[str, Kind]) -> Hostile:
    kind, group = readers["word vectors"], Hostile("hostile word vectors")
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
        group.cases.append((what, place / what, kind.read))
    return group


def _states(place: Path, readers: dict[str, Kind]) -> Hostile:
    """What safetensors and JSON may claim, sealed."""
    kind, group = readers["checkpoint"], Hostile("hostile checkpoint")
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
        group.cases.append((what, folder, kind.read))
    folder = _sound(kind, place, "one digit")
    facts = (folder / "state.json").read_text("utf-8")
    (folder / "state.json").write_text(facts.replace('"step": 3', '"step": 4'), "utf-8")
    group.cases.append(("another step", folder, kind.read))
    return group


def _xml(place: Path, readers: dict[str, Kind]) -> Hostile:
    group = Hostile("hostile XML")
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
            group.cases.append(
                (
                    f"{suffix} {what}",
                    hostile.write(place / f"{len(group.cases)}.{suffix}", content),
                    readers[suffix].read,
                )
            )
    return group


def _archives(place: Path, readers: dict[str, Kind]) -> Hostile:
    group = Hostile("hostile archives")
    for suffix, member in (("docx", "word/document.xml"), ("xlsx", "xl/workbook.xml")):
        for what, members in {
            "a bomb": {member: b" " * 600_000_000},
            "a way out": {"../../x": b"x", member: b"<a/>"},
            "an absolute name": {"/etc/x": b"x", member: b"<a/>"},
            "many members": {f"m{n}": b"" for n in range(11_000)},
            "another root": {member: b"<html/>"},
        }.items():
            path = hostile.zipped(place / f"{len(group.cases)}.{suffix}", members)
            group.cases.append((f"{suffix} {what}", path, readers[suffix].read))
        raw = bytearray(hostile.zipped(place / f"sizes.{suffix}", {member: b"<a/>"}).read_bytes())
        at = raw.rindex(b"PK\x01\x02") + 24
        raw[at : at + 4] = struct.pack("<I", 0xFFFFFFF0)
        path = hostile.write(place / f"claims.{suffix}", bytes(raw))
        group.cases.append((f"{suffix} claims 4 GB", path, readers[suffix].read))
        assert zipfile.is_zipfile(path)
    return group


def _packed(place: Path, readers: dict[str, Kind]) -> Hostile:
    """Packed files that unpack to hundreds of times their size: one line, or one page, of 300 MB."""
    group = Hostile("hostile gz and bz2")
    line = b"a" * 1_000_000
    for name, kind, pack in (
        ("a.txt.gz", "txt.gz", gzip.open),
        ("a.xml.gz", "dump xml.gz", gzip.open),
        ("a.xml.bz2", "dump xml.bz2", bz2.open),
    ):
        head = b"" if "txt" in name else DUMP.encode().partition(b"Title 0")[0]
        with pack(place / name, "wb", 1) as file:
            file.write(head)
            for _ in range(300):
                file.write(line)
        group.cases.append((f"{name} one line of 300 MB", place / name, readers[kind].read))
    path = hostile.write(place / "b.txt.gz", gzip.compress(b"One.\n") + b"trailing")
    group.cases.append(("harmless bytes after gzip", path, readers["txt.gz"].read))
    return group


def _numbers(place: Path, readers: dict[str, Kind]) -> Hostile:
    group = Hostile("hostile tables and lines")
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
        path = hostile.write(place / f"{len(group.cases)}-{name}", content)
        group.cases.append((f"{mark}{kind} {content[:20]!r}", path, readers[kind].read))
    return group
