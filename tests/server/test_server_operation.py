"""Users, rights and rates; the log of requests; readiness; reloading; traces."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from server_fakes import FakeModel, make_index

from phrasemate.errors import ReadError
from phrasemate.glossary import Entry, Glossary
from phrasemate.server import middleware
from phrasemate.server.app import access_for, create_app
from phrasemate.server.errors import Refusal
from phrasemate.server.indexes import Library
from phrasemate.server.middleware import Rates, open_log
from phrasemate.server.tokens import Tokens, User

HERE = "http://localhost:8000"
SEARCH = "/api/v1/search"
QUERY = {"query": "a [[bench]] in a secret place"}


def write_tokens(path: Path, *entries: str) -> Path:
    path.write_text("\n".join(f"[[token]]\n{entry}" for entry in entries), "utf-8")
    return path


def entry(name: str, rights: str, rate: int = 0) -> str:
    digest = sha256(f"token of {name}".encode()).hexdigest()
    return f'name = "{name}"\nsha256 = "{digest}"\nrights = {rights}\nrate = {rate}'


def bearer(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer token of {name}"}


@pytest.fixture
def two(tmp_path: Path, model: FakeModel) -> Iterator[Library]:
    library = Library([make_index(tmp_path / name, model) for name in ("news", "laws")], threads=1, model=model)
    yield library
    library.close()


def client_of(library: Library, tokens: Path | None = None, glossary: Glossary | None = None) -> TestClient:
    access = access_for("127.0.0.1", "", tokens=Tokens(tokens)) if tokens else None
    return TestClient(
        create_app(library, access=access, glossary=glossary), base_url=HERE, raise_server_exceptions=False
    )


def test_rights_of_an_index_include_those_before_them() -> None:
    user = User("anna", {"*": "read", "news": "write"})
    assert [user.may(right, "news") for right in ("read", "write", "admin")] == [True, True, False]
    assert [user.may(right, "laws") for right in ("read", "write", "admin")] == [True, False, False]
    assert not User("ben", {"news": "admin"}).may("read", "laws")


def test_each_user_sees_his_indexes_only(two: Library, tmp_path: Path) -> None:
    file = write_tokens(tmp_path / "t.toml", entry("anna", '{ "*" = "read" }'), entry("ben", '{ laws = "read" }'))
    client = client_of(two, file)
    assert client.post(SEARCH, json=QUERY).status_code == 401
    assert client.post(SEARCH, json=QUERY, headers=bearer("carl")).status_code == 401
    assert client.post(SEARCH, json=QUERY, headers=bearer("anna")).json()["index"] == "news"
    assert client.post(SEARCH, json=QUERY, headers=bearer("ben")).json()["index"] == "laws"
    refused = client.post(SEARCH, json={**QUERY, "index": "news"}, headers=bearer("ben"))
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")
    assert "this needs the right 'read' for the index 'news'" in refused.json()["error"]["message"]
    listed = client.get("/api/v1/indexes", headers=bearer("ben")).json()["indexes"]
    assert [index["name"] for index in listed] == ["laws"]
    assert client.get("/health").json()["indexes"] == []


def test_writing_and_reloading_need_a_right(two: Library, tmp_path: Path) -> None:
    rights = {"reader": "read", "writer": "write", "boss": "admin"}
    file = write_tokens(tmp_path / "t.toml", *(entry(name, f'{{ "*" = "{right}" }}') for name, right in rights.items()))
    client = client_of(two, file)
    change: dict[str, Any] = {"action": (None, "undo")}
    answers = [client.post("/glossary", files=change, headers=bearer(name), follow_redirects=False) for name in rights]
    codes = [answer.status_code for answer in answers]
    assert codes[0] == 403
    assert 403 not in codes[1:]
    statuses = [client.post("/api/v1/reload", headers=bearer(name)).status_code for name in rights]
    assert statuses == [403, 403, 200]


def test_the_glossary_quotes_only_what_may_be_read(two: Library, tmp_path: Path) -> None:
    users = {"all": '{ "*" = "read" }', "some": '{ laws = "read" }', "none": '{ other = "read" }'}
    glossary = Glossary()
    glossary.add(Entry("Bank", "bench", "de", "en", example="A secret bench.", origin="secret.txt:3"))
    file = write_tokens(tmp_path / "t.toml", *(entry(*user) for user in users.items()))
    client = client_of(two, file, glossary)
    for path in ("/glossary", "/glossary/csv", "/glossary/tbx"):
        answers = [client.get(path, headers=bearer(name)) for name in users]
        assert [answer.status_code for answer in answers] == [200, 200, 403]
        assert ["secret" in answer.text for answer in answers] == [True, False, False]
        assert "bench" in answers[1].text
    answers = [client.post("/api/v1/suggest", json={"text": "[[Bank]]"}, headers=bearer(name)) for name in users]
    assert [answer.status_code for answer in answers] == [200, 200, 403]
    assert ["secret" in answer.text for answer in answers] == [True, False, False]
    assert answers[2].json()["error"]["message"] == "your token has the right 'read' for no index of this server"


def test_readers_are_offered_no_changes(two: Library, tmp_path: Path) -> None:
    rights = {"reader": "read", "writer": "write"}
    file = write_tokens(tmp_path / "t.toml", *(entry(name, f'{{ "*" = "{right}" }}') for name, right in rights.items()))
    client = client_of(two, file)
    change = {"action": (None, "add"), "source": (None, "Bank"), "target": (None, "bench")}
    accept = {"Accept": "application/json"}
    assert client.post("/glossary", files=change, headers=bearer("writer") | accept).status_code == 200
    refused = client.post("/glossary", files=change, headers=bearer("reader") | accept)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")
    for path, words in {"/?q=bank": 'class="use', "/glossary": 'name="action"'}.items():
        assert [words in client.get(path, headers=bearer(name)).text for name in rights] == [False, True]


def test_a_rate_is_refilled_over_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("phrasemate.server.middleware.time.monotonic", lambda: clock[0])
    rates, user = Rates(), User("anna", rate=30)
    for _ in range(30):
        rates.spend(user)
    with pytest.raises(Refusal, match="30 requests a minute"):
        rates.spend(user)
    clock[0] += 60 / 30 + 0.001  # one is refilled
    rates.spend(user)
    with pytest.raises(Refusal):
        rates.spend(user)
    rates.spend(User("ben", rate=1))


def test_more_than_the_rate_is_refused(two: Library, tmp_path: Path) -> None:
    client = client_of(two, write_tokens(tmp_path / "t.toml", entry("anna", '{ "*" = "read" }', rate=2)))
    statuses = [client.get("/api/v1/indexes", headers=bearer("anna")).status_code for _ in range(3)]
    assert statuses == [200, 200, 429]
    assert client.get("/health").status_code == 200
    refused = client.get("/api/v1/indexes", headers=bearer("anna"))
    assert 25 < int(refused.headers["retry-after"]) <= 30  # two a minute
    assert client.get("/metrics", headers=bearer("anna")).status_code == 200


def test_a_request_that_the_guard_refuses_has_its_route_in_the_log(two: Library, tmp_path: Path, lines: Path) -> None:
    client = client_of(two, write_tokens(tmp_path / "t.toml", entry("anna", '{ "*" = "read" }')))
    client.get("/tmserver/de/en/unit/secret")
    client.post("/glossary", headers=bearer("anna"))
    records = [json.loads(line) for line in lines.read_text("utf-8").splitlines()]
    assert [record["status"] for record in records] == [401, 403, 403]
    assert [record["kind"] for record in records] == ["request", "request", "write"]
    assert records[0]["route"].startswith("/tmserver/{source}/{target}/unit/")
    assert [record["route"] for record in records[1:]] == ["/glossary", "/glossary"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "has no tokens"),
        ("[[token", "cannot be read"),
        ("[[token]]\nname = 'a'", "has other entries"),
        ("[[token]]\nname = 'a'\nsha256 = 'secret'\nrights = { '*' = 'read' }", "sha256"),
        (f"[[token]]\nname = 'a'\nsha256 = '{'0' * 64}'\nrights = {{ '*' = 'all' }}", "rights"),
        (f"[[token]]\nname = 'a'\nsha256 = '{'0' * 64}'\nrights = {{ '*' = 'read' }}\nrate = -1", "rate"),
        (f"[[token]]\nname = ''\nsha256 = '{'0' * 64}'\nrights = {{ '*' = 'read' }}", "token 1: name ''"),
        (
            f"[[token]]\nname = '{'a' * 101}'\nsha256 = '{'0' * 64}'\nrights = {{ '*' = 'read' }}",
            "printable characters",
        ),
        (f'[[token]]\nname = "a\\n"\nsha256 = "{"0" * 64}"\nrights = {{ "*" = "read" }}', "printable characters"),
        (2 * f"[[token]]\nname = 'a'\nsha256 = '{'0' * 64}'\nrights = {{ '*' = 'read' }}\n", "occurs twice"),
    ],
)
def test_a_file_of_tokens_is_checked(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "t.toml").write_text(text, "utf-8")
    with pytest.raises(ReadError, match=reason):
        Tokens(tmp_path / "t.toml")


@pytest.fixture
def lines(tmp_path: Path) -> Iterator[Path]:
    open_log(str(tmp_path / "requests.log"))
    yield tmp_path / "requests.log"
    logging.getLogger("phrasemate.requests").handlers.clear()


def test_the_log_has_a_line_for_each_request_and_never_its_text(client: TestClient, lines: Path) -> None:
    answer = client.post(SEARCH, json=QUERY, headers={"X-Request-ID": "proxy-1"})
    client.get("/", params={"q": "a [[bench]] in a secret place"})
    client.get("/nowhere/secret")
    client.post("/glossary", data={"source": "secret"}, headers={"X-Request-ID": "not plain\tat all"})
    text = lines.read_text("utf-8")
    assert "secret" not in text
    assert "bench" not in text
    first, page, other, change, write = map(json.loads, text.splitlines())
    assert (first["kind"], first["route"], first["status"], first["id"]) == ("request", SEARCH, 200, "proxy-1")
    assert answer.headers["x-request-id"] == "proxy-1"
    assert first["bytes_in"] == len(answer.request.content)
    assert first["bytes_out"] == len(answer.content)
    assert first["milliseconds"] > 0
    assert (page["route"], other["route"], other["status"]) == ("/", "other", 404)
    assert len(change["id"]) == 32
    client.head("/tools")
    assert {"route": "/tools", "method": "HEAD", "bytes_out": 0}.items() <= json.loads(
        lines.read_text("utf-8").splitlines()[-1]
    ).items()
    assert (write["kind"], write["route"], write["right"], write["id"]) == ("write", "/glossary", "write", change["id"])


def test_ready_is_not_alive(
    client: TestClient, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("phrasemate.server.indexes.CHECK_SECONDS", 0)
    assert client.get("/ready").json() == {"status": "ready"}
    (folder / "store.sqlite").rename(folder / "gone")
    assert client.get("/ready").status_code == 503
    assert f"index idx: no index at {folder}" in caplog.text  # as the answer says
    assert client.get("/health").status_code == 200
    (folder / "gone").rename(folder / "store.sqlite")
    assert client.get("/ready").status_code == 200


def test_ready_tells_of_damage_that_a_search_met(client: TestClient, folder: Path) -> None:
    store = folder / "store.sqlite"
    content = store.read_bytes()
    os.truncate(store, 8_000)
    assert client.get("/ready").status_code == 200  # nothing has met it
    assert client.post(SEARCH, json=QUERY).status_code == 503
    assert client.get("/ready").status_code == 503
    assert client.post("/api/v1/segment", json={"texts": ["a bench"]}).status_code == 200  # asks the model alone
    assert client.get("/ready").status_code == 503
    with store.open("rb+") as file:  # in place
        file.write(content)
    assert client.post(SEARCH, json=QUERY).status_code == 200
    assert client.get("/ready").status_code == 200


def test_an_index_that_is_opened_again_is_ready(client: TestClient, folder: Path) -> None:
    shutil.copy(folder / "store.sqlite", folder / "copy")
    os.truncate(folder / "store.sqlite", 8_000)
    assert client.post(SEARCH, json=QUERY).status_code == 503
    assert client.get("/ready").status_code == 503
    (folder / "copy").rename(folder / "store.sqlite")
    assert client.post("/api/v1/reload").json()["problems"] == {}
    assert client.get("/ready").status_code == 200


def test_a_reload_opens_again_and_keeps_what_cannot_be_opened(
    client: TestClient, library: Library, folder: Path
) -> None:
    with library.use() as before:
        assert client.post("/api/v1/reload").json() == {"indexes": ["idx"], "problems": {}}
        assert before.index.stats().documents  # a request that runs keeps what it has
    with library.use() as after:
        assert after is not before
    with pytest.raises(Exception, match="closed"):
        before.index.stats()
    (folder / "index.json").write_text("{}", "utf-8")
    assert list(client.post("/api/v1/reload").json()["problems"]) == ["idx"]
    assert client.post(SEARCH, json=QUERY).status_code in (200, 503)


def test_a_reload_keeps_the_users_where_their_file_is_none(two: Library, tmp_path: Path) -> None:
    file = write_tokens(tmp_path / "t.toml", entry("boss", '{ "*" = "admin" }'))
    client = client_of(two, file)
    file.write_text("[[token", "utf-8")
    answer = client.post("/api/v1/reload", headers=bearer("boss"))
    assert (answer.status_code, list(answer.json()["problems"])) == (200, ["tokens"])
    assert "cannot be read" in answer.json()["problems"]["tokens"]
    assert client.post(SEARCH, json=QUERY, headers=bearer("boss")).status_code == 200
    write_tokens(file, entry("anna", '{ "*" = "admin" }'))
    assert client.post("/api/v1/reload", headers=bearer("boss")).json()["problems"] == {}
    assert client.post(SEARCH, json=QUERY, headers=bearer("boss")).status_code == 401


def test_rights_for_an_index_that_is_not_served_are_warned_of(
    two: Library, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = write_tokens(
        tmp_path / "t.toml", entry("boss", '{ "*" = "admin" }'), entry("anna", '{ news = "read", nwes = "read" }')
    )
    client = client_of(two, file)
    warning = "token of anna: has rights for nwes, which is not served here"
    assert [record.getMessage() for record in caplog.records] == [warning]
    assert client.post("/api/v1/reload", headers=bearer("boss")).json()["problems"] == {}
    assert caplog.text.count(warning) == 2


def test_traces_have_the_status_of_every_answer(client: TestClient) -> None:
    """Of what the guard refuses before the application, and of an error that nobody foresaw, too."""
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    middleware.start_tracing(provider)
    try:
        codes = [client.post(SEARCH, json={"query": query}).status_code for query in ("[[boom]]", "[[", "[[bank]]")]
        codes.append(client.get("/health", headers={"Host": "elsewhere.example"}).status_code)
    finally:
        middleware._tracers.clear()
    spans = exporter.get_finished_spans()
    assert codes == [500, 422, 200, 421]
    assert [span.attributes["http.response.status_code"] for span in spans] == codes
    assert [span.status.status_code.name for span in spans] == ["ERROR", "UNSET", "UNSET", "UNSET"]


def test_traces_have_the_route_and_no_text(client: TestClient) -> None:
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    middleware.start_tracing(provider)
    try:
        trace = "0af7651916cd43dd8448eb211c80319c"
        client.post(SEARCH, json=QUERY, headers={"traceparent": f"00-{trace}-b7ad6b7169203331-01"})
    finally:
        middleware._tracers.clear()
    (span,) = exporter.get_finished_spans()
    assert span.name == f"POST {SEARCH}"
    assert f"{span.context.trace_id:032x}" == trace
    assert span.attributes["http.response.status_code"] == 200
    assert "secret" not in span.to_json()


def test_every_metric_is_described(client: TestClient) -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "monitor.md").read_text("utf-8")
    client.post("/api/v1/search", json={})
    names = {line.split()[2] for line in client.get("/metrics").text.splitlines() if line.startswith("# TYPE")}
    metrics = {name for name in names if name.startswith("phrasemate_") and not name.endswith("_created")}
    assert metrics
    assert [name for name in sorted(metrics) if f"`{name}`" not in page] == []


def failures(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "phrasemate.server"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_a_full_disk_below_the_log_is_reported_once(
    client: TestClient, lines: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    lines.unlink()
    lines.symlink_to("/dev/full")
    assert [client.get("/health").status_code for _ in range(3)] == [200] * 3
    assert capsys.readouterr().err == ""
    (message,) = failures(caplog)
    assert "the access log cannot be written" in message
    assert "No space left on device" in message


def test_a_log_whose_folder_is_gone_is_reported_once(
    client: TestClient, tmp_path: Path, lines: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "log").mkdir()
    open_log(str(tmp_path / "log" / "requests"))
    shutil.rmtree(tmp_path / "log")
    assert [client.get("/health").status_code for _ in range(3)] == [200] * 3
    (message,) = failures(caplog)
    assert "No such file or directory" in message
