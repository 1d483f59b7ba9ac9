"""What a caller may hand to the public functions: lists and generators alike, and one clear error for the rest."""

from __future__ import annotations

import copy
import multiprocessing
import pkgutil
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phrasemate as pm
from phrasemate.align import NeuralAligner, ParallelText, PhraseSettings, align_files, pair_files
from phrasemate.dataset import DatasetSettings
from phrasemate.errors import IndexExists, InputError, MissingExtra, ModelError, QueryError
from phrasemate.examples import ExampleIndex
from phrasemate.index import IndexSettings
from phrasemate.index.backup import backup, restore, upgrade
from phrasemate.index.ray import build
from phrasemate.index.types import Filters
from phrasemate.lexicon import Dictionary, DictionaryFolder, open_dictionaries
from phrasemate.lookup import lookup
from phrasemate.match import MatchSettings, MatchSide, match_terms
from phrasemate.mine import Mining, mine
from phrasemate.mt import FORMS, Cache, Endpoint, Hints, read_form
from phrasemate.reranker import load_reranker
from phrasemate.results import SearchRequest
from phrasemate.terms import TermSettings, document_terms, extract_terms, translate_terms
from phrasemate.text import Term, read_terms, split_sentences, words
from phrasemate.training.lora import LoraSettings
from phrasemate.vectors import (
    DistilSettings,
    SelfLearning,
    Sentences,
    WordVectors,
    cover,
    distil,
    map_unsupervised,
    read_fasttext,
    read_lexicon,
)
from phrasemate.vectors.ppmi import PPMISettings, train_ppmi

STORY = pm.Document.from_texts("story", ["She sat on the bench in the park.", "The bank lends money."])
QUERY = "Er sitzt auf der [[Bank]]."


@pytest.fixture(scope="module")
def model() -> Any:
    return pm.load_model(threads=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, model: Any) -> Path:
    path = tmp_path_factory.mktemp("doors") / "idx"
    with pm.Index.create(path, model) as index:
        index.add([STORY], lang="en")
    return path


def test_a_generator_of_names_filters_like_a_list(folder: Path, model: Any) -> None:
    with pm.Index.open(folder, model) as index:
        searcher = pm.Searcher(index)
        expected = [group.text for group in searcher.search(QUERY, documents=["story"], languages=["en"]).groups]
        result = searcher.search(QUERY, documents=(name for name in ["story"]), languages=iter(["en"]))
    assert expected
    assert [group.text for group in result.groups] == expected


def test_a_generator_of_phrases_is_encoded_like_a_list(model: Any) -> None:
    phrases = [pm.Phrase("a bench", 2, 7), pm.Phrase("the bank", 4, 8)]
    assert np.array_equal(model.encode(iter(phrases)), model.encode(phrases))
    texts = ["a bench", "the bank"]
    assert np.array_equal(model.encode_sentences(iter(texts)), model.encode_sentences(texts))
    assert np.array_equal(np.concatenate(list(model.ends(iter(texts)))), np.concatenate(list(model.ends(texts))))


@pytest.mark.parametrize(
    "call",
    [
        lambda: pm.Searcher("idx"),  # type: ignore[arg-type]
        lambda: pm.Searcher(None),  # type: ignore[arg-type]
        lambda: SearchRequest(k="3"),  # type: ignore[arg-type]
        lambda: SearchRequest(documents=[3]),  # type: ignore[list-item]
        lambda: Filters(languages=3),  # type: ignore[arg-type]
        lambda: pm.Document.from_texts(3, ["a"]),  # type: ignore[arg-type]
        lambda: pm.Document.from_texts("n", [None]),  # type: ignore[list-item]
        lambda: pm.Document.from_texts("n", None),  # type: ignore[arg-type]
        lambda: open_dictionaries("d.tsv"),  # type: ignore[arg-type]
        lambda: lookup("idx", "bench"),  # type: ignore[arg-type]
        lambda: NeuralAligner("x"),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_argument_is_refused_at_once(call: Callable[[], object]) -> None:
    with pytest.raises(InputError, match="expected"):
        call()


def test_each_error_says_what_is_wrong() -> None:
    for call, reason in (
        (lambda: SearchRequest(k=2.5), "^k: 2.5; expected a whole number"),  # type: ignore[arg-type]
        (lambda: pm.read(""), "^an empty path; expected a file"),
        (lambda: pm.read(["a.txt"]), r"^\['a.txt'\]: expected a path; give several one by one"),  # type: ignore[arg-type]
    ):
        with pytest.raises(InputError, match=reason):
            call()


@pytest.mark.parametrize(
    "call",
    [
        lambda path: pm.Index.create(path, pm.load_model()),
        pm.Index.open,
        lambda path: backup(path, "copy"),
        lambda path: backup("idx", path),
        lambda path: restore(path, "idx"),
        lambda path: restore("copy", path),
        lambda path: upgrade(path, pm.load_model()),
        read_terms,
    ],
)
def test_a_path_is_a_text_or_a_path(call: Callable[[Any], object], tmp_path: Path) -> None:
    for path in (None, 5):
        with pytest.raises(InputError, match=f"^{path}: expected a path"):
            call(path)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: pm.load_model(5), "^5: expected a path"),  # type: ignore[arg-type]
        (lambda: pm.load_model(threads=True), "^threads: True; expected 1 or more, a whole number"),
        (lambda: pm.load_model(threads=2.0), "^threads: 2.0; expected 1 or more, a whole number"),  # type: ignore[arg-type]
        (lambda: pm.load_model(device=3), "^3: expected the name of a device, such as GPU"),  # type: ignore[arg-type]
        (lambda: pm.Phrase(3, 0, 1), "^3: expected a text"),  # type: ignore[arg-type]
        (lambda: ParallelText("a.tsv", columns=("a", "b")), "^columns a,b; expected two different numbers"),  # type: ignore[arg-type]
        (lambda: read_lexicon("a.tsv", columns=(1,)), "^columns 1; expected two different numbers from 1"),  # type: ignore[arg-type]
        (lambda: ParallelText("a.tmx", languages="de"), "^languages 'de'; expected two codes"),  # type: ignore[arg-type]
        (lambda: Mining(languages="de"), "^languages 'de'; expected two codes"),  # type: ignore[arg-type]
        (lambda: list(read_terms("a.tsv", column=True)), "^column=True; expected a name, or a number from 1"),
        (lambda: read_fasttext("a.vec", limit="9"), "^limit: '9'; expected 1 or more, a whole number"),  # type: ignore[arg-type]
        (lambda: split_sentences(None), "^None: expected a text"),  # type: ignore[arg-type]
        (lambda: split_sentences("One.", None), "^None: expected a text"),  # type: ignore[arg-type]
        (lambda: words(None), "^None: expected a text"),  # type: ignore[arg-type]
        (lambda: pm.read("a.txt", encoding=None), "^encoding=None is unknown; expected one such as"),  # type: ignore[arg-type]
        (lambda: pm.read("a.txt", text_field=None), "^None: expected a text"),  # type: ignore[arg-type]
        (lambda: pm.read("a.txt", column=2.5), "^column=2.5; expected a name, or a number from 1"),  # type: ignore[arg-type]
        (lambda: Mining(lexicon="d.tsv"), "^lexicon: 'd.tsv'; expected True or False"),  # type: ignore[arg-type]
    ],
)
def test_a_foreign_error_becomes_one_of_input(call: Callable[[], object], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        call()


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        (DatasetSettings, "examples"),
        (partial(Endpoint, "http://127.0.0.1/v1"), "max_tokens"),
        (DistilSettings, "words"),
        (Hints, "width"),
        (IndexSettings, "chunk"),
        (LoraSettings, "steps"),
        (MatchSettings, "examples"),
        (Mining, "k"),
        (PhraseSettings, "max_words"),
        (PPMISettings, "window"),
        (SearchRequest, "k"),
        (SelfLearning, "initial"),
        (TermSettings, "k"),
    ],
)
def test_settings_take_numbers_of_any_type_and_refuse_other_values(kind: Callable[..., Any], number: str) -> None:
    value = getattr(kind(**{number: np.int64(40)}), number)
    assert (value, type(value)) == (40, int)
    for wrong in ("40", 40.0, True, None):
        with pytest.raises(InputError, match=f"^{number}: {wrong!r}; expected a whole number$"):
            kind(**{number: wrong})


def test_settings_check_their_texts_and_shares_too() -> None:
    assert MatchSettings(threshold=np.float32(0.5)).threshold == 0.5
    assert type(MatchSettings(threshold=np.float32(0.5)).threshold) is float
    assert MatchSettings(mutual=np.True_).mutual is True  # type: ignore[arg-type]
    for wrong, reason in (
        ({"threshold": "x"}, "threshold: 'x'; expected a number"),
        ({"threshold": float("nan")}, "threshold: nan; expected a number"),
        ({"mutual": "no"}, "mutual: 'no'; expected True or False"),
        ({"pooling": 3}, "pooling: 3; expected a text"),
    ):
        with pytest.raises(InputError, match=f"^{reason}"):
            MatchSettings(**wrong)  # type: ignore[arg-type]


def test_settings_are_not_a_dict(model: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^settings \{'k': 2\}; expected Mining\(\.\.\.\)"):
        mine([STORY], [STORY], model, settings={"k": 2})  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^settings \{'chunk': 2\}; expected IndexSettings\(\.\.\.\)"):
        pm.Index.create(tmp_path / "idx", model, settings={"chunk": 2})  # type: ignore[arg-type]
    assert not (tmp_path / "idx").exists()


def test_progress_is_reported_to_a_function(folder: Path, model: Any, tmp_path: Path) -> None:
    text = ParallelText(tmp_path / "de.txt", tmp_path / "en.txt")
    side = MatchSide([Term("Bank", "de")])
    vectors = WordVectors(["a", "b"], np.eye(2, dtype=np.float32))
    with pm.Index.open(folder, model) as index, ExampleIndex.build([STORY]) as examples:
        searcher = pm.Searcher(index)
        calls: tuple[Callable[..., object], ...] = (
            partial(index.add, [STORY]),
            partial(upgrade, folder, model),
            partial(build, str(tmp_path / "tables"), [STORY], "auto"),
            partial(searcher.search_phrases, [pm.Phrase("a bench", 2, 7)], SearchRequest()),
            partial(lookup, index, "bench"),
            partial(extract_terms, [STORY], model),
            partial(translate_terms, [], searcher),
            partial(document_terms, STORY, searcher),
            partial(match_terms, side, side, model),
            partial(mine, [STORY], [STORY], model),
            partial(align_files, text, tmp_path / "links", NeuralAligner(model)),
            partial(pair_files, text, tmp_path / "links", tmp_path / "pairs"),
            partial(ExampleIndex.build, [STORY]),
            partial(examples.find_all, ["bench"]),
            partial(read_fasttext, tmp_path / "vectors.vec"),
            partial(distil, model, ["a bench"], dim=1),
            partial(cover, vectors, model, ["bench"]),
            partial(map_unsupervised, vectors, vectors),
            partial(train_ppmi, ["a bench"]),
        )
        for call in calls:
            with pytest.raises(InputError, match="progress=3; expected a function"):
                call(progress=3)


def test_numbers_of_numpy_are_numbers(folder: Path, model: Any, tmp_path: Path) -> None:
    assert pm.load_model(threads=np.int64(1)).runtime.threads == 1
    assert model.segment(["The bank lends money."], max_words=np.int32(1)) == model.segment(
        ["The bank lends money."], max_words=1
    )
    options = {"max_words": np.int64(2), "threshold": np.float32(0.5)}
    with pm.Index.create(tmp_path / "idx", model, threads=np.int64(1), segment=options) as index:
        index.add([STORY])
        assert index.manifest.segment == {"max_words": 2, "threshold": 0.5}
    with pm.Index.open(folder, model, threads=np.int64(1)) as index:
        assert len(pm.Searcher(index).search(QUERY, k=np.int64(1)).groups) == 1
        with pytest.raises(InputError, match=r"^count: 'x'; expected 0 or more, a whole number"):
            index.around(1, "x")  # type: ignore[arg-type]
    table = tmp_path / "table.tsv"
    table.write_text("1\tThe bank is closed.\n2\tA bench.\n")
    (document,) = pm.read(table, column=np.int64(2))  # type: ignore[arg-type]
    assert [sentence.text for sentence in document.sentences()] == ["The bank is closed.", "A bench."]
    assert [term.text for term in read_terms(table, column=np.int64(2))] == ["The bank is closed.", "A bench."]  # type: ignore[arg-type]


def test_a_model_refuses_what_it_cannot_encode(model: Any) -> None:
    with pytest.raises(InputError, match=r"^3: expected phrases"):
        model.encode([3])
    with pytest.raises(InputError, match=r"expected a list of phrases; put one alone in brackets"):
        model.encode(pm.Phrase("a bench", 2, 7))
    for method in ("encode_sentences", "segment", "extract", "token_states", "ends"):
        with pytest.raises(InputError, match=r"^\[None\]: expected a list of texts"):
            list(getattr(model, method)([None]))


@pytest.mark.parametrize("documents", ["story.txt", ["story.txt"], Path("story.txt"), None, [STORY, None]])
def test_what_is_not_a_document_is_refused_by_all_that_read_documents(documents: Any, model: Any) -> None:
    readers: list[Callable[[], object]] = [
        lambda: ExampleIndex.build(documents),
        lambda: document_terms(documents, model=model),
        lambda: mine(documents, [STORY], model),
        lambda: mine([STORY], documents, model),
        lambda: list(Sentences(documents)),
    ]
    for read in readers:
        with pytest.raises(InputError, match=r"expected (a list of )?documents"):
            read()
    with pytest.raises(InputError, match="expected a model"):
        mine([STORY], [STORY], "model")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="put one alone in brackets"):
        Sentences(STORY)  # type: ignore[arg-type]


def test_an_index_refuses_names_where_it_needs_what_they_name(folder: Path, model: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a model"):
        pm.Index.create(tmp_path / "new", "model")  # type: ignore[arg-type]
    assert not (tmp_path / "new").exists()
    with pytest.raises(InputError, match="expected a model"):
        pm.Index.open(folder, "model")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="expected a model"):
        upgrade(folder, "model")  # type: ignore[arg-type]
    for threads in (0, "2"):
        with pytest.raises(InputError, match="expected 1 or more"):
            pm.Index.open(folder, threads=threads)  # type: ignore[arg-type]
    with pm.Index.open(folder, model) as index:
        for one in (STORY, folder, [folder], [None], 5, iter(["text"])):
            with pytest.raises(InputError, match=r"expected (a list of )?documents"):
                index.add(one)  # type: ignore[arg-type]
        for name in (["story"], None, Path("story")):
            with pytest.raises(InputError, match=r"expected the name of a document; .* delete\(first, second\)"):
                index.delete(name)  # type: ignore[arg-type]
        for k in (0, "3", 2.5, None):
            with pytest.raises(InputError, match="expected 1 or more, a whole number"):
                index.search(model.encode([pm.Phrase("a bench", 2, 7)]), k)  # type: ignore[arg-type]
        for phrase, limit in ((None, 100), (5, 100), ("bench", None), ("bench", "3")):
            with pytest.raises(InputError, match="expected a text and at least 1"):
                index.containing(phrase, limit)  # type: ignore[arg-type]
        with pytest.raises(InputError, match=r"^None: expected a text"):
            lookup(index, None)  # type: ignore[arg-type]
        with pytest.raises(QueryError, match="expected a text"):
            pm.Searcher(index).search(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{"threshold": "0.5"}, {"threshold": None}, {"max_words": 0}, {"words": 3}])
def test_options_of_segmentation_are_checked_before_an_index_is_made(
    options: dict[str, Any], model: Any, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=r"expected (0 to 1|1 or more|options of threshold, max_words, overlapping)"):
        pm.Index.create(tmp_path / "idx", model, segment=options)
    assert not (tmp_path / "idx").exists()


def test_a_searcher_refuses_names_where_it_needs_what_they_name(folder: Path, model: Any) -> None:
    request, phrase = SearchRequest(k=1), pm.Phrase("the bank", 4, 8)
    with pm.Index.open(folder, model) as index:
        searcher = pm.Searcher(index)
        calls: list[tuple[str, Callable[[], object]]] = [
            ("a model, such as", lambda: pm.Searcher(index, "model")),  # type: ignore[arg-type]
            ("a list of dictionaries", lambda: pm.Searcher(index, lexicons="d.tsv")),
            ("dictionaries, as .*open_dictionaries", lambda: pm.Searcher(index, lexicons=["d.tsv"])),  # type: ignore[list-item]
            (
                r"True or False; for dictionaries: lexicons=open_dictionaries\(",
                lambda: pm.Searcher(index, lexicon="d.tsv"),  # type: ignore[arg-type]
            ),
            ("1 or more", lambda: searcher.search_phrases([phrase], request, at_once=-1)),
            ("1 or more", lambda: searcher.search_phrases([phrase], request, at_once=0)),
            ("a list of queries", lambda: searcher.search_all(None)),  # type: ignore[arg-type]
            ("a list of texts to leave out", lambda: searcher.search_all([QUERY], without=[None])),  # type: ignore[list-item]
            ("phrases, such as", lambda: searcher.search_phrases(["Bank"], request)),  # type: ignore[list-item]
            ("a list of phrases", lambda: searcher.search_phrases(phrase, request)),  # type: ignore[arg-type]
            ("one for each", lambda: searcher.search_phrases([phrase], request, without=["a", "b"])),
        ]
        for reason, call in calls:
            with pytest.raises(InputError, match=f"expected {reason}"):
                call()
        expected = searcher.search_phrases([phrase], request, without=["It rained."])
        assert searcher.search_phrases(iter([phrase]), request, without=iter(["It rained."])) == expected  # type: ignore[arg-type]


def test_a_backup_spares_what_is_not_of_the_index(folder: Path, model: Any, tmp_path: Path) -> None:
    with pytest.raises(IndexExists, match="lies inside the index"):
        backup(folder, folder / "backup")
    assert not (folder / "backup").exists()
    with pytest.raises(IndexExists, match="the index itself"):
        backup(folder, folder, force=True)
    spare, other = tmp_path / "spare", tmp_path / "other"
    backup(folder, spare)
    backup(folder, other)
    (other / "notes.txt").write_text("mine")
    for replace in (lambda: backup(folder, other, force=True), lambda: restore(spare, other, force=True)):
        with pytest.raises(IndexExists, match=r"notes\.txt"):
            replace()
        assert (other / "notes.txt").read_text() == "mine"
    (other / "notes.txt").unlink()
    assert restore(spare, other, force=True).sentences == 2


def test_a_missing_extra_survives_the_way_to_another_process() -> None:
    error = copy.copy(MissingExtra("ray", "cluster"))
    assert (error.package, error.extra, str(error)) == ("ray", "cluster", str(MissingExtra("ray", "cluster")))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
def test_a_forked_process_says_that_it_needs_its_own_model(model: Any) -> None:
    model.encode_sentences(["a"])
    context = multiprocessing.get_context("fork")
    answers: Any = context.Queue()

    def child() -> None:
        try:
            model.encode_sentences(["a"])
        except ModelError as error:
            answers.put(str(error))

    process = context.Process(target=child)
    process.start()
    assert "another process" in answers.get(timeout=30)
    process.join(30)
    assert process.exitcode == 0


@pytest.mark.parametrize("side", [["Bank"], MatchSide(["Bank"]), MatchSide("Bank")])  # type: ignore[list-item, arg-type]
def test_texts_are_not_terms(side: Any, model: Any) -> None:
    with pytest.raises(InputError, match=r"expected terms, as MatchSide\(\[Term\(text\)\]\)"):
        match_terms(side, MatchSide([Term("bank")]), model)
    with pytest.raises(InputError, match="expected a model"):
        match_terms(MatchSide([Term("Bank")]), MatchSide([Term("bank")]), "model")  # type: ignore[arg-type]


def test_open_things_have_a_name_that_costs_no_query(folder: Path, model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    with pm.Index.open("idx") as index:
        searcher = pm.Searcher(index)
        names = [repr(index), repr(searcher)]
    assert names == ["Index('idx')", "Searcher(Index('idx'))"]
    assert [repr(index), repr(searcher)] == names  # closed
    assert repr(model) == f"Model('e5-small-ccpr', dim={model.dim})"
    assert repr(pm.read("a.txt", "b")) == "Corpus('a.txt', 'b')"
    assert repr(pm.read(*"abcd")) == "Corpus('a', 'b', 'c', ...)"


def _signatures() -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the name and the annotations of every exported function and method."""
    packages = ["", *(f".{info.name}" for info in pkgutil.iter_modules(pm.__path__) if info.ispkg)]
    modules = [import_module(f"phrasemate{name}") for name in packages if name != ".cli"]
    modules.append(import_module("phrasemate.reranker"))
    for module in modules:
        for name in getattr(module, "__all__", ["load_reranker", "save_reranker"]):
            value = getattr(module, name)
            methods = {key: getattr(value, key) for key in vars(value)} if isinstance(value, type) else {"": value}
            for key, method in methods.items():
                if callable(method) and (not key.startswith("_") or key == "__init__"):
                    yield f"{name}.{key}".rstrip("."), getattr(method, "__annotations__", {})


def test_every_path_may_be_a_text() -> None:
    """Except for classes that another function makes, and parts of the program itself."""
    inner = {"Index.__init__", "Model.__init__", "ParallelText.count", "ParallelText.lines_beside", "Side.staged"}
    kinds = ("Path", "Path | None")
    signatures = dict(_signatures())
    assert any("str | Path" in map(str, annotations.values()) for annotations in signatures.values())
    only_paths = {
        name
        for name, annotations in signatures.items()
        if any(kind in kinds for key, kind in annotations.items() if key != "return")
    }
    assert only_paths - inner == set()


def test_a_text_names_a_file_as_a_path_does(tmp_path: Path) -> None:
    folder, answers = str(tmp_path / "idx"), tmp_path / "answers.sqlite"
    DictionaryFolder(folder).add(Dictionary("mine.tsv", [[("de", "Haus"), ("en", "house")]]))
    assert DictionaryFolder(Path(folder)).names() == ["mine.tsv"]
    assert Cache(str(answers)).path == answers
    with pytest.raises(ModelError, match="train reranker"):
        load_reranker(folder)
    with pytest.raises(InputError, match="cannot be read"):
        read_form(str(tmp_path / "form.toml"), FORMS["plain"])
