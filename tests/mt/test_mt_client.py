"""The client against a server on loopback that fails, refuses, stammers, hangs up and goes away."""

from __future__ import annotations

import gzip
import json
import sqlite3
import threading
import time
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from llm_double import Double

from phrasemate.errors import EndpointError, InputError
from phrasemate.mt import FORMS, Cache, Client, Endpoint, Prompt, Prompter
from phrasemate.mt import client as client_module
from phrasemate.mt.client import body_of, request_key

LINES = [f"Satz {number}" for number in range(1, 21)]


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "PAUSE", 0.001)


def prompts(lines: list[str] = LINES) -> Iterator[Prompt]:
    prompter = Prompter(FORMS["plain"], "de", "en")
    return (prompter.prompt(line) for line in lines)


def texts(client: Client, lines: list[str] = LINES) -> list[str]:
    return [answer.text.strip() for answer in client.answers(prompts(lines))]


@pytest.mark.parametrize("api", ["chat", "completions"])
def test_answers_come_in_order_and_several_are_asked_at_once(server: Double, api: str) -> None:
    server.mood = lambda number, body: time.sleep(0.02 if number % 3 else 0.06)  # type: ignore[func-returns-value]
    with Client(Endpoint(server.url, "small", api, concurrency=4)) as client:
        assert texts(client) == [line.upper() for line in LINES]
    assert 2 <= server.most <= 4
    assert server.paths[0] == ("/v1/chat/completions" if api == "chat" else "/v1/completions")
    assert server.bodies[0]["model"] == "small"
    assert server.bodies[0]["temperature"] == 0  # greedy


def one_in_five(number: int, body: dict[str, Any]) -> Any:
    """Every fifth request fails, each time in another way."""
    kinds = [(500, b"oops", {}), (429, b"{}", {"Retry-After": "0"}), "hang up", (503, b"<html>", {})]
    return kinds[number // 5 % 4] if number % 5 == 0 else None


def test_a_server_that_fails_one_request_in_five_loses_no_line(server: Double, tmp_path: Path) -> None:
    server.mood = one_in_five
    with Cache(tmp_path / "a.sqlite") as cache, Client(Endpoint(server.url), cache) as client:
        assert texts(client) == [line.upper() for line in LINES]
        assert client.repeats == len(server.bodies) - len(LINES) > 3
        assert client.requests == len(server.bodies)


def test_an_interrupted_run_continues_without_a_repeated_request(server: Double, tmp_path: Path) -> None:
    endpoint = Endpoint(server.url, concurrency=2)
    with Cache(tmp_path / "a.sqlite") as cache, Client(endpoint, cache) as client:
        answers = client.answers(prompts())
        first = [next(answers).text.strip() for _ in range(5)]
        answers.close()  # as Ctrl-C does: what is on its way is waited for, nothing more is sent
        size = len(cache)
    assert first == [line.upper() for line in LINES[:5]]
    assert len(server.bodies) == size < len(LINES)
    with Cache(tmp_path / "a.sqlite") as cache, Client(endpoint, cache) as client:
        assert texts(client) == [line.upper() for line in LINES]
        assert client.requests == len(LINES) - size
    assert sorted(server.requests) == sorted(LINES)  # each exactly once
    with Cache(tmp_path / "a.sqlite") as cache, Client(endpoint, cache) as client:
        assert all(answer.cached for answer in client.answers(prompts()))
    assert len(server.bodies) == len(LINES)


def test_the_key_comes_from_the_environment_and_stays_out_of_the_cache(
    server: Double, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "s3cret-value")
    with Cache(tmp_path / "a.sqlite") as cache, Client(Endpoint(server.url, key="MY_KEY"), cache) as client:
        texts(client, LINES[:2])
    assert server.keys == ["Bearer s3cret-value"] * 2
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"s3cret" not in stored
    assert b"Bearer" not in stored
    monkeypatch.delenv("MY_KEY")  # a key is not part of what an answer depends on
    with Cache(tmp_path / "a.sqlite") as cache, Client(Endpoint(server.url, key="MY_KEY"), cache) as client:
        assert all(answer.cached for answer in client.answers(prompts(LINES[:2])))


def test_a_refused_key_stops_at_once_and_is_not_shown(server: Double, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHRASEMATE_LLM_KEY", "s3cret-value")
    server.mood = lambda number, body: (401, b'{"error": {"message": "bad key"}}', {})
    with Client(Endpoint(server.url, concurrency=1)) as client, pytest.raises(EndpointError) as error:
        texts(client)
    assert "the key was refused (401: bad key)" in str(error.value)
    assert "PHRASEMATE_LLM_KEY" in str(error.value)
    assert "s3cret" not in str(error.value)
    assert len(server.bodies) == 1


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ((404, b'{"error": "no model x"}', {}), "knows no such address or model (404: no model x)"),
        ((302, b"", {"Location": "http://127.0.0.1:1/"}), "knows no such address or model (302)"),
    ],
)
def test_a_wrong_address_stops_at_once(server: Double, reply: Any, message: str) -> None:
    server.mood = lambda number, body: reply
    with Client(Endpoint(server.url, concurrency=1)) as client, pytest.raises(EndpointError) as error:
        texts(client)
    assert message in str(error.value)
    assert "that ends in /v1" in str(error.value)
    assert len(server.bodies) == 1


def test_no_server_at_all_is_reported_at_once(server: Double) -> None:
    url = server.url
    server.stop()
    with Client(Endpoint(url)) as client, pytest.raises(EndpointError, match="cannot be reached"):
        texts(client)
    assert client.repeats == 0


@pytest.mark.parametrize(
    ("reply", "failure"),
    [
        ((400, b'{"error": {"message": "prompt too long"}}', {}), "the server said 400: prompt too long"),
        ((200, b"<html>login</html>", {}), "not JSON"),
        ((200, b"[1]", {}), "not a JSON object"),
        ((200, b'{"choices": []}', {}), "holds no text"),
        ((200, b'{"choices": [{"message": {"content": 7}}]}', {}), "holds no text"),
        ((500, b"oops", {}), "the server said 500: oops"),
        ((500, b"oops", {"Retry-After": "\xb2"}), "the server said 500: oops"),
        ((200, b"no gzip", {"Content-Encoding": "gzip"}), "the server's answer cannot be read"),
        ((200, gzip.compress(b"{}" * 9)[:-9], {"Content-Encoding": "gzip"}), "cannot be read (it ends too early)"),
    ],
)
def test_what_fails_for_one_line_is_counted_and_the_others_continue(
    server: Double, tmp_path: Path, reply: Any, failure: str
) -> None:
    server.mood = lambda number, body: reply if "Satz 2\n" in body["messages"][-1]["content"] else None
    with Cache(tmp_path / "a.sqlite") as cache, Client(Endpoint(server.url, tries=3), cache) as client:
        first, second, third = client.answers(prompts(LINES[:3]))
        assert (first.text, third.text) == (" SATZ 1", " SATZ 3")
        assert second.text == ""
        assert failure in second.failure
        assert len(cache) == 2  # what failed is asked again the next time
        may_pass = reply[0] == 500 or "Content-Encoding" in reply[2]
        assert client.repeats == (2 if may_pass else 0)  # only what may pass is tried again


def test_a_name_that_no_server_has_is_reported_at_once() -> None:
    with Client(Endpoint("http://exa mple..com/v1")) as client, pytest.raises(EndpointError, match="cannot be reached"):
        texts(client, LINES[:1])


def test_a_key_that_cannot_be_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "ключ")
    with pytest.raises(InputError, match=r"\$MY_KEY holds characters that a key cannot have"):
        Client(Endpoint("http://h/v1", key="MY_KEY"))


def test_a_slow_server_runs_into_the_time_out(server: Double) -> None:
    server.mood = lambda number, body: time.sleep(0.3)  # type: ignore[func-returns-value]
    with Client(Endpoint(server.url, timeout=0.05, tries=2)) as client:
        (answer,) = client.answers(prompts(LINES[:1]))
    assert answer.failure.startswith("no answer within 0.05 s")


def test_a_server_that_goes_away_ends_the_run(server: Double, tmp_path: Path) -> None:
    endpoint = Endpoint(server.url, concurrency=1, tries=2)
    with Cache(tmp_path / "a.sqlite") as cache, Client(endpoint, cache) as client:
        assert texts(client, LINES[:3]) == ["SATZ 1", "SATZ 2", "SATZ 3"]
        server.stop()
        client._http.close()  # else a kept connection would still be served
        client._http = __import__("httpx2").Client()
        with pytest.raises(EndpointError, match="the same command resumes"):
            texts(client)
        assert len(cache) == 3


def test_the_key_of_a_request_depends_on_all_of_it() -> None:
    body = body_of(Endpoint("http://h/v1", "m"), Prompt("I", (), "ask"))
    key = request_key("http://h/v1/chat/completions", body)
    assert key == request_key("http://h/v1/chat/completions", dict(reversed(body.items())))
    others = [body | {"model": "n"}, body | {"max_tokens": 1}, body | {"temperature": 1.0}, body | {"messages": []}]
    assert len({key, *(request_key("http://h/v1/chat/completions", item) for item in others)}) == 5
    assert request_key("http://other/v1/chat/completions", body) != key


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "ftp://h/v1"}, "not a web address"),
        ({"url": "http://[::1"}, "not a web address (Invalid IPv6 URL)"),
        ({"url": "localhost:8080"}, "not a web address"),
        ({"url": "http://me:s3cret@h/v1"}, "holds a user name or password"),
        ({"url": "http://h/v1", "api": "magic"}, "expected chat or completions"),
        ({"url": "http://h/v1", "tries": 0}, "must be above 0"),
        ({"url": "http://h/v1", "timeout": float("nan")}, "timeout: nan; expected a number"),
        ({"url": "http://h/v1", "timeout": 1e300}, "up to 1,000,000 seconds"),
        ({"url": "http://h/v1", "temperature": float("nan")}, "temperature: nan; expected a number"),
        ({"url": "http://h/v1", "temperature": -1.0}, "temperature 0 or more"),
    ],
)
def test_an_endpoint_that_makes_no_sense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        Endpoint(**options)
    assert message in str(error.value)
    assert "s3cret" not in str(error.value)


@pytest.mark.parametrize("text", ["http://h/v1", "http://h/v1/", "http://h/v1/chat/completions"])
def test_the_address_may_be_given_short_or_whole(text: str) -> None:
    assert Endpoint(text).target == "http://h/v1/chat/completions"


def test_a_prompt_that_another_follows_is_asked_twice(server: Double) -> None:
    last = Prompt("I", (), "German: ende\nEnglish:")
    first = Prompt("I", (), "German: anfang\nEnglish:", follow=lambda message: last if "ANFANG" in message else first)
    with Client(Endpoint(server.url)) as client:
        answer = client.answer(first)
    assert answer.text == " ENDE"
    assert [request for request, _ in answer.steps] == [first.text, last.text]
    assert (answer.prompt_tokens, answer.tokens) == (2 * 7, 2 * 3)


def test_a_foreign_file_is_not_cache(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no database, but some text of mine\n" * 50)
    with pytest.raises(InputError, match="not a file of answers"):
        Cache(tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_text().startswith("no database")
    with pytest.raises(InputError, match="cannot be opened"):
        Cache(tmp_path)


def test_what_the_cache_keeps_is_there_for_another_process(tmp_path: Path) -> None:
    with Cache(tmp_path / "deep" / "a.sqlite") as cache:
        cache.put("k", {"choices": [{"text": "grün"}]})
        other = sqlite3.connect(tmp_path / "deep" / "a.sqlite")  # while the first is still open
        (size,) = other.execute("SELECT answer FROM answers").fetchone()
        other.close()
    assert json.loads(size)["choices"][0]["text"] == "grün"


def test_a_line_that_comes_again_is_asked_once(server: Double, tmp_path: Path) -> None:
    server.mood = lambda number, body: (  # answers that are drawn: each another
        time.sleep(0.05) or (200, json.dumps({"choices": [{"message": {"content": f"no. {number}"}}]}).encode(), {})
    )
    endpoint, lines = Endpoint(server.url, temperature=1.0, concurrency=4), ["Satz 1"] * 6
    with Cache(tmp_path / "a.sqlite") as cache, Client(endpoint, cache) as client:
        assert texts(client, lines) == ["no. 1"] * 6
        assert texts(client, lines) == ["no. 1"] * 6
    assert len(server.bodies) == 1


def test_lines_that_come_again_are_each_tried_when_the_first_fails(server: Double, tmp_path: Path) -> None:
    server.mood = lambda number, body: (400, b"no", {}) if number == 1 else None
    with Cache(tmp_path / "a.sqlite") as cache, Client(Endpoint(server.url), cache) as client:
        answers = list(client.answers(prompts(["Satz 1"] * 3)))
    assert sorted(answer.text for answer in answers) == ["", " SATZ 1", " SATZ 1"]
    assert len(server.bodies) == 2


@pytest.mark.parametrize("packed", [False, True])
def test_an_answer_without_end_is_given_up(server: Double, monkeypatch: pytest.MonkeyPatch, packed: bool) -> None:
    monkeypatch.setattr(client_module, "LARGEST", 100_000)
    content = json.dumps({"choices": [{"message": {"content": "a" * 10_000_000}}]}).encode()
    reply = (200, gzip.compress(content), {"Content-Encoding": "gzip"}) if packed else (200, content, {})
    server.mood = lambda number, body: reply
    with Client(Endpoint(server.url)) as client:
        tracemalloc.start()
        (answer,) = client.answers(prompts(LINES[:1]))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert answer.failure.startswith("the server's answer has more than")
    assert client.requests == 1  # it would be no shorter, and may cost as much again
    assert peak < 3_000_000 + len(reply[1]) * packed


def test_a_packed_answer_is_read(server: Double) -> None:
    def packed(number: int, body: dict[str, Any]) -> Any:
        pack = gzip.compress if number == 1 else zlib.compress
        return 200, pack(server.answer(body)[1]), {"Content-Encoding": ["gzip", "deflate"][number - 1]}

    server.mood = packed
    with Client(Endpoint(server.url, concurrency=1)) as client:
        assert texts(client, LINES[:2]) == ["SATZ 1", "SATZ 2"]


@pytest.mark.parametrize(
    ("reply", "failure"),
    [
        ((200, b"[" * 100_000, {}), "not JSON"),
        ((200, b"x", {"Content-Encoding": "br"}), "is packed as 'br', which was not requested"),
    ],
)
def test_an_answer_of_another_kind_is_asked_for_once(server: Double, reply: Any, failure: str) -> None:
    server.mood = lambda number, body: reply
    with Client(Endpoint(server.url)) as client:
        (answer,) = client.answers(prompts(LINES[:1]))
    assert failure in answer.failure
    assert client.requests == 1


def test_an_answer_that_comes_drop_by_drop_runs_into_the_time_out() -> None:
    class Drops(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.end_headers()
            with suppress(OSError):  # until the client goes away
                while True:
                    self.wfile.write(b" ")
                    time.sleep(0.02)

        def log_message(self, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Drops) as http:
        threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
        with Client(Endpoint(f"http://127.0.0.1:{http.server_address[1]}/v1", timeout=0.2, tries=1)) as client:
            start = time.monotonic()
            (answer,) = client.answers(prompts(LINES[:1]))
        http.shutdown()
    assert answer.failure.startswith("no answer within 0.2 s")
    assert time.monotonic() - start < 5


@pytest.mark.parametrize("status", [400, 500, 403, 404])
def test_a_key_that_the_server_repeats_is_in_no_message(
    server: Double, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setenv("PHRASEMATE_LLM_KEY", "sk-very/secret")
    reply = json.dumps({"error": {"message": "x" * 190 + " sk-very/secret is not a key"}}).encode()
    server.mood = lambda number, body: (status, reply, {})
    with Client(Endpoint(server.url, tries=1)) as client:
        try:
            failure = next(client.answers(prompts(LINES[:1]))).failure
        except EndpointError as error:
            failure = str(error)
    assert "xxx" in failure
    assert "sk-very" not in failure


def test_a_server_that_says_0_seconds_gets_pauses_all_the_same(server: Double, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "PAUSE", 0.1)
    server.mood = lambda number, body: (429, b"{}", {"Retry-After": "0"})
    start = time.monotonic()
    with Client(Endpoint(server.url, tries=3)) as client:
        next(client.answers(prompts(LINES[:1])))
    assert time.monotonic() - start > (0.1 + 0.2) / 2


def test_a_client_that_is_stopped_waits_for_no_second_try(server: Double, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "PAUSE", 30.0)

    def stop(*_: Any) -> Any:
        client._stop.set()  # as `close` does, which would also cut the connection
        return 500, b"oops", {}

    server.mood = stop
    start = time.monotonic()
    with Client(Endpoint(server.url, tries=3)) as client:
        (answer,) = client.answers(prompts(LINES[:1]))
    assert answer.failure == "the server said 500: oops"
    assert (client.requests, client.repeats) == (1, 0)
    assert time.monotonic() - start < 10


def test_an_address_where_nobody_answers_ends_the_run(server: Double, monkeypatch: pytest.MonkeyPatch) -> None:
    import httpx2

    def nobody(*_: Any) -> Any:
        raise httpx2.ConnectTimeout("timed out")

    monkeypatch.setattr(client_module, "post", nobody)
    with Client(Endpoint(server.url, tries=2)) as client, pytest.raises(EndpointError, match="no connection within"):
        texts(client)


def test_an_answer_that_the_library_cannot_read_is_asked_for_again(
    server: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    import httpx2

    usual, replies = client_module.post, iter([httpx2.DecodingError("no such packing"), None])

    def unpacked(*arguments: Any) -> Any:
        if (error := next(replies)) is not None:
            raise error
        return usual(*arguments)

    monkeypatch.setattr(client_module, "post", unpacked)
    with Client(Endpoint(server.url, tries=2)) as client:
        assert texts(client, LINES[:1]) == ["SATZ 1"]
        assert (client.requests, client.repeats) == (2, 1)
        replies = iter([httpx2.DecodingError("no such packing")] * 2)
        (answer,) = client.answers(prompts(LINES[1:2]))
    assert answer.failure == "the server's answer cannot be read (no such packing)"


def test_half_a_character_costs_no_line(server: Double) -> None:
    with Client(Endpoint(server.url)) as client:
        assert texts(client, ["Satz \ud800", "Satz 2"]) == ["SATZ ?", "SATZ 2"]


@pytest.mark.parametrize(("name", "value"), [("HTTP_PROXY", "foo://x"), ("SSL_CERT_FILE", "/no/such/file")])
def test_an_environment_that_makes_no_sense(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match="proxy or the certificates that the environment names"):
        Client(Endpoint("http://h/v1"))
