"""An index in two parts, each opened by an actor of Ray: answers, the command, the server, and killed actors."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray", reason="Ray is not installed (pip install 'phrasemate[ray]')")

from phrasemate.encode import load_model
from phrasemate.encode.scoring import alone
from phrasemate.errors import ClusterError, IndexMissing
from phrasemate.index import BaseIndex, Index
from phrasemate.index.shards import ShardedIndex
from phrasemate.query import parse_query
from phrasemate.results import SearchRequest
from phrasemate.search import Searcher
from phrasemate.types import Document

TEXTS = [
    "She sat on the bench in the park.",
    "The bank lends money to farmers.",
    "They rested on a bench near the river.",
    "His bank account is empty.",
    "The judge read the sentence aloud.",
    "In autumn the leaves fall.",
    "The benches were painted green.",
    "The bank of the river was steep.",
    "We observed a minute of silence.",
    "The contract ends in the autumn.",
]
QUERIES = [
    "Er sitzt auf der [[Bank]].",
    "Die [[Bank]] gab ihm einen Kredit.",
    "Der Vertrag endet [[im Herbst]].",
    "Wir hielten [[eine Schweigeminute]] ab.",
    "Der [[Richter]] las das Urteil vor.",
]


@pytest.fixture(scope="module")
def model() -> Any:
    return load_model(threads=1)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory, model: Any) -> Path:
    """The index of all in ``whole``, and that in parts in ``parts``."""
    base = tmp_path_factory.mktemp("shards")
    documents = [Document.from_texts(f"text{number}", TEXTS[5 * number : 5 * number + 5]) for number in range(2)]
    for name, chosen in {"whole": documents, "first": documents[:1], "second": documents[1:]}.items():
        with Index.create(base / name, model, threads=1) as index:
            for document in chosen:  # one by one: what is encoded together decides how some processors round
                index.add([document], lang="en")
    (base / "parts").mkdir()
    (base / "parts" / "shards.json").write_text(json.dumps({"cluster": "auto", "shards": ["../first", "../second"]}))
    return base


@pytest.fixture
def parts(cluster: str, places: Path, model: Any) -> Iterator[ShardedIndex]:
    with Index.open(places / "parts", model, threads=1) as index:
        assert isinstance(index, ShardedIndex)
        yield index


def answers(index: Any, model: Any, **options: Any) -> list[Any]:
    """What a search reports, without ids of phrases."""
    results = Searcher(index, model, **options).search_all(QUERIES, k=5)
    return [result.as_dict(explain=True) for result in results]


@pytest.mark.parametrize("views", [True, False])
def test_answers_are_those_of_one_index(parts: ShardedIndex, places: Path, model: Any, views: bool) -> None:
    with Index.open(places / "whole", model, threads=1) as whole:
        expected = answers(whole, model, views=views)
    assert answers(parts, model, views=views) == expected
    assert [len(answer["groups"]) for answer in expected] == [5] * len(QUERIES)


def test_killed_actors_are_replaced_under_load(parts: ShardedIndex, places: Path, model: Any) -> None:
    phrases = [phrase for query in QUERIES for phrase in parse_query(query).phrases]
    vectors, bare = model.encode(phrases), model.encode([alone(phrase) for phrase in phrases])

    def search(index: BaseIndex) -> list[Any]:
        groups = Searcher(index, model).search_vectors(vectors, SearchRequest(5), alone=bare, phrases=phrases)
        return [[group.as_dict(explain=True) for group in answer] for answer, _ in groups]

    with Index.open(places / "whole", model, threads=1) as whole:
        expected = search(whole)
    before = parts._parts.all("pid")
    with ThreadPoolExecutor(4) as pool:
        pending = [pool.submit(search, parts) for _ in range(40)]
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        assert all(answer.result() == expected for answer in pending)
    assert not set(before) & set(parts._parts.all("pid"))


def test_the_command_and_the_server_take_it(cluster: str, places: Path, invoke: Callable[..., Any]) -> None:
    searched = [invoke("search", places / name, *QUERIES, "--json") for name in ("whole", "parts")]
    assert [result.exit_code for result in searched] == [0, 0], searched[1].stderr
    assert searched[0].stdout == searched[1].stdout
    assert "2 parts: exact" in invoke("index", "stats", places / "parts").stdout
    refused = invoke("index", "optimize", places / "parts")
    assert (refused.exit_code, "change one of these" in refused.stderr) == (1, True)


def test_the_server_opens_other_parts(cluster: str, places: Path, model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fastapi")
    from phrasemate.server import indexes

    monkeypatch.setattr(indexes, "CHECK_SECONDS", 0.0)
    library = indexes.Library([places / "parts"], threads=1, model=model)
    try:
        first = library.ask("", lambda searcher: searcher.search(QUERIES[0]).groups[0].text)
        file = places / "parts" / "shards.json"
        content = file.read_text("utf-8")
        file.write_text(content.replace('"../first", ', ""), "utf-8")
        assert library.ask("", lambda searcher: searcher.index.store.state().documents) == 1
        file.write_text(content, "utf-8")
        assert library.ask("", lambda searcher: searcher.index.store.state().documents) == 2
        assert first == "bench"
    finally:
        library.close()


def test_a_part_that_cannot_be_opened(cluster: str, places: Path, tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "shards.json").write_text(json.dumps({"cluster": "auto", "shards": ["none"]}))
    with pytest.raises(IndexMissing, match="no index at"):
        Index.open(tmp_path)
    monkeypatch.setattr("phrasemate.index.shards.PATIENCE", 0.5)
    content = {"cluster": "auto", "shards": [{"folder": str(places / "first"), "node": "192.0.2.1"}]}
    (tmp_path / "shards.json").write_text(json.dumps(content))
    with pytest.raises(ClusterError, match="first: no answer from the Ray cluster within 0 seconds"):
        Index.open(tmp_path)
