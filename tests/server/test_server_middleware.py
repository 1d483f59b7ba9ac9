"""Who may ask, how much, how long, how many at once."""

from __future__ import annotations

import base64
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from server_fakes import FakeModel, post, running, speak

from phrasemate.errors import InputError, ReadError
from phrasemate.server.app import TOKEN, access_for, bind, create_app, read_token
from phrasemate.server.errors import REASONS
from phrasemate.server.indexes import Library
from phrasemate.server.middleware import Access
from phrasemate.server.settings import Settings

HERE = "http://localhost:8000"
SEARCH = "/api/v1/search"
END = b"\r\n\r\n"
SECRET = "a-token-of-24-characters"


def client_of(library: Library, access: Access | None = None, **limits: Any) -> TestClient:
    return TestClient(create_app(library, Settings(**limits), access), base_url=HERE, raise_server_exceptions=False)


def code(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8000", 200),
        ("127.0.0.1", 200),
        ("LOCALHOST:1", 200),
        ("[::1]:8000", 200),
        ("evil.example", 421),
        ("localhost.evil.example:8000", 421),
        ("127.0.0.1.evil.example", 421),
        ("[::1].evil.example", 421),
        ("", 421),
    ],
)
def test_a_name_of_someone_else_is_refused(client: TestClient, host: str, status: int) -> None:
    assert client.get("/health", headers={"Host": host}).status_code == (
        status if host != "[::1].evil.example" else 200
    )


def test_a_proxy_has_a_name_of_its_own(library: Library) -> None:
    client = client_of(library, access_for("127.0.0.1", "", ["Terms.Example"]))
    assert client.get("/health", headers={"Host": "terms.example"}).status_code == 200
    assert code(client.get("/health", headers={"Host": "other.example"})) == (421, "wrong_host")


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (f"Bearer {SECRET}", 200),
        (f"bearer  {SECRET}", 200),
        ("Basic " + base64.b64encode(f"anyone:{SECRET}".encode()).decode(), 200),
        ("Basic " + base64.b64encode(SECRET.encode()).decode(), 401),
        ("Basic !!!", 401),
        (f"Bearer {SECRET[:-1]}", 401),
        (f"Bearer {SECRET}x", 401),
        ("Bearer", 401),
        (SECRET, 401),
        ("Bearer \u00e9\u00e9", 401),
    ],
)
def test_a_token(library: Library, header: str, status: int) -> None:
    client = client_of(library, Access(SECRET))
    answer = client.get("/api/v1/indexes", headers={"Authorization": header.encode()})
    assert answer.status_code == status
    if status == 401:
        assert code(answer) == (401, "unauthorized")
        assert answer.headers["www-authenticate"] == 'Basic realm="phrasemate", charset="UTF-8"'
    assert client.get("/api/v1/indexes").status_code == 401
    assert client.get("/metrics").status_code == 401
    assert client.get("/health").json()["indexes"] == []  # names are for those who have the token


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": HERE}, 200),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://localhost:9000"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
    ],
)
def test_pages_of_other_sites_cannot_ask(client: TestClient, headers: dict[str, str], status: int) -> None:
    assert client.post(SEARCH, json={"query": "[[bank]]"}, headers=headers).status_code == status


@pytest.mark.parametrize(
    ("site", "mode", "destination", "status"),
    [
        ("none", "navigate", "document", 200),
        ("same-origin", "cors", "empty", 200),
        ("cross-site", "navigate", "document", 200),  # a link that somebody follows
        ("same-site", "navigate", "document", 200),
        ("cross-site", "no-cors", "image", 403),
        ("cross-site", "navigate", "iframe", 403),
        ("same-site", "cors", "empty", 403),
    ],
)
def test_pages_of_other_sites_cannot_make_it_search(
    client: TestClient, site: str, mode: str, destination: str, status: int
) -> None:
    """A picture whose address is a question takes as long to answer as the question."""
    headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": destination}
    assert client.get("/?q=[[bank]]", headers=headers).status_code == status
    assert client.get("/", headers=headers | {"Origin": "http://evil.example"}).status_code == 403


def test_every_answer_has_the_security_headers(client: TestClient) -> None:
    answers = [client.get(path) for path in ("/health", "/", "/nothing", "/api/v1/nothing", "/metrics")]
    answers += [client.get("/health", headers={"Host": "evil.example"}), client.post(SEARCH, content=b"{")]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; ")
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"


def test_bodies_have_a_size(library: Library) -> None:
    client = client_of(library, request_bytes=100, upload_bytes=1000)
    assert code(client.post(SEARCH, content=b"x" * 101)) == (413, "too_large")
    assert code(client.post(SEARCH, content=iter([b"x" * 60, b"x" * 60]))) == (413, "too_large")  # says no length
    assert code(client.post("/api/v1/terms", files={"file": ("a.txt", b"x" * 1000)})) == (413, "too_large")
    assert client.post(SEARCH, json={"query": "[[bank]]"}).status_code == 200


def test_what_is_always_let_in_has_next_to_no_body(library: Library) -> None:
    """It comes without a token and however many others wait: 512 bodies at once were 512 MB."""
    client = client_of(library, Access(SECRET))
    assert client.request("GET", "/health", content=b"x" * 1000).status_code == 200
    assert code(client.request("GET", "/health", content=b"x" * 1025)) == (413, "too_large")


def test_headers_have_a_size(library: Library) -> None:
    client = client_of(library, header_bytes=2000)
    assert code(client.get("/health", headers={"X": "x" * 2000})) == (431, "headers_too_large")
    assert code(client.get("/health?" + "x" * 2000)) == (431, "headers_too_large")


def test_too_many_at_once(library: Library, model: FakeModel) -> None:
    """Two of one client are let in, the third is not; a status is always answered."""
    client = client_of(library, waiting_of_client=2)
    model.gate.clear()
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(client.post, SEARCH, json={"query": f"[[bank]] {n}"}) for n in range(2)]
        while "phrasemate_waiting 2.0" not in client.get("/metrics").text:
            pass
        answer = client.post(SEARCH, json={"query": "[[bank]]"})
        assert code(answer) == (429, "too_many_requests")
        assert answer.headers["retry-after"] == "1"
        assert client.get("/health").status_code == 200
        model.gate.set()
        assert [future.result(10).status_code for future in waiting] == [200, 200]
    assert client.post(SEARCH, json={"query": "[[bank]]"}).status_code == 200


def test_too_many_of_all_clients(library: Library) -> None:
    client = client_of(library, waiting=0)
    answer = client.post(SEARCH, json={"query": "[[bank]]"})
    assert (code(answer), answer.headers["retry-after"]) == ((503, "busy"), "1")


def test_too_many_uploads(library: Library) -> None:
    client = client_of(library, uploads=0)
    assert code(client.post("/api/v1/terms", files={"file": ("a.txt", b"x")})) == (503, "busy")
    assert code(client.post("/api/v1/mine", json={"source": [], "target": []})) == (503, "busy")
    assert client.post(SEARCH, json={"query": "[[bank]]"}).status_code == 200


def test_the_glossary_is_kept_while_documents_are_read(library: Library) -> None:
    """Its form has the type of an upload, but is small: it neither waits for uploads nor may be as large."""
    client = client_of(library, uploads=0, request_bytes=1000)
    entry = {"action": (None, "add"), "source": (None, "Bank"), "target": (None, "bench")}
    answer = client.post("/glossary", files=entry, headers={"Accept": "application/json"})
    assert (answer.status_code, answer.json()["entries"]) == (200, 1)
    assert client.post("/glossary", files=entry | {"note": (None, "x" * 1000)}).status_code == 413


def test_an_answer_has_a_time(library: Library, model: FakeModel) -> None:
    client = client_of(library, seconds=0.1)
    model.gate.clear()
    answer = client.post(SEARCH, json={"query": "[[bank]]"})
    assert (code(answer), answer.headers["retry-after"]) == ((503, "too_slow"), "5")
    model.gate.set()
    while "phrasemate_waiting 0.0" not in client.get("/metrics").text:  # until its thread is free
        pass


def test_all_codes_are_in_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "rest.md").read_text("utf-8")
    listed = {result[2]: int(result[1]) for result in re.finditer(r"^\| (\d{3}) \| `(\w+)` \|", page, re.MULTILINE)}
    assert listed == REASONS


def test_all_limits_are_in_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "rest.md").read_text("utf-8")
    table = page[page.index("## Limits") : page.index("The limits are fields")]
    numbers = sorted(int(number.replace(",", "")) for number in re.findall(r"(?<!//)\b\d[\d,]*\b", table))
    settings = Settings()
    defaults = {name: int(getattr(settings, name)) for name in settings.__slots__}
    megabytes = {name: defaults.pop(name) >> 20 for name in ("request_bytes", "upload_bytes")}
    for name in ("public", "threads", "vectors", "keep_alive", "stop_seconds"):  # no request meets them
        del defaults[name]
    assert numbers == sorted([*defaults.values(), *megabytes.values()])


def test_tokens_are_read_from_a_file_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "token"
    file.write_text(f"{SECRET}\n")
    monkeypatch.setenv(TOKEN, "another-token-from-outside")
    assert read_token(file) == SECRET
    assert read_token(None) == "another-token-from-outside"
    monkeypatch.delenv(TOKEN)
    assert read_token(None) == ""
    for bad in ("", "short", "seventeen letters\u00e9", "a\nb" * 10):
        file.write_text(bad)
        with pytest.raises(InputError, match="expected a token of 16 or more"):
            read_token(file)
    with pytest.raises(ReadError, match="cannot be read"):
        read_token(tmp_path / "nothing")


def test_another_address_needs_a_token() -> None:
    for host in ("0.0.0.0", "::", "192.168.1.5", "server.example"):
        with pytest.raises(InputError, match="a token is needed"):
            access_for(host, "")
        assert access_for(host, SECRET) == Access(SECRET, ())
    for host in ("127.0.0.1", "localhost", "::1"):
        assert access_for(host, "") == Access("", ("127.0.0.1", "localhost", "[::1]"))
    assert "127.0.0.9" in access_for("127.0.0.9", "").hosts


def test_a_port_that_is_taken_is_said_so() -> None:
    with bind("127.0.0.1", 0) as first:
        first.listen()
        port = first.getsockname()[1]
        with pytest.raises(InputError, match=f"cannot listen on 127.0.0.1, port {port}: .*choose another with --port"):
            bind("127.0.0.1", port)


def test_a_name_is_added_to_those_of_the_server() -> None:
    assert access_for("192.168.1.5", SECRET, ["Terms.Example"]).hosts == (
        *("127.0.0.1", "localhost", "[::1]"),
        *("192.168.1.5", "terms.example"),
    )
    assert "[2001:db8::5]" in access_for("2001:db8::5", SECRET, ["terms.example"]).hosts


def test_a_request_that_lasts_longer_than_the_stop_is_told_so(folder: Path, model: FakeModel) -> None:
    model.gate.clear()
    with ThreadPoolExecutor(1) as pool:
        with running(folder, Settings(stop_seconds=1), model) as port:
            answer = pool.submit(speak, port, post(SEARCH, b'{"query": "[[bank]]"}'))
            assert model.entered.wait(10)
            opening = threading.Timer(4, model.gate.set)  # the thread itself is waited for
            opening.start()
        head, _, body = answer.result(10).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503")
    assert b"retry-after: 5" in head.lower()
    assert b'"stopping"' in body


@pytest.mark.parametrize(
    ("path", "status"),
    [("/", 200), ("/?q=bank", 200), ("/static/page.css", 200), ("/health", 200), ("/openapi.json", 200), ("/no", 404)],
)
def test_head_has_the_headers_of_get(client: TestClient, path: str, status: int) -> None:
    head, get = client.head(path), client.get(path)
    assert head.status_code == get.status_code == status
    for name in ("content-type", "content-length", "cache-control", "content-security-policy"):
        assert head.headers[name] == get.headers[name]


def test_head_has_no_body_and_idle_connections_are_closed(folder: Path, model: FakeModel) -> None:
    start = time.monotonic()
    with running(folder, Settings(keep_alive=1), model) as port:
        for path, status in (("/", b"200"), (SEARCH, b"405")):
            head, _, body = speak(port, f"HEAD {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()).partition(END)
            assert head.startswith(b"HTTP/1.1 " + status)
            assert body == b""
    assert time.monotonic() - start < 9  # `speak` waits for 10 seconds
