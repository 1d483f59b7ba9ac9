"""What translation tools ask for, asked as they ask."""

from __future__ import annotations

import html
import re
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient
from server_fakes import TEXTS, FakeModel, make_index

from phrasemate.errors import InputError
from phrasemate.glossary import FORMATS, Entry, Glossary
from phrasemate.server.api import spoken, units
from phrasemate.server.app import access_for, create_app
from phrasemate.server.indexes import Library
from phrasemate.server.middleware import Access
from phrasemate.server.settings import Settings, public_settings

SUGGEST = "/api/v1/suggest"
SECRET = "correct horse battery"
TOOL = "https://tool.example"
HERE = "http://localhost:8000"


def suggest(client: TestClient, **body: Any) -> Any:
    answer = client.post(SUGGEST, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_suggestions_with_their_evidence(client: TestClient) -> None:
    answer = suggest(client, text="bank", k=2)
    assert (answer["index"], answer["text"]) == ("idx", "bank")
    (phrase,) = answer["phrases"]
    assert (phrase["phrase"], phrase["start"], phrase["end"]) == ("bank", 0, 4)
    best = phrase["suggestions"][0]
    assert (best["text"], best["quality"], best["source"], best["language"]) == ("bank", 100, "index", "en")
    assert (best["example"], best["document"], best["line"]) == (TEXTS[0], "english.txt", 1)
    assert len(phrase["suggestions"]) == 2


def test_marks_choose_the_phrases_of_a_segment(client: TestClient) -> None:
    answer = suggest(client, text="Die [[bank]] und die [[loan]] am Ende.", k=1)
    assert [phrase["suggestions"][0]["text"] for phrase in answer["phrases"]] == ["bank", "loan"]


@pytest.mark.parametrize("head", ["", "Guten Tag, Frau Weber. ", "Zeile\n\n"])
def test_the_places_of_phrases_are_those_in_the_segment(client: TestClient, head: str) -> None:
    text = f"{head}Der Minister trat gestern zurück."
    phrases = suggest(client, text=text, k=1)["phrases"]
    places = {phrase["phrase"]: text[phrase["start"] : phrase["end"]] for phrase in phrases}
    assert {name: text_there for name, text_there in places.items() if name != text_there} == {"zurücktreten": "trat"}
    assert {"Minister", "gestern"} < set(places)
    (particle,) = (phrase["particle"] for phrase in phrases if phrase["particle"])
    assert text[particle["start"] : particle["end"]] == "zurück"


def test_the_glossary_comes_first_and_deprecated_entries_do_not_come(library: Library) -> None:
    glossary = Glossary()
    for entry in (
        Entry("bank", "shore", "de", "en", "admitted"),
        Entry("Bank", "lender", "de", "en-GB", note="of money"),
        Entry("bank", "bench", "de", "en", "deprecated"),
        Entry("bank", "banque", "de", "fr"),
    ):
        glossary.add(entry)
    with TestClient(create_app(library, glossary=glossary), base_url=HERE) as client:
        (phrase,) = suggest(client, text="bank", target_language="en", k=3)["phrases"]
    rows = [(row["text"], row["quality"], row["source"], row["note"]) for row in phrase["suggestions"]]
    assert rows == [
        ("lender", 100, "glossary", "of money"),
        ("shore", 95, "glossary", ""),
        ("bank", 100, "index", ""),
    ]


def test_a_language_that_no_document_has_gives_nothing(client: TestClient) -> None:
    assert suggest(client, text="bank", target_language="fr")["phrases"] == []


def test_tags_of_languages() -> None:
    assert spoken("en_gb", ["en", "de", "en-US"]) == ["en", "en-US"]
    assert spoken("en-us", ["en", "en_US"]) == ["en_US"]
    assert spoken("", ["en", "de"]) == ["en", "de"]


def test_the_server_of_a_translation_memory(client: TestClient) -> None:
    languages = client.get("/tmserver/languages/").json()
    assert languages["targetLanguages"] == ["en"]
    assert {"de", "ja"} < set(languages["sourceLanguages"])
    (first, *rest) = client.get("/tmserver/de/en/unit/bank?max_candidates=2").json()
    assert first == {"source": "bank", "target": "bank", "quality": 100, "rank": 100}
    assert len(rest) == 1
    assert client.get("/tmserver/de/en_us/unit/bank?min_similarity=100").json() == [first]
    assert client.get("/tmserver/de/fr/unit/bank").json() == []


def test_what_several_indexes_give_comes_once() -> None:
    answer = {"phrase": "Bank", "suggestions": [{"text": "bench", "quality": 40}, {"text": "bank", "quality": 20}]}
    other = {"phrase": "Bank", "suggestions": [{"text": "Bank", "quality": 90}]}
    rows = [(row["target"], row["quality"]) for row in units("Bank", [answer, other], 0)]
    assert rows == [("Bank", 90), ("bench", 40)]


def test_a_part_of_a_segment_has_the_quality_of_its_share(client: TestClient) -> None:
    text = "Die [[bank]] und/oder ABC"
    units = client.get(f"/tmserver/de/en/unit/{quote(text, safe='')}").json()
    letters = len("Die" + "[[bank]]".strip("[]") + "und" + "oder" + "ABC")
    assert (units[0]["source"], units[0]["quality"]) == ("bank", 100 * len("bank") // letters)


def test_a_segment_may_have_several_lines(client: TestClient) -> None:
    units = client.get("/tmserver/de/en/unit/[[bank]]%0Ain/two%0A").json()
    assert units[0]["target"] == "bank"


@pytest.mark.parametrize("query", ["min_similarity=x", "max_candidates=-1", "max_candidates=1234567890"])
def test_numbers_of_a_memory_are_checked(client: TestClient, query: str) -> None:
    answer = client.get(f"/tmserver/de/en/unit/bank?{query}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid")


def test_a_segment_of_a_memory_has_a_length(library: Library) -> None:
    settings = Settings(characters=20)
    with TestClient(create_app(library, settings), base_url=HERE) as client:
        assert client.get(f"/tmserver/de/en/unit/{'bank ' * 4}").status_code == 200
        answer = client.get(f"/tmserver/de/en/unit/{'x' * 21}")
    error = answer.json()["error"]
    assert (answer.status_code, error["message"]) == (413, "text: 21 characters; expected at most 20")


def test_an_index_that_is_gone_does_not_hide_the_suggestions_of_others(
    tmp_path: Path, model: FakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("phrasemate.server.indexes.CHECK_SECONDS", 0.0)
    library = Library([make_index(tmp_path / name, model) for name in "ab"], threads=1, model=model)
    with TestClient(create_app(library), base_url=HERE) as client:
        before = client.get("/tmserver/de/en/unit/bank?max_candidates=1").json()
        shutil.rmtree(tmp_path / "a")
        assert client.get("/tmserver/de/en/unit/bank?max_candidates=1").json() == before != []
        shutil.rmtree(tmp_path / "b")
        assert client.get("/tmserver/de/en/unit/bank?max_candidates=1").json() == []


# -- the glossary, as the script of the page asks


def change(client: TestClient, **fields: str) -> Any:
    files = {name: (None, value) for name, value in fields.items()}
    return client.post("/glossary", files=files, headers={"Accept": "application/json"})


def test_changes_of_the_glossary_are_answered_with_what_they_made(client: TestClient) -> None:
    first = change(client, action="add", source="Bank", target="bank").json()
    second = change(client, action="add", source="Bank", target="bench").json()
    assert (first["entries"], first["conflicts"]) == (1, [])
    assert (second["entries"], second["conflicts"]) == (2, ["bank"])
    changed = change(client, action="change", id=str(second["id"]), status="admitted").json()
    assert (changed["id"], changed["conflicts"]) == (second["id"], [])
    assert change(client, action="remove", id=str(first["id"])).json()["entries"] == 1
    assert change(client, action="undo").json() == {"id": 0, "added": False, "entries": 2, "conflicts": []}


def test_only_what_was_added_is_said_to_be(client: TestClient) -> None:
    """The script offers to remove that, and nothing where the pair was there already."""
    answers = [change(client, action="add", source=source, target="x").json() for source in ("Bank", "Haus", "Bank")]
    assert [answer["added"] for answer in answers] == [True, True, False]
    assert answers[2]["id"] == answers[0]["id"]


def test_a_long_sentence_is_kept_around_its_phrase(client: TestClient) -> None:
    context, example = "a " * 1500 + "Bank" + " b" * 800, "bench" + " c" * 1500
    assert change(client, action="add", source="Bank", target="bench", context=context, example=example).json()["added"]
    text = html.unescape(client.get("/glossary/multiterm").text)
    sentences = re.findall('<descrip type="Context">(.*?)</descrip>', text)
    assert [len(sentence) for sentence in sentences] == [2_000, 2_000]
    assert "Bank" in sentences[0]
    assert sentences[1].startswith("bench")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"action": "burn"}, "action 'burn'; expected add, change, remove or undo"),
        ({"action": "remove", "id": "-1"}, "the number of an entry was expected"),
        ({"action": "change", "id": "1" * 10}, "the number of an entry was expected"),
    ],
)
def test_what_the_glossary_refuses(client: TestClient, fields: dict[str, str], message: str) -> None:
    """The script gets an error, a browser without scripts the page that says so."""
    answer = change(client, **fields)
    assert (answer.status_code, answer.json()["error"]["message"]) == (422, message)
    page = client.post("/glossary", files={name: (None, value) for name, value in fields.items()})
    assert page.status_code == 422
    assert message.lower() in html.unescape(page.text).lower()  # there it is a sentence
    assert "0 entries" in page.text


def test_a_glossary_that_cannot_be_saved_is_a_fault_of_the_server(
    library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Not of the query: the status is one to raise an alarm, and the log has the reason."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("phrasemate.glossary.atomic_file", refuse)
    with TestClient(create_app(library, glossary=Glossary(tmp_path / "terms.jsonl")), base_url=HERE) as client:
        answer = change(client, action="add", source="Bank", target="bench")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        message = "the glossary cannot be saved: No space left on device"
        assert answer.json()["error"] == {"status": 503, "code": "glossary_unusable", "message": message}
        page = client.post("/glossary", files={"action": (None, "add"), "source": (None, "a"), "target": (None, "b")})
        assert (page.status_code, page.headers["retry-after"]) == (503, "5")
        assert "The glossary cannot be used" in page.text
        assert message in caplog.text


def test_a_glossary_that_cannot_be_read_is_a_fault_of_the_server(
    library: Library, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "terms.jsonl"
    with TestClient(create_app(library, glossary=Glossary(path)), base_url=HERE) as client:
        path.write_text("no entry\n", "utf-8")
        answers = [client.get("/glossary"), client.get("/?q=bank"), client.post(SUGGEST, json={"text": "bank"})]
        assert [answer.status_code for answer in answers] == [503] * 3
        assert not any(str(tmp_path) in answer.text for answer in answers)
        assert answers[2].json()["error"]["code"] == "glossary_unusable"
        assert f"{path}, line 1: not an entry of a glossary" in caplog.text


def test_a_format_that_no_glossary_has(client: TestClient) -> None:
    answer = client.get("/glossary/exe")
    assert (answer.status_code, "There is nothing here" in answer.text) == (404, True)


@pytest.mark.parametrize("format_", FORMATS)
def test_each_format_has_a_registered_type(client: TestClient, format_: str) -> None:
    expected = {"txt": "text/plain", "xml": "application/xml", "csv": "text/csv"}
    expected |= {"tbx": "application/x-tbx+xml", "tmx": "application/x-tmx+xml"}
    kind = client.get(f"/glossary/{format_}").headers["content-type"].partition(";")[0]
    assert kind == expected[FORMATS[format_][0]]


def test_other_sites_ask_with_the_token_where_they_are_allowed(library: Library) -> None:
    access = Access(SECRET, ("localhost",), (TOOL,))
    with TestClient(create_app(library, access=access), base_url=HERE) as client:
        preflight = {"Origin": TOOL, "Access-Control-Request-Method": "POST", "Sec-Fetch-Site": "cross-site"}
        before = client.options(SUGGEST, headers=preflight)
        assert before.status_code == 204
        assert before.headers["access-control-allow-origin"] == TOOL
        assert "authorization" in before.headers["access-control-allow-headers"]
        authorised = {**preflight, "Authorization": f"Bearer {SECRET}"}
        answer = client.post(SUGGEST, json={"text": "bank"}, headers=authorised)
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, TOOL)
        refused = client.post(SUGGEST, json={"text": "bank"}, headers=preflight)
        assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, TOOL)
        stranger = client.post(SUGGEST, json={"text": "bank"}, headers={**authorised, "Origin": "https://evil.example"})
        assert stranger.status_code == 403
        assert "access-control-allow-origin" not in stranger.headers
        page = client.post("/glossary", files={"action": (None, "undo")}, headers=authorised)
        assert page.status_code == 403


def test_origins_need_a_token_and_have_no_path() -> None:
    assert access_for("127.0.0.1", SECRET, (), ("https://Tool.example", "chrome-extension://abc")).origins == (
        TOOL,
        "chrome-extension://abc",
    )
    with pytest.raises(InputError, match="with a token only"):
        access_for("127.0.0.1", "", (), (TOOL,))
    with pytest.raises(InputError, match="without a path"):
        access_for("127.0.0.1", SECRET, (), (TOOL + "/page",))


def test_a_public_demo_keeps_nothing(library: Library) -> None:
    access = access_for("192.0.2.7", "", public=True)
    application = create_app(library, public_settings(), access)
    with TestClient(application, base_url="http://demo.example") as client:
        assert client.get("/?q=bank").status_code == 200
        assert suggest(client, text="bank")["phrases"]
        refused = [
            client.post("/glossary", files={"action": (None, "undo")}),
            client.get("/document"),
            client.post("/api/v1/terms", files={"file": ("a.txt", b"a bank")}),
            client.post("/api/v1/mine", json={"source": ["a"], "target": ["b"]}),
            client.post("/api/v1/reload"),  # everybody could make it open all indexes again, and again
        ]
        assert [answer.status_code for answer in refused] == [403] * 5
        assert refused[3].json()["error"]["code"] == "closed"
        assert client.post(SUGGEST, json={"text": "x" * 1001}).status_code == 413
        page = client.get("/?q=bank").text
        assert 'href="/document"' not in page
        assert 'class="use' not in page


def test_a_method_that_an_address_has_not_is_refused_with_all_that_it_has(client: TestClient) -> None:
    answer = client.delete("/glossary")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD, POST")
