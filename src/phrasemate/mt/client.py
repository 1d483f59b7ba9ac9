"""Client of OpenAI-compatible servers: concurrent HTTP requests of bounded size, answers in order, cached on disk.

The cache is a SQLite file whose keys are SHA-256 digests of requests. API keys and headers are never stored in it.

Temporary failures (429, 5xx, a time-out, a broken connection) are tried again after growing pauses. A request that
still fails gives an answer with a ``failure``, so that every line has an answer. Errors that every request would meet
(no server, a refused key, an unknown model or path) raise EndpointError at once. Only answers with a text are cached,
so that running the same command again asks for the missing ones.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
import threading
import time
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from phrasemate.errors import EndpointError, InputError, needs_extra
from phrasemate.mt.prompt import Prompt
from phrasemate.types import check_fields

if TYPE_CHECKING:
    import httpx2

LARGEST = 16_000_000  # bytes of an answer; a longer one is refused
_TOO_LARGE = f"the server's answer has more than {LARGEST:,} bytes"
_PACKINGS = ("gzip", "x-gzip", "deflate")  # content encodings that can be unpacked


class _TemporaryFailure(Exception):
    """Failure that may not recur; the next try waits ``pause`` seconds at least."""

    def __init__(self, reason: str, pause: float = 0.0) -> None:
        super().__init__(reason)
        self.pause = pause


class _ConnectionLost(_TemporaryFailure):
    """Failure to connect to a server."""


class _ServerUnreachable(Exception):
    """Failure to connect to a server that has never answered."""


class _RequestRefused(Exception):
    """Failure that would recur at every try of this request."""


class Reply(NamedTuple):
    """Reply of a server: HTTP status, Retry-After header, body."""

    status: int
    after: str
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


def connected(key: str, concurrency: int, timeout: float) -> httpx2.Client:
    """Return an HTTP client; ``timeout`` is the limit in seconds of each step of a request.

    Raises MissingExtra if httpx2 is not installed, InputError if the environment names proxies or certificates that
    cannot be used.
    """
    with needs_extra("mt", "httpx2"):
        import httpx2
    headers = {"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {key}"} if key else {})
    limits = httpx2.Limits(max_connections=concurrency)
    try:
        return httpx2.Client(headers=headers, timeout=timeout, limits=limits)
    except (ImportError, OSError, ValueError, httpx2.InvalidURL) as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"the proxy or the certificates that the environment names cannot be used ({reason}); "
            "check HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, SSL_CERT_FILE and SSL_CERT_DIR"
        ) from None


def post(http: httpx2.Client, url: str, body: dict[str, Any], seconds: float) -> Reply:
    """Send a JSON object and return the reply; ``seconds`` limits the whole time of the reply.

    Raises the errors of httpx2, `_TemporaryFailure` and `_RequestRefused`.
    """
    content = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")  # lone surrogates become ?
    end = time.monotonic() + seconds
    raw = bytearray()
    with http.stream("POST", url, content=content, headers={"Content-Type": "application/json"}) as response:
        for chunk in response.iter_raw():
            raw += chunk
            if len(raw) > LARGEST:
                raise _RequestRefused(_TOO_LARGE)
            if time.monotonic() > end:
                raise _TemporaryFailure(f"no answer within {seconds:g} s (TooLong)")
        packing = response.headers.get("content-encoding", "").strip().lower()
        return Reply(response.status_code, response.headers.get("retry-after", ""), _unpack(bytes(raw), packing))


def _unpack(raw: bytes, packing: str) -> bytes:
    """Return the unpacked body, whose size is limited, since a few packed bytes may stand for very many."""
    if packing in ("", "identity"):
        return raw
    if packing not in _PACKINGS:
        raise _RequestRefused(f"the server's answer is packed as {packing[:40]!r}, which was not requested")
    reader = zlib.decompressobj(zlib.MAX_WBITS | 32)  # recognises gzip and zlib by their headers
    try:
        content = reader.decompress(raw, LARGEST + 1)
    except zlib.error as error:
        raise _TemporaryFailure(f"the server's answer cannot be read ({error})") from None
    if len(content) > LARGEST:
        raise _RequestRefused(_TOO_LARGE)
    if raw and not reader.eof:
        raise _TemporaryFailure("the server's answer cannot be read (it ends too early)")
    return content


SCHEMA = "CREATE TABLE answers (key TEXT PRIMARY KEY, answer TEXT NOT NULL) WITHOUT ROWID"
WAIT = 60.0  # seconds to wait while another process writes


def request_key(url: str, body: dict[str, Any]) -> str:
    """Return the SHA-256 of the address and the body; the order of the body's fields does not matter."""
    return sha256(json.dumps([url, body], sort_keys=True, ensure_ascii=True).encode()).hexdigest()


class Cache:
    """File of answers that several threads and processes may share.

    Raises InputError for a file of another kind, which is left unchanged, and for a file that cannot be read or
    written.

    >>> cache = Cache("answers.sqlite")
    >>> cache.path.exists()
    True
    """

    def __init__(self, path: str | Path) -> None:
        self.path, self._lock = Path(path), Lock()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, timeout=WAIT, check_same_thread=False, isolation_level=None)
        except (sqlite3.DatabaseError, OSError) as error:
            raise InputError(f"{path}: cannot be opened ({error}); name another file") from None
        try:
            self._begin()
        except sqlite3.DatabaseError as error:
            self._connection.close()
            raise InputError(f"{path}: not a file of answers ({error}); name another file or remove it") from None

    def _begin(self) -> None:
        """Create the table of answers, unless it exists.

        A file with any other content, such as triggers, is refused before something is written to it.
        """
        self._connection.execute("PRAGMA trusted_schema = OFF")
        schema = self._connection.execute("SELECT type, sql FROM sqlite_master").fetchall()
        if schema not in ([], [("table", SCHEMA)]):
            raise sqlite3.DatabaseError("it holds other tables")
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")
        self._connection.execute(SCHEMA.replace("TABLE", "TABLE IF NOT EXISTS", 1))

    def get(self, key: str) -> dict[str, Any] | None:
        """Return the stored response; None for an unknown key and for a response that cannot be read."""
        with self._access():
            row = self._connection.execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
        try:
            answer = None if row is None else json.loads(row[0])
        except (ValueError, RecursionError):
            return None
        return answer if isinstance(answer, dict) else None

    def put(self, key: str, answer: dict[str, Any]) -> None:
        """Store a response; it is on the disk when the call returns."""
        text = json.dumps(answer, ensure_ascii=True)
        with self._access():
            self._connection.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (key, text))

    @contextmanager
    def _access(self) -> Iterator[None]:
        try:
            with self._lock:
                yield
        except sqlite3.Error as error:
            advice = "free some space, or name another file; the same command resumes"
            raise InputError(f"{self.path}: cannot be used ({error}); {advice}") from None

    def __len__(self) -> int:
        with self._access():
            return int(self._connection.execute("SELECT count(*) FROM answers").fetchone()[0])

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Cache:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


EXPECTED = "one such as http://127.0.0.1:8080/v1"
PATHS = {"chat": "chat/completions", "completions": "completions"}
PAUSE, LONGEST_PAUSE = 0.5, 30.0  # seconds before the second try, and longest pause
EMPTY = "the server's answer holds no text"
SHOWN = 200  # characters of a server's error that a message quotes
SECRET = 8  # shortest key that is hidden in messages; shorter ones are placeholders such as "none"
LONGEST_WAIT = 1e6  # longest time-out in seconds


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Address of a server, and settings of the requests to it.

    Decoding is greedy unless ``temperature`` is above 0.

    Args:
        url: Address before ``/chat/completions``; it usually ends in /v1.
        model: Name of the model; "" to send none.
        api: "chat", or "completions" for base models, which continue a text.
        key: Name of the environment variable that holds the API key.
        max_tokens: Most tokens of an answer.
        temperature: Temperature of sampling; 0 for greedy decoding.
        seed: Seed that is sent with each request; None to send none.
        concurrency: Number of requests at once.
        timeout: Limit of a request in seconds.
        tries: Most tries of a request.

    >>> Endpoint("http://127.0.0.1:8000/v1", model="my-model", temperature=0.3).concurrency
    4
    """

    url: str
    model: str = ""
    api: str = "chat"
    key: str = "PHRASEMATE_LLM_KEY"
    max_tokens: int = 512
    temperature: float = 0.0
    seed: int | None = 0
    concurrency: int = 4
    timeout: float = 120.0
    tries: int = 6

    def __post_init__(self) -> None:
        check_fields(self)
        try:
            parts = urlsplit(self.url)
        except ValueError as error:  # [::1
            raise InputError(f"{self.url[:60]!r}: not a web address ({error}); expected {EXPECTED}") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"{self.label}: not a web address; expected {EXPECTED}")
        if parts.username or parts.password:
            raise InputError(f"{self.label}: holds a user name or password; put the key into ${self.key}")
        if self.api not in PATHS:
            raise InputError(f"api {self.api!r}; expected chat or completions")
        numbers = 0 < self.timeout <= LONGEST_WAIT and 0 <= self.temperature < float("inf")  # nor NaN
        if min(self.max_tokens, self.concurrency, self.tries) < 1 or not numbers:
            raise InputError(
                "max_tokens, concurrency, tries and timeout must be above 0 (a timeout up to 1,000,000 seconds), "
                "temperature 0 or more"
            )

    @property
    def target(self) -> str:
        """Return the address that requests are sent to."""
        parts = urlsplit(self.url)
        path = f"{parts.path.rstrip('/').removesuffix('/' + PATHS[self.api])}/{PATHS[self.api]}"
        return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))

    @property
    def label(self) -> str:
        """Return the address for messages, without user name, password and query, which may be secret."""
        parts = urlsplit(self.url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


class Answer(NamedTuple):
    """Answer of the model, or the ``failure`` that prevented it.

    ``cached``: whether it comes from an earlier run. ``cut``: whether it reached ``max_tokens``. ``steps``: prompts and
    answers in order, if the prompt was followed by another one.
    """

    text: str
    failure: str = ""
    cached: bool = False
    cut: bool = False
    prompt_tokens: int = 0
    tokens: int = 0
    steps: tuple[tuple[str, str], ...] = ()


def body_of(endpoint: Endpoint, prompt: Prompt) -> dict[str, Any]:
    """Return the body of the request for a prompt, in the form of the OpenAI interface."""
    body: dict[str, Any] = {"model": endpoint.model} if endpoint.model else {}
    if endpoint.api == "chat":
        body["messages"] = prompt.messages
    else:
        body |= {"prompt": prompt.text, "stop": [prompt.stop]}
    body |= {"max_tokens": endpoint.max_tokens, "temperature": endpoint.temperature}
    return body if endpoint.seed is None else body | {"seed": endpoint.seed}


class Client:
    """Client of one endpoint, a context manager; ``requests`` and ``repeats`` count requests and retries.

    >>> with Client(Endpoint("http://127.0.0.1:8000/v1"), Cache(Path("answers.sqlite"))) as client:
    ...     client.requests
    0
    """

    def __init__(self, endpoint: Endpoint, cache: Cache | None = None) -> None:
        self.endpoint, self.cache = endpoint, cache
        self.requests = self.repeats = 0
        self._has_answered, self._stop, self._lock = False, threading.Event(), threading.Lock()
        self._pending_keys: set[str] = set()  # keys of requests that are being asked
        self._turn = threading.Condition()
        key = os.environ.get(endpoint.key, "").strip()
        if not (key.isascii() and key.isprintable()):
            raise InputError(f"${endpoint.key} holds characters that a key cannot have; expected printable ASCII")
        self._key = key
        self._http = connected(key, endpoint.concurrency, endpoint.timeout)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._stop.set()
        self._http.close()

    def answers(self, prompts: Iterable[Prompt]) -> Iterator[Answer]:
        """Yield an answer for each prompt, in order; some prompts are read ahead of their answers.

        Raises EndpointError for errors that every prompt would meet.
        """
        waiting: deque[Future[Answer]] = deque()
        pool = ThreadPoolExecutor(self.endpoint.concurrency)
        try:
            for prompt in prompts:
                waiting.append(pool.submit(self._answer_or_stop, prompt))
                if len(waiting) >= 4 * self.endpoint.concurrency:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            self._stop.set()  # ends pauses and prevents further requests
            pool.shutdown(wait=True, cancel_futures=True)
            self._stop.clear()

    def _answer_or_stop(self, prompt: Prompt) -> Answer:
        try:
            return self.answer(prompt)
        except EndpointError:
            self._stop.set()  # the other requests would meet the same error
            raise

    def answer(self, prompt: Prompt) -> Answer:
        """Return the answer to a prompt, or to the last of the prompts that follow it. Raises EndpointError."""
        answer, steps = self._answer_one(prompt), []
        while prompt.follow is not None and not answer.failure:
            steps.append((prompt.text, answer.text))
            prompt, before = prompt.follow(answer.text), answer
            answer = self._answer_one(prompt)
            answer = answer._replace(
                cached=answer.cached and before.cached,
                prompt_tokens=answer.prompt_tokens + before.prompt_tokens,
                tokens=answer.tokens + before.tokens,
            )
        return answer._replace(steps=(*steps, (prompt.text, answer.text))) if steps else answer

    def _answer_one(self, prompt: Prompt) -> Answer:
        body = body_of(self.endpoint, prompt)
        key = request_key(self.endpoint.target, body)
        if self.cache is None:
            return self._ask(prompt, body, key)
        with self._exclusive(key):  # an equal request waits, so that it finds the answer in the cache
            return self._ask(prompt, body, key)

    @contextmanager
    def _exclusive(self, key: str) -> Iterator[None]:
        """Let only one thread at a time ask for a key."""
        with self._turn:
            self._turn.wait_for(lambda: key not in self._pending_keys)
            self._pending_keys.add(key)
        try:
            yield
        finally:
            with self._turn:
                self._pending_keys.discard(key)
                self._turn.notify_all()

    def _ask(self, prompt: Prompt, body: dict[str, Any], key: str) -> Answer:
        if self.cache is not None and (cache_entry := self.cache.get(key)) is not None:
            answer = _read(cache_entry, self.endpoint.api)
            if prompt.answered(answer.text):
                return answer._replace(cached=True)
        try:
            reply = self._try_repeatedly(body)
        except (_ConnectionLost, _ServerUnreachable) as error:
            raise EndpointError(
                f"{self.endpoint.label}: cannot be reached ({error}); check the address and that the server runs; "
                "the same command resumes where it stopped"
            ) from None
        except (_TemporaryFailure, _RequestRefused) as error:
            return Answer("", failure=str(error))
        answer = _read(reply, self.endpoint.api)
        if answer.failure:
            return answer._replace(failure=f"{answer.failure}: {self._shorten(json.dumps(reply))!r}")
        if self.cache is not None and prompt.answered(answer.text):
            self.cache.put(key, reply)
        return answer

    def _try_repeatedly(self, body: dict[str, Any]) -> dict[str, Any]:
        attempt = 0
        while True:
            try:
                with self._lock:
                    self.requests += 1
                    self.repeats += attempt > 0
                return self._send(body)
            except _TemporaryFailure as error:
                if attempt + 1 == self.endpoint.tries:
                    raise
                pause = min(LONGEST_PAUSE, PAUSE * 2**attempt) * random.uniform(0.5, 1)  # spread over time
                if self._stop.wait(max(pause, min(LONGEST_PAUSE, error.pause))):
                    raise
            attempt += 1

    def _send(self, body: dict[str, Any]) -> dict[str, Any]:
        import httpx2

        if self._stop.is_set():
            raise _RequestRefused("stopped")
        try:
            reply = post(self._http, self.endpoint.target, body, self.endpoint.timeout)
        except httpx2.ConnectTimeout as error:  # the next request would not connect either
            raise _ConnectionLost(
                f"no connection within {self.endpoint.timeout:g} s ({type(error).__name__})"
            ) from None
        except httpx2.TimeoutException as error:
            raise _TemporaryFailure(f"no answer within {self.endpoint.timeout:g} s ({type(error).__name__})") from None
        except httpx2.TransportError as error:
            reason = self._shorten(str(error) or type(error).__name__)
            if isinstance(error, httpx2.ConnectError | httpx2.UnsupportedProtocol):
                raise (_ConnectionLost if self._has_answered else _ServerUnreachable)(reason) from None
            raise _TemporaryFailure(f"the connection broke ({reason})") from None
        except httpx2.RequestError as error:
            raise _TemporaryFailure(f"the server's answer cannot be read ({self._shorten(str(error))})") from None
        except (httpx2.InvalidURL, UnicodeError) as error:
            raise _ServerUnreachable(f"not a web address: {self._shorten(str(error))}") from None
        self._judge(reply)
        try:
            reply_body = json.loads(reply.body)
        except (ValueError, RecursionError):
            raise _RequestRefused(f"the server's answer is not JSON: {self._shorten(reply.text)!r}") from None
        if not isinstance(reply_body, dict):
            raise _RequestRefused(f"the server's answer is not a JSON object: {self._shorten(reply.text)!r}")
        self._has_answered = True
        return reply_body

    def _judge(self, reply: Reply) -> None:
        """Raise the error that a status other than 2xx stands for."""
        status, detail = reply.status, ""
        if not 200 <= status < 300 and (reason := _reason(reply)):
            detail = f": {self._shorten(reason)}"
        if status in (401, 403):
            raise EndpointError(
                f"{self.endpoint.label}: the key was refused ({status}{detail}); put a valid key into the environment "
                f"variable {self.endpoint.key}, or name another variable with --key-env"
            )
        if status in (404, 405) or 300 <= status < 400:
            raise EndpointError(
                f"{self.endpoint.label}: the server knows no such address or model ({status}{detail}); give the "
                f"address before /{PATHS[self.endpoint.api]}, usually one that ends in /v1"
            )
        if status == 429 or status in (408, 409, 425) or status >= 500:
            self._has_answered, after = True, reply.after
            pause = float(after) if after.isascii() and after.isdecimal() else 0.0
            raise _TemporaryFailure(f"the server said {status}{detail}", pause)
        if status >= 400:
            raise _RequestRefused(f"the server said {status}{detail}")

    def _shorten(self, text: str) -> str:
        """Return the beginning of a server's text on one line, with the key hidden, since some servers repeat it."""
        for key in {self._key, self._key.replace("/", r"\/")}:
            text = text.replace(key, "[key]") if len(self._key) >= SECRET else text
        text = " ".join(text[: 100 * SHOWN].split())
        return text if len(text) <= SHOWN else text[:SHOWN] + "..."


def _read(reply_body: dict[str, Any], api: str) -> Answer:
    """Return the answer in a response; it has a failure if the response holds no text."""
    try:
        choice = reply_body["choices"][0]
        text = choice["message"]["content"] if api == "chat" else choice["text"]
    except (KeyError, IndexError, TypeError):
        return Answer("", failure=EMPTY)
    if text is not None and not isinstance(text, str):
        return Answer("", failure=EMPTY)
    usage = reply_body["usage"] if isinstance(reply_body.get("usage"), dict) else {}
    prompt, content = (
        count if isinstance(count := usage.get(f"{name}_tokens"), int) else 0 for name in ("prompt", "completion")
    )
    return Answer(text or "", "", False, choice.get("finish_reason") == "length", prompt, content)


def _reason(reply: Reply) -> str:
    """Return the reason that the server gives for an error."""
    try:
        error = json.loads(reply.body)["error"]
        return str(error["message"] if isinstance(error, dict) else error)
    except (ValueError, KeyError, TypeError, RecursionError):
        return reply.text
