"""Start phrasemate behind each proxy that is installed, with the files of this folder, and ask it over TLS.

Everything runs on the loopback address, on free ports, with a certificate of its own. The files are changed in nothing
but addresses and certificates. Prints a line for each thing that was tried; ends with 1 at the first that is wrong.

    python deploy/exercise.py             all proxies that are there
    python deploy/exercise.py nginx       one of them

NGINX_BIN and CADDY_BIN name programs that are not on the path. PHRASEMATE is the command that is served
(default: this Python's package).
"""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import shlex
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

HERE = Path(__file__).parent
NAME = "terms.example.org"
MODULE = [sys.executable, "-c", "import sys; from phrasemate.cli import main; sys.argv[0] = 'phrasemate'; main()"]
COMMAND = shlex.split(os.environ.get("PHRASEMATE", "")) or MODULE
TEXT = "She sat on a bench in the park.\nThe bank refused the loan.\nThe river flows through the town.\n"
QUERY = json.dumps({"query": "Er sitzt auf der [[Bank]].", "k": 2}).encode()
JSON = {"Content-Type": "application/json"}
SLOW_CLIENTS, PATIENCE = 20, 16.0  # clients that never finish their headers; seconds until the proxy lets them go
BURST = 120  # requests at once, of which the proxy refuses some
LARGEST = 17 << 20  # bytes, more than a body may have


class Site(NamedTuple):
    """A proxy in front of the server: its ports, the certificate to trust, and the server behind it."""

    proxy: str
    https: int
    plain: int
    trust: ssl.SSLContext
    server: subprocess.Popen[str]
    log: Path

    def ask(
        self, path: str, body: bytes | None = None, headers: Mapping[str, str] = JSON, host: str = NAME
    ) -> tuple[int, bytes, Mapping[str, str]]:
        """Status, body and headers of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.https, timeout=60)
        connection.sock = self.opened()
        try:
            connection.request("GET" if body is None else "POST", path, body, {"Host": host, **headers})
            answer = connection.getresponse()
            return answer.status, answer.read(), dict(answer.headers)
        finally:
            connection.close()

    def opened(self) -> ssl.SSLSocket:
        """A new connection to the proxy, its certificate checked."""
        plain = socket.create_connection(("127.0.0.1", self.https), timeout=60)
        return self.trust.wrap_socket(plain, server_hostname=NAME)

    def logged(self) -> list[dict[str, Any]]:
        """The lines of the server's log."""
        return [json.loads(line) for line in self.log.read_text("utf-8").splitlines() if line.endswith("}")]

    def logged_as(self, number: str) -> dict[str, Any]:
        """The line of a request in the server's log, which is written after the answer. Raises Wrong."""
        until = time.monotonic() + 10
        while time.monotonic() < until:
            if lines := [line for line in self.logged() if line["id"] == number]:
                return lines[0]
            time.sleep(0.02)
        raise Wrong(f"no line of the log has the number of the request: {number}")


class Wrong(Exception):
    """Something that the proxy or the server did otherwise than its files say."""


def check(holds: object, what: str, seen: object) -> None:
    """Print what holds. Raises Wrong."""
    if not holds:
        raise Wrong(f"{what}: {seen!r}")
    print(f"   {what}: {seen}", flush=True)


# -- what is tried


def answers(site: Site) -> None:
    """Pages and searches over TLS, and the plain address."""
    status, page, _ = site.ask("/", headers={})
    check(status == 200 and b"<html" in page, "page over TLS, bytes", len(page))
    query = urlencode({"q": "公園のベンチに座る。" * 500})  # as long as a text may be
    check((status := site.ask(f"/?{query}", headers={})[0]) == 200, f"an address of {len(query)} bytes", status)
    status, body, headers = site.ask("/api/v1/search", QUERY)
    check(status == 200 and json.loads(body).get("results"), "search over TLS, status", status)
    number = next(value for name, value in headers.items() if name.lower() == "x-request-id")
    line = site.logged_as(number)
    check(line["route"] == "/api/v1/search" and line["status"] == 200, "its number in the log", number)
    check(b"Bank" not in site.log.read_bytes(), "the text of the query in the log", False)
    connection = http.client.HTTPConnection("127.0.0.1", site.plain, timeout=20)
    connection.request("GET", "/", headers={"Host": NAME})
    moved = connection.getresponse()
    check(moved.status in (301, 308) and f"https://{NAME}" in (moved.getheader("Location") or ""), "http", moved.status)
    connection.close()


def refusals(site: Site) -> None:
    """What is not for the outside, what is too large, and another host's name."""
    for path in ("/metrics", "/api/v1/reload"):
        check((status := site.ask(path, b"" if "reload" in path else None)[0]) == 403, path, status)
    try:
        status = site.ask("/api/v1/search", b"x" * LARGEST)[0]
    except (ConnectionError, ssl.SSLError):  # it need not read on before it closes
        status = 413
    check(status == 413, f"a body of {LARGEST >> 20} MB", status)


def slow_clients(site: Site) -> None:
    """Clients that never end their headers hold up nobody, and are let go."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(site.opened()) for _ in range(SLOW_CLIENTS)]
        for one in sockets:
            one.sendall(f"GET / HTTP/1.1\r\nHost: {NAME}\r\nX-Slow: ".encode())
        start = time.monotonic()
        status = site.ask("/health", headers={})[0]
        check(status == 200, f"answer beside {SLOW_CLIENTS} slow clients, s", round(time.monotonic() - start, 2))
        open_sockets = list(sockets)
        while open_sockets and time.monotonic() - start < PATIENCE:
            open_sockets = [one for one in open_sockets if not closed(one)]
        seconds = round(time.monotonic() - start, 1)
        check(not open_sockets, "all slow clients let go, s", seconds)


def closed(connection: ssl.SSLSocket) -> bool:
    """Whether the other side has ended a connection on which it need not have answered."""
    connection.settimeout(0.05)
    try:
        return not connection.recv(4096)  # an answer that says why comes first
    except TimeoutError:
        return False
    except OSError:
        return True


def slow_body(site: Site) -> None:
    """A body that comes in pieces arrives whole."""
    with site.opened() as connection:
        head = (
            f"POST /api/v1/search HTTP/1.1\r\nHost: {NAME}\r\nContent-Type: application/json\r\nConnection: close\r\n"
        )
        connection.sendall(f"{head}Content-Length: {len(QUERY)}\r\n\r\n".encode())
        for at in range(0, len(QUERY), 16):
            connection.sendall(QUERY[at : at + 16])
            time.sleep(0.2)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    check(answer.split()[1] == b"200", "a body in pieces, status", answer.split()[1].decode())


def rates(site: Site) -> None:
    """Many requests at once: nginx refuses some with 429; Caddy has no limit of its own."""
    with ThreadPoolExecutor(16) as pool:
        statuses = Counter(pool.map(lambda _: site.ask("/health", headers={})[0], range(BURST)))
    expected = {200, 429} if site.proxy == "nginx" else {200}
    check(set(statuses) == expected, f"{BURST} requests at once", dict(statuses))
    time.sleep(5)  # until the proxy has forgotten them


def reloads(site: Site) -> None:
    """No request fails while indexes are opened again."""
    with ThreadPoolExecutor(3) as pool:
        pending = [pool.submit(site.ask, "/api/v1/search", QUERY) for _ in range(24)]
        for _ in range(3):
            site.server.send_signal(signal.SIGHUP)
            time.sleep(1)
        statuses = Counter(one.result()[0] for one in pending)
    check(set(statuses) == {200}, "searches during three reloads", dict(statuses))
    check(site.server.poll() is None, "the server runs on", True)


def stops(site: Site) -> None:
    """What runs is finished; afterwards the proxy says that nobody answers."""
    with ThreadPoolExecutor(1) as pool:
        texts = [f"Er sitzt auf der [[Bank]] Nummer {number}." for number in range(200)]
        running = pool.submit(site.ask, "/api/v1/search", json.dumps({"query": " ".join(texts[:20])}).encode())
        time.sleep(0.3)
        site.server.send_signal(signal.SIGTERM)
        check((status := running.result()[0]) == 200, "a search that ran when the server was stopped", status)
    check((code := site.server.wait(60)) == 0, "the server's exit status", code)
    check((status := site.ask("/ready", headers={})[0]) in (502, 503), "the proxy without a server", status)


STEPS = (answers, refusals, slow_clients, slow_body, rates, reloads, stops)


# -- what runs


def free_port() -> int:
    """Find a port that nothing listens on, below those that the system gives to clients: none of them takes it next."""
    for port in random.sample(range(20_000, 32_000), 100):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise Wrong("no port between 20,000 and 32,000 is free")


def certify(work: Path) -> ssl.SSLContext:
    """Make a certificate; returns what trusts it alone."""
    names = ["-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}"]
    files = ["-keyout", str(work / "privkey.pem"), "-out", str(work / "fullchain.pem")]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *names, *files]
    subprocess.run(command, check=True, capture_output=True)
    return ssl.create_default_context(cafile=str(work / "fullchain.pem"))


@contextmanager
def running(command: list[str], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A process, stopped at the end."""
    process = subprocess.Popen(command, text=True, **options)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()


def nginx(work: Path, https: int, plain: int, behind: int) -> list[str]:
    """The command of nginx with our file."""
    text = (HERE / "nginx.conf").read_text("utf-8")
    text = text.replace("listen 443 ssl", f"listen 127.0.0.1:{https} ssl").replace(
        "listen 80", f"listen 127.0.0.1:{plain}"
    )
    text = text.replace(f"/etc/letsencrypt/live/{NAME}", str(work)).replace("127.0.0.1:8000", f"127.0.0.1:{behind}")
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    folders = " ".join(f"{kind}_temp_path {work / kind};" for kind in kinds)
    main = f"daemon off; master_process off; pid {work / 'nginx.pid'}; events {{}}"
    (work / "nginx.conf").write_text(f"{main}\nhttp {{ access_log off; {folders}\n{text}\n}}\n", "utf-8")
    return [os.environ.get("NGINX_BIN", "nginx"), "-e", "stderr", "-c", str(work / "nginx.conf")]


def caddy(work: Path, https: int, plain: int, behind: int) -> list[str]:
    """The command of Caddy with our file."""
    text = (HERE / "Caddyfile").read_text("utf-8").replace("127.0.0.1:8000", f"127.0.0.1:{behind}")
    ports = f"\tadmin off\n\thttp_port {plain}\n\thttps_port {https}\n\tdefault_bind 127.0.0.1\n"
    text = text.replace("\n{\n", f"\n{{\n{ports}", 1)
    certificate = f"\ttls {work / 'fullchain.pem'} {work / 'privkey.pem'}\n"
    text = text.replace(f"\n{NAME} {{\n", f"\n{NAME} {{\n{certificate}", 1)
    (work / "Caddyfile").write_text(text, "utf-8")
    return [os.environ.get("CADDY_BIN", "caddy"), "run", "--config", str(work / "Caddyfile"), "--adapter", "caddyfile"]


PROXIES = {"nginx": nginx, "caddy": caddy}


def exercise(proxy: str, work: Path) -> None:
    """Try everything with one proxy."""
    trust, log = certify(work), work / "requests.log"
    (work / "a.txt").write_text(TEXT, "utf-8")
    index = str(work / "news")
    subprocess.run([*COMMAND, "index", "add", str(work / "a.txt"), "-o", index, "--lang", "en"], check=True)
    https, plain = free_port(), free_port()
    serve = ["serve", index, "--port", "0", "--json", "--allow-host", NAME, "--access-log", str(log)]
    environment = {**os.environ, "HOME": str(work), "XDG_DATA_HOME": str(work), "XDG_CONFIG_HOME": str(work)}
    with ExitStack() as stack:
        server = stack.enter_context(running([*COMMAND, *serve], stdout=subprocess.PIPE))
        assert server.stdout is not None
        line = server.stdout.readline()
        behind = int(re.findall(r":(\d+)", json.loads(line)["url"])[0])
        messages = stack.enter_context((work / "proxy.log").open("w"))
        command = PROXIES[proxy](work, https, plain, behind)
        process = stack.enter_context(running(command, stderr=messages, stdout=messages, env=environment))
        site = Site(proxy, https, plain, trust, server, log)
        wait_for(site, process, work / "proxy.log")
        for step in STEPS:
            step(site)


def wait_for(site: Site, process: subprocess.Popen[str], messages: Path) -> None:
    """Wait until the proxy completes a TLS handshake. Raises Wrong if it ends, or after 30 seconds."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and process.poll() is None:
        try:
            site.opened().close()
            return
        except OSError:
            time.sleep(0.1)
    raise Wrong(f"no answer on port {site.https}: {messages.read_text('utf-8')}")


def main() -> None:
    """Exercise the proxies that are there."""
    for proxy in sys.argv[1:] or PROXIES:
        program = os.environ.get(f"{proxy.upper()}_BIN", proxy)
        if shutil.which(program) is None:
            print(f"-- {proxy} is not installed: passed over")
            continue
        print(f"== {proxy}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            try:
                exercise(proxy, Path(folder))
            except Wrong as error:
                raise SystemExit(f"{proxy}: {error}") from error


if __name__ == "__main__":
    main()
