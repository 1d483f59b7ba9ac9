"""Every endpoint, asked as a program asks."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from index_fakes import vector_of
from server_checks import PATHS, UNIT
from server_fakes import TEXTS, FakeModel, make_index

from phrasemate import __version__
from phrasemate.index import Index
from phrasemate.search import Searcher
from phrasemate.server import schemas
from phrasemate.server.api import AT_ONCE, limit_spans
from phrasemate.server.app import access_for, create_app
from phrasemate.server.errors import Refusal
from phrasemate.server.indexes import Library
from phrasemate.server.settings import Settings
from phrasemate.types import Document, Span

API = "/api/v1"
SIDES = "".join(f'<tuv xml:lang="{name}"><seg>Bank</seg></tuv>' for name in ("de", "en"))
TWO_LANGUAGES = f'<tmx version="1.4"><body><tu>{SIDES}</tu></body></tmx>'.encode()


def ask(client: TestClient, path: str, **body: Any) -> Any:
    answer = client.post(API + path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(client: TestClient, path: str, status: int, code: str, **body: Any) -> str:
    answer = client.post(API + path, json=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["status"], error["code"]) == (status, status, code)
    return str(error["message"])


def test_search_is_what_the_library_says(client: TestClient, library: Library) -> None:
    query = r"Die [[bank]] und ein [[bench]]."
    answer = ask(client, "/search", query=query, k=2, contexts=1)
    with library.use() as searcher:
        expected = [result.as_dict() for result in searcher.search_all([query], k=2, contexts=1)]
    assert answer == {"index": "idx", "query": query, "results": expected}
    assert [result["groups"][0]["text"] for result in answer["results"]] == ["bank", "bench"]
    assert schemas.SearchAnswer.model_validate(answer).results[0].groups[0].hits[0].context == TEXTS[0]


def test_a_query_without_marks_is_answered_for_every_phrase(client: TestClient) -> None:
    answer = ask(client, "/search", query="bank bench", k=1)
    assert [result["phrase"] for result in answer["results"]] == ["bank", "bench", "bank bench"]  # as the fake has it
    assert ask(client, "/search", query="")["results"] == []


def test_half_a_character_in_a_document_is_an_escape(client: TestClient, folder: Path, model: FakeModel) -> None:
    with Index.open(folder, model, threads=1) as index:
        index.add([Document.from_texts("damaged.txt", ["A zebra \udc80 grazes."])], lang="en")
    answer = client.post(API + "/search", json={"query": "[[zebra]]", "k": 1})
    assert b"A zebra \\udc80 grazes." in answer.content
    assert answer.json()["results"][0]["groups"][0]["hits"][0]["context"] == "A zebra \udc80 grazes."


def test_a_look_up_has_the_options_of_the_command_line_and_their_former_names(client: TestClient) -> None:
    names = ({"how": "regex", "sort": "left", "limit": 1}, {"way": "regex", "order": "left", "most": 1})
    first, second = (ask(client, "/lookup", query="[a-z]+", **options) for options in names)
    assert first == second
    assert first["count"] > len(first["lines"]) == 1
    assert "limit: expected 1 or more" in refused(client, "/lookup", 422, "invalid", query="bank", limit=0)


def test_filters(client: TestClient) -> None:
    assert ask(client, "/search", query="[[bank]]", k=1, documents=["english.txt"], languages=["en"])["results"]
    assert "has no language 'de'; it has 'en'" in refused(
        client, "/search", 422, "invalid", query="[[bank]]", languages=["de"]
    )


@pytest.mark.parametrize("field", ["language", "target_language"])
def test_a_language_that_has_no_tag(client: TestClient, field: str) -> None:
    answer = client.post(API + "/terms", files={"file": ("a.txt", b"a bank")}, data={field: "en/fr"})
    message = answer.json()["error"]["message"]
    assert (answer.status_code, message) == (422, f"{field}: expected a language tag such as de or pt-BR")


def test_the_fields_of_a_form_include_its_file(client: TestClient) -> None:
    answer = client.post(API + "/terms", files={"file": ("a.txt", b"a bank")}, data={"color": "red"})
    assert "unknown field 'color'; the fields are file, index, language, " in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("body", "status", "code", "message"),
    [
        ({"query": "[[bank"}, 422, "invalid", "unclosed [["),
        ({"query": "x" * 5001}, 413, "too_long", "query: 5,001 characters; expected at most 5,000"),
        ({"query": "[[bank]]", "k": 101}, 422, "invalid", "k: expected at most 100"),
        ({"query": "[[bank]]", "k": 0}, 422, "invalid", "k: expected 1 or more"),
        ({"query": "[[bank]]", "k": True}, 422, "invalid", "k: expected a whole number"),
        ({"query": "[[bank]]", "k": "3"}, 422, "invalid", "k: expected a whole number"),
        ({"query": "[[bank]]", "contexts": -1}, 422, "invalid", "contexts: expected 0 or more"),
        ({"query": "[[bank]]", "color": "red"}, 422, "invalid", "unknown field 'color'"),
        ({"query": "[[bank]]", "index": "/etc"}, 404, "unknown_index", "there is no index '/etc'; there are: idx"),
        ({"query": "[[bank]]", "documents": ["x"] * 101}, 413, "too_long", "documents: 101 items"),
        ({"query": "[[a]] " * 65}, 413, "too_long", "the query has 65 phrases; expected at most 64"),
        ({}, 422, "invalid", "the field 'query' is missing"),
        (
            {"q": "[[bank]]"},
            422,
            "invalid",
            "the field 'query' is missing; unknown field 'q'; the fields are query, index, k, contexts, documents, ",
        ),
    ],
)
def test_what_search_refuses(client: TestClient, body: Any, status: int, code: str, message: str) -> None:
    assert message in refused(client, "/search", status, code, **body)


@pytest.mark.parametrize("content", ["[]", "5", "null", '"bank"'])
def test_a_body_that_is_no_object(client: TestClient, content: str) -> None:
    answer = client.post("/api/v1/segment", content=content, headers={"Content-Type": "application/json"})
    message = answer.json()["error"]["message"]
    assert message == "the body: expected a JSON object with the fields texts, index, overlapping, threshold, max_words"


def test_the_answer_on_the_page_has_the_fields_of_an_answer() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "rest.md").read_text("utf-8")
    (example,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    answer = json.loads(example)
    assert schemas.SearchAnswer.model_validate(answer).model_dump() == answer


def test_segment(client: TestClient) -> None:
    answer = ask(client, "/segment", texts=["a bench", ""], threshold=0.0)
    words = [{"start": 0, "end": 1, "text": "a", "score": 0.75}, {"start": 2, "end": 7, "text": "bench", "score": 0.75}]
    assert answer == {"phrases": [words, []]}
    assert "texts: 65 items" in refused(client, "/segment", 413, "too_long", texts=["a"] * 65)
    assert "25,000 characters in all" in refused(client, "/segment", 413, "too_long", texts=["a" * 5000] * 5)


def test_more_phrases_than_an_answer_holds() -> None:
    spans = [Span(0, 1, 0.5)] * 3
    limit_spans([spans, spans], Settings(spans=6))
    with pytest.raises(Refusal, match="6 phrases; expected at most 5: raise the threshold") as caught:
        limit_spans([spans, spans], Settings(spans=5))
    assert caught.value.code == "too_long"


def test_encode(client: TestClient, model: FakeModel) -> None:
    answer = ask(client, "/encode", queries=["eine [[Bank]]", "keine", "[[a]] [[b]]"], sentences=["Ja."])
    assert [(row["query"], row["phrase"], row["start"]) for row in answer["phrases"]] == [
        (0, "Bank", 5),
        (2, "a", 0),
        (2, "b", 2),
    ]
    assert np.array_equal(np.array(answer["phrases"][0]["vector"], np.float32), vector_of("Bank", 16))  # to the bit
    assert np.array_equal(np.array(answer["sentences"][0], np.float32), vector_of("Ja.", 16))
    assert (answer["model"], answer["model_hash"]) == ("fake", model.hash)
    assert ask(client, "/encode")["phrases"] == []


def test_encode_has_the_limits_of_phrases(client: TestClient) -> None:
    """Of 20,000 characters that mark one each there would be 30 MB of vectors."""
    query = "[[a]] " * 64
    assert client.post(API + "/encode", json={"queries": [query] * 15}).status_code == 200
    refused(client, "/encode", 413, "too_long", queries=[query + "[[a]]"])
    assert "1,024 phrases in all" in refused(client, "/encode", 413, "too_long", queries=[query] * 16)


def test_an_answer_holds_so_many_sentences(client: TestClient) -> None:
    query = "[[bank]] " * 5
    assert client.post(API + "/search", json={"query": query[:-9], "k": 100, "contexts": 50}).status_code == 200
    assert "20,000 sentences in all" in refused(client, "/search", 413, "too_long", query=query, k=100, contexts=50)
    files = {"file": ("a.txt", b"The bank.")}
    answer = client.post(API + "/terms", files=files, data={"most": "500", "k": "100", "contexts": "0"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_long")


@pytest.mark.parametrize("pooling", ["mean", "head"])
def test_phrases_by_portions_are_answered_as_all_at_once(
    client: TestClient, library: Library, model: FakeModel, pooling: str
) -> None:
    model.pooling = pooling
    query = " ".join(f"[[{word}]]" for word in ["bank", "loan", "bench", "park", "minute"] * 4)
    with library.use() as searcher:
        expected = [result.as_dict() for result in searcher.search_all([query], 3, 2)]
    results = client.post(API + "/search", json={"query": query, "k": 3, "contexts": 2}).json()["results"]
    assert len(results) > 2 * AT_ONCE
    assert results == expected


@pytest.mark.parametrize("item", ["0", "{}", '""'])
def test_items_are_counted_before_they_are_looked_at(client: TestClient, item: str) -> None:
    """300,000 wrong ones were as many errors, 400 MB of them, and for two seconds nothing else was answered."""
    body = f'{{"texts": [{",".join([item] * 300_000)}]}}'
    start = time.process_time()
    answer = client.post(API + "/segment", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_long")
    assert time.process_time() - start < 1.5
    many = {f"field-{number}": 0 for number in range(50)}
    assert "50 fields" in refused(client, "/segment", 422, "invalid", **many)


def test_mine_finds_mates(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that takes two sentences for one: they are found, whatever their places, and a copy is none."""
    mates = {"Es regnet in Hamburg.": "It rains in that town.", "Der Zug kommt.": "The train arrives now."}

    def encode_sentences(self: FakeModel, texts: Sequence[str], layer: int | None = None) -> np.ndarray:
        return np.stack([vector_of(mates.get(text, text), self.dim) for text in texts])

    monkeypatch.setattr(FakeModel, "encode_sentences", encode_sentences)
    source = ["Ein Satz allein.", *mates, "One thing here."]
    target = ["One thing here.", "The train arrives now.", "Nobody else.", "It rains in that town."]
    answer = ask(client, "/mine", source=source, target=target, threshold=0.3)
    assert sorted((pair["source"], pair["target"]) for pair in answer["pairs"]) == [(1, 3), (2, 1)]
    assert [pair["cosine"] for pair in answer["pairs"]] == pytest.approx([1, 1], abs=1e-3)  # 16-bit vectors
    assert answer["threshold"] == 0.3
    assert "source: 201 items" in refused(client, "/mine", 413, "too_long", source=["a"] * 201, target=[])
    none = refused(client, "/mine", 422, "invalid", source=["!"], target=target)
    assert none == "source: none of 1 sentences can be used; check the text and source_language"


def test_indexes(client: TestClient, model: FakeModel) -> None:
    (facts,) = client.get(API + "/indexes").json()["indexes"]
    assert (facts["name"], facts["documents"], facts["sentences"]) == ("idx", 1, 3)
    assert (facts["languages"], facts["model_hash"]) == ({"en": 1}, model.hash)


def test_an_index_that_is_gone_does_not_hide_the_others(
    tmp_path: Path, model: FakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("phrasemate.server.indexes.CHECK_SECONDS", 0.0)
    library = Library([make_index(tmp_path / name, model) for name in "ab"], threads=1, model=model)
    with TestClient(create_app(library), base_url="http://localhost") as client:
        shutil.rmtree(tmp_path / "a")
        first, second = client.get(API + "/indexes").json()["indexes"]
    assert (first["name"], first["sentences"], first["problem"]) == (
        "a",
        0,
        "the index cannot be used just now; the server's log says why",
    )
    assert (second["name"], second["sentences"], second["problem"]) == ("b", 3, "")


def test_health_and_metrics(client: TestClient) -> None:
    assert client.get("/health").json() == {"status": "ok", "version": __version__, "indexes": ["idx"]}
    ask(client, "/search", query="[[bank]]")
    refused(client, "/search", 422, "invalid", query="[[")
    client.get("/nowhere/at/all")
    client.request("BREW", "/health")
    text = client.get("/metrics").text
    for line in (
        'phrasemate_requests_total{method="POST",route="/api/v1/search",status="200"} 1.0',
        'phrasemate_requests_total{method="POST",route="/api/v1/search",status="422"} 1.0',
        'phrasemate_requests_total{method="GET",route="other",status="404"} 1.0',
        'phrasemate_requests_total{method="other",route="/health",status="405"} 1.0',
        "phrasemate_encoder_passes_total 1.0",
    ):
        assert line in text
    assert "at/all" not in text  # or a client could fill the memory with names


def test_what_is_nowhere_is_json_for_programs(client: TestClient) -> None:
    answer = client.get(API + "/nothing")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
    answer = client.get(API + "/search")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert answer.json()["error"]["code"] == "method_not_allowed"


def test_an_error_that_nobody_foresaw_says_nothing(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("a secret")

    monkeypatch.setattr(Searcher, "search_phrases", broken)
    assert "secret" not in refused(client, "/search", 500, "internal", query="[[bank]]")
    assert client.get("/health").status_code == 200


def test_terms_of_an_upload(client: TestClient) -> None:
    text = "Die Bank gab der Bank einen Kredit. Der Kredit war klein."
    files = {"file": ("../../etc/report.txt", text.encode())}
    data = {"most": "3", "k": "1", "contexts": "1", "language": "de"}
    answer = client.post(API + "/terms", files=files, data=data)
    assert answer.status_code == 200, answer.text
    result = schemas.TermsAnswer.model_validate(answer.json())
    assert len(result.terms) == 3
    counts = {term.text: term.count for term in result.terms}
    assert counts == {"Bank": 2, "Kredit": 2, "klein": 1}  # no article
    assert {place.document for term in result.terms for place in term.places} == {"document"}


def test_the_language_of_an_upload_says_which_forms_are_one_term(client: TestClient) -> None:
    files = {"file": ("a.txt", b"Kredit. Kredite.")}  # too short for a guess
    counts = []
    for data in ({"language": "de"}, {"language": "ja"}):
        answer = client.post(API + "/terms", files=files, data=data)
        assert answer.status_code == 200, answer.text
        counts.append([term["count"] for term in answer.json()["terms"]])
    assert counts == [[2], [1, 1]]


def test_an_upload_may_be_any_document_that_is_read(client: TestClient) -> None:
    from phrasemate.text.corpus import SUFFIXES as READABLE

    unit = "<source>Die Bank gab der Bank Geld.</source><target>The bank gave the bank money.</target>"
    text = f'<xliff version="1.2"><file source-language="de" target-language="en"><body><trans-unit id="1">{unit}'
    content = (text + "</trans-unit></body></file></xliff>").encode()
    answer = client.post(API + "/terms", files={"file": ("a.sdlxliff", content)}, data={"most": "1", "language": "de"})
    assert answer.status_code == 200, answer.text
    assert [(term["text"], term["count"]) for term in answer.json()["terms"]] == [("Bank", 2)]
    refused = client.post(API + "/terms", files={"file": ("a.txt.gz", b"")}).json()["error"]["message"]
    assert refused == f"a file named .gz; expected one of: {', '.join(sorted(name[1:] for name in READABLE))}"


@pytest.mark.parametrize(
    ("name", "content", "data", "status", "message"),
    [
        ("a.exe", b"x", {}, 415, "a file named .exe"),
        ("noname", b"x", {}, 415, "a file named .noname"),
        ("a.txt", b"\xff\xfex\0", {}, 422, "the document: begins with the byte-order mark of UTF-16"),
        ("a.docx", b"PK\3\4", {}, 422, "the document: not a ZIP archive"),
        ("a.txt", b"Bank. " * 90_000, {}, 413, "the document has more than 400,000 characters"),
        ("a.tmx", TWO_LANGUAGES, {}, 422, "languages (de, en); expected one; choose one as its language"),
        ("a.tmx", TWO_LANGUAGES, {"language": "fr"}, 422, "are de, en; choose one of them as its language"),
        ("a.txt", b"Bank.", {"most": "501"}, 422, "most: expected at most 500"),
        ("a.txt", b"Bank.", {"most": "NaN"}, 422, "most: expected a whole number"),
        ("a.txt", b"Bank.", {"path": "/etc"}, 422, "unknown field 'path'"),
        ("a.txt", b"Bank.", {"k": ["1", "2"]}, 422, "k: is given twice"),
        ("a.txt", b"Bank.", {"language": "german"}, 422, "language 'german'; expected a code such as de or zh-Hant"),
    ],
)
def test_what_terms_refuses(
    client: TestClient, name: str, content: bytes, data: Any, status: int, message: str
) -> None:
    answer = client.post(API + "/terms", files={"file": (name, content)}, data=data)
    assert answer.status_code == status
    assert message in answer.json()["error"]["message"]
    assert "/tmp" not in answer.text


def test_the_description_has_the_limits_and_nothing_from_elsewhere(client: TestClient) -> None:
    described = client.get("/openapi.json").json()
    assert sorted(described["paths"]) == sorted(PATHS)
    body = described["paths"][API + "/search"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body["properties"]["query"]["maxLength"] == 5000
    assert body["properties"]["k"]["maximum"] == 100
    assert client.get("/docs").status_code == client.get("/redoc").status_code == 404


def test_errors_are_described_as_json_everywhere(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    operations = [operation for path in paths.values() for operation in path.values()]
    errors = [answer for one in operations for status, answer in one["responses"].items() if status != "200"]
    assert {kind for error in errors for kind in error["content"]} == {"application/json"}
    assert set(paths["/metrics"]["get"]["responses"]["200"]["content"]) == {"text/plain"}


def test_the_description_says_where_a_token_is_sent(library: Library) -> None:
    token = "a-token-of-24-characters"
    client = TestClient(create_app(library, access=access_for("127.0.0.1", token)), base_url="http://localhost")
    described = client.get("/openapi.json", headers={"Authorization": f"Bearer {token}"}).json()
    (name,) = described["security"][0]
    assert described["components"]["securitySchemes"][name] == {"type": "http", "scheme": "bearer"}
    for path, methods in described["paths"].items():
        ((method, operation),) = methods.items()
        refuses = client.request(method, path).status_code == 401
        assert refuses == bool(operation.get("security", described["security"])), path
    assert "security" not in TestClient(create_app(library), base_url="http://localhost").get("/openapi.json").json()


def test_the_description_has_the_numbers_of_a_unit(client: TestClient) -> None:
    parameters = client.get("/openapi.json").json()["paths"][UNIT]["get"]["parameters"]
    numbers = {one["name"]: one["schema"] for one in parameters if one["in"] == "query"}
    assert set(numbers) == {"min_similarity", "max_candidates"}
    units = client.get("/tmserver/de/en/unit/bank").json()
    defaults = {name: schema["default"] for name, schema in numbers.items()}
    assert units == client.get("/tmserver/de/en/unit/bank", params=defaults).json() != []
    for name, schema in numbers.items():
        for number, status in ((schema["minimum"], 200), (schema["maximum"], 200), (schema["maximum"] + 1, 422)):
            assert client.get(f"/tmserver/de/en/unit/bank?{name}={number}").status_code == status
