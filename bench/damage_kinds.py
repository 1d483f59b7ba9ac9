"""The files that bench/damage.py damages: for each kind a sound one, how it is read, and what an answer from it is.

``sealed`` kinds carry checksums: an altered byte is an error or makes no difference. ``closed`` ones (XML, archives)
have an end that a cut takes away. In ``open`` ones (lines) a change may be just another text, and no reader knows.
"""

from __future__ import annotations

import bz2
import gzip
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(TESTS / name) for name in ("text", "dataset", "index", "encode", "training")]

import example_data  # noqa: E402
import fake  # noqa: E402
import hostile  # noqa: E402
import pair_files  # noqa: E402
import wiki_files  # noqa: E402

SEALED, CLOSED, OPEN = "sealed", "closed", "open"
TEXTS = fake.sentences(60, seed=1)
MODEL = fake.FakeModel(dim=16)


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
        from phrasemate import read as read_text

        return [sentence.text for document in read_text(path, **options) for sentence in document.sentences()]

    kind = name.partition(".")[2]
    return Kind(kind, guard, lambda folder: hostile.write(folder / name, content), read)


def _made(kind: str, suffix: str, make: Callable[[Path], Path]) -> Kind:
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
        from phrasemate.dataset.dump import pages
        from phrasemate.dataset.markup import paragraphs

        names: set[str] = set()
        return [(page.id, page.title, list(paragraphs(page.text, names))) for page in pages(path, names)]

    kind = f"dump {name.partition('.')[2]}"
    return Kind(kind, guard, lambda folder: hostile.write(folder / name, pack(DUMP.encode())), read)


def _index(folder: Path) -> Path:
    from phrasemate import Document, Index

    with Index.create(folder / "index", MODEL, settings=_settings(), threads=1) as index:
        index.add([Document.from_texts("a", TEXTS), Document.from_texts("b", fake.sentences(70, seed=2))], lang="en")
        index.delete("a")
        index.add([Document.from_texts("c", TEXTS[:20])], lang="de")
        index.optimize()
    return folder / "index"


def _settings() -> Any:
    from phrasemate.index import Settings

    return Settings(chunk=32, learn=50, exact_below=100, forced_rebuild=600, exact_filtered=200, train=900, block=250)


def _ask_index(folder: Path) -> Any:
    """Every row, and the best hits of some phrases: from FAISS, with scores as they are read."""
    from phrasemate import Index, Phrase

    with Index.open(folder, MODEL, settings=_settings(), threads=1) as index:
        asked = [Phrase(word, 0, len(word)) for word in ("w1", "w2", "w3 w1", "w5", "w17")]
        found = index.search(MODEL.encode(asked), 1)
        hits = [(hit.text, round(hit.score, 2)) for hit in index.hits(found.ids, found.scores)]
        with index.store.reading():
            rows = [(row.text, row.line, row.spans) for row in index.store.all_sentences()]
        documents = [(document.name, document.language) for document in index.documents()]
        return hits, rows, documents, len(index.containing("w1"))


def _ask_rows(folder: Path) -> Any:
    """All that a store holds, vectors and counts included."""
    from phrasemate import Index

    with Index.open(folder, MODEL, settings=_settings(), threads=1) as index, index.store.reading() as state:
        vectors = [row for block in index.store.vectors() for row in block]
        deleted = index.store.tombstones().tolist()
        return state, list(index.documents()), list(index.store.all_sentences()), vectors, deleted


def _model(folder: Path) -> Path:
    import tiny

    from phrasemate.encode.export.export import export_model

    base = tiny.save_trained(tiny.save_xlmr(folder / "base"))
    export_model(base, folder / "model")
    return folder / "model"


def _ask_model(folder: Path) -> Any:
    from phrasemate import Phrase, load_model

    model = load_model(folder, threads=1)
    text = "The old bank on the river was closed."
    return model.encode([Phrase(text, 8, 12)]).round(3).tolist(), model.segment([text])


def _checkpoint(folder: Path) -> Path:
    import torch

    from phrasemate.training.checkpoint import Checkpoint

    Checkpoint(folder / "checkpoint").save({"a": torch.arange(300.0), "random/cpu": torch.zeros(9)}, {"step": 3})
    return folder / "checkpoint"


def _ask_checkpoint(folder: Path) -> Any:
    from phrasemate.training.checkpoint import Checkpoint

    tensors, facts = Checkpoint(folder).load()
    return {name: value.tolist() for name, value in tensors.items()}, facts


def _words(folder: Path) -> Path:
    from phrasemate.vectors.word_vectors import WordVectors

    matrix = np.random.default_rng(1).standard_normal((40, 8)).astype(np.float32)
    WordVectors([f"w{n}" for n in range(40)], matrix, "en", facts={"method": "drawn"}).save(folder / "words")
    return folder / "words"


def _ask_words(folder: Path) -> Any:
    from phrasemate.vectors.word_vectors import WordVectors

    found = WordVectors.load(folder)
    return found.words, found.matrix.tolist(), found.language


def _fasttext(folder: Path) -> Path:
    rows = "".join(f"w{n} {n}.5 -1e-3 2\n" for n in range(40))
    return hostile.write(folder / "a.vec", f"40 3\n{rows}")


def _ask_fasttext(path: Path) -> Any:
    from phrasemate.vectors.fasttext import read_fasttext

    found = read_fasttext(path)
    return found.words, found.matrix.tolist()


def _sums(fill: float) -> Any:
    from phrasemate.utils.storage import ResumableSum

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


def _kept(folder: Path) -> Path:
    """States of the lower layers, written as `phrasemate.training.frozen_states` does."""
    _ask_kept(folder / "x.npy")
    return folder / "x.npy"


def _ask_kept(path: Path) -> Any:
    """What a run goes on with: kept states that are not whole are computed anew, so all is right or new."""
    from types import SimpleNamespace

    from phrasemate.training.frozen_states import BLOCK, Feed

    assert BLOCK
    contexts: Any = SimpleNamespace(ids=np.arange(40), bounds=np.arange(0, 41, 4), first=np.arange(10), name="x")
    lower: Any = SimpleNamespace(width=6)
    feed = Feed([contexts], lower, 0, 32, lambda: None)
    feed._computed = lambda _, start, stop: np.arange(240, dtype=np.float16).reshape(40, 6)  # type: ignore[method-assign]
    return feed._opened(path, contexts, lambda *_: None).tolist()


def _work(folder: Path) -> Path:
    from phrasemate.mine.work_folder import Blocks, WorkFolder, seal

    with WorkFolder(folder / "work", {"margin": 1}) as work:
        made = Blocks(work.path, "source", (20, 4), np.float32, 8, ["a", "b", "c"])
        for number in range(3):
            made.write(number, np.full((4 if number == 2 else 8, 4), number))
        seal(work.path / "forward.json", {"rows": 20}, [work.path / "source.bin"])
    return folder / "work"


def _ask_work(folder: Path) -> Any:
    """What a run that goes on there has: blocks that do not hold their checksum are made again."""
    from phrasemate.mine.work_folder import Blocks, WorkFolder, checked

    with WorkFolder(folder, {"margin": 1}) as work:
        known = checked(folder / "forward.json") or {"rows": 20}
        made = Blocks(work.path, "source", (20, 4), np.float32, 8, ["a", "b", "c"])
        for number in made.missing:
            made.write(number, np.full((4 if number == 2 else 8, 4), number))
        return known, made.array.tolist()


def _examples(folder: Path) -> Path:
    from phrasemate import Document
    from phrasemate.examples.textstore import TextStore

    TextStore.build([Document.from_texts("a", TEXTS)], folder / "text.sqlite", "en", lambda *_: None).close()
    return folder / "text.sqlite"


def _ask_examples(path: Path) -> Any:
    from phrasemate.examples.textstore import TextStore

    store = TextStore.open(path)
    with store.snapshot():
        found = store.candidates("w1 w2", 0, 1 << 30, 20)
        return store.count(), found, store.rows(range(store.count())), store.parts


def _records(folder: Path) -> Path:
    return example_data.write_split(folder / "set" / "xx-en" / "train.jsonl", 3).parents[1]


def _ask_records(folder: Path) -> Any:
    from phrasemate.dataset.jsonl import read

    return read(folder, "xx-en", "train")


def _pairs(folder: Path) -> Path:
    return pair_files.write_pairs(folder / "en-xx.jsonl", 30, 1)


def _ask_pairs(path: Path) -> Any:
    from phrasemate.align import read_pairs

    return list(read_pairs(path))


def _links(folder: Path) -> Path:
    return hostile.write(folder / "a.links", "".join(f"0-{n % 5} {n % 7}-1\n" for n in range(40)))


def _ask_links(path: Path) -> Any:
    from phrasemate.align.links import read_links

    return list(read_links(path))


def _terms(path: Path) -> Any:
    from phrasemate.text.term_lists import read_terms

    return list(read_terms(path, "*"))


def _langlinks(folder: Path) -> Path:
    rows: Iterable[tuple[int, str, str]] = [(n, "de" if n % 2 else "fr", f"Titel {n}") for n in range(1, 40)]
    return hostile.write(folder / "langlinks.sql.gz", gzip.compress(wiki_files.sql(rows).encode(), mtime=0))


def _ask_langlinks(path: Path) -> Any:
    from phrasemate.dataset.links import language_links

    return sorted(map(repr, language_links(path, "de")))


JSONL = "".join(f'{{"text": "{text}", "n": {n}}}\n' for n, text in enumerate(TEXTS))
TSV = "".join(f"{n}\t{text}\n" for n, text in enumerate(TEXTS))
KINDS = [
    Kind("index", SEALED, _index, _ask_index, ("index.json", "store.sqlite", "vectors.json", "*.faiss", "*.codes")),
    Kind("rows of an index", SEALED, _index, _ask_rows, ("store.sqlite",)),
    Kind(
        "model folder",
        SEALED,
        _model,
        _ask_model,
        (
            "config.json",
            "tokenizer.json.gz",
            "encoder.onnx",
            "embeddings.safetensors",
            "heads.safetensors",
            "MANIFEST.json",
        ),
        training=True,
    ),
    Kind("checkpoint", SEALED, _checkpoint, _ask_checkpoint, ("state.json", "state.safetensors"), training=True),
    Kind("word vectors", SEALED, _words, _ask_words, ("words.json", "vectors.safetensors", "MANIFEST.json")),
    Kind("unfinished sums", SEALED, _unfinished, _ask_unfinished),
    Kind("kept states", SEALED, _kept, _ask_kept, training=True),
    Kind("mining work", SEALED, _work, _ask_work, ("work.json", "source.bin", "source.log", "forward.json")),
    Kind("examples store", SEALED, _examples, _ask_examples),
    _text("a.tmx", hostile.TMX, CLOSED, lang="en"),
    _text("a.tbx", hostile.TBX, CLOSED, lang="en"),
    _text("a.xlf", hostile.XLIFF, CLOSED, lang="en"),
    Kind("tbx terms", CLOSED, lambda folder: hostile.write(folder / "a.tbx", hostile.TBX), _terms),
    _made("docx", "docx", _docx),
    _made("xlsx", "xlsx", _xlsx),
    _text("a.jsonl", JSONL, OPEN),
    _text("a.txt.gz", gzip.compress("\n".join(TEXTS).encode(), mtime=0), SEALED),
    _text("a.tsv", TSV, OPEN, column=2),
    _text("a.html", "<html><body>" + "".join(f"<p>{text}</p>" for text in TEXTS) + "</body></html>", OPEN),
    _dump("a.xml", lambda raw: raw),
    _dump("a.xml.gz", lambda raw: gzip.compress(raw, mtime=0), SEALED),
    _dump("a.xml.bz2", bz2.compress, SEALED),
    Kind("langlinks sql.gz", SEALED, _langlinks, _ask_langlinks),
    Kind("vec", OPEN, _fasttext, _ask_fasttext),
    Kind("data set", OPEN, _records, _ask_records, ("xx-en/train.jsonl",)),
    Kind("phrase pairs", OPEN, _pairs, _ask_pairs),
    Kind("word links", OPEN, _links, _ask_links),
]
