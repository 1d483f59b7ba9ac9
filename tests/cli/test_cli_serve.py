"""``phrasemate serve`` as a process: it starts, answers, and stops in good order."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import phrasemate.server
from phrasemate.encode import bundled_folder, load_model
from phrasemate.index import Index
from phrasemate.types import Document

MAIN = [sys.executable, "-c", "from phrasemate.cli import main; main()"]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not bundled_folder().exists():
        pytest.skip("no bundled model")
    path = tmp_path_factory.mktemp("serve") / "idx"
    with Index.create(path, load_model(threads=1), threads=1) as result:
        result.add([Document.from_texts("a.txt", ["The bank refused the loan.", "She sat on a bench."])], lang="en")
    return path


@pytest.mark.slow
def test_it_answers_and_finishes_what_it_does_before_it_stops(index: Path) -> None:
    command = [*MAIN, "serve", str(index), "--port", "0", "--threads", "1", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        record = json.loads(process.stdout.readline())
        assert (record["indexes"], record["token"]) == (["idx"], False)
        assert record["url"].startswith("http://127.0.0.1:")
        body = json.dumps({"query": "Er sitzt auf der [[Bank]]."}).encode()
        request = urllib.request.Request(f"{record['url']}api/v1/search", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=20) as answer:
            result = json.load(answer)["results"][0]["groups"]
        assert {"bank", "bench"} <= {group["text"] for group in result}

        texts = [f"Satz {number} von vielen über Bänke und Banken. " * 4 for number in range(40)]
        request = urllib.request.Request(
            f"{record['url']}api/v1/segment",
            json.dumps({"texts": texts}).encode(),
            {"Content-Type": "application/json"},
        )
        timer = threading.Timer(0.05, process.terminate)
        timer.start()
        with urllib.request.urlopen(request, timeout=20) as answer:  # told to stop while it works on this
            assert not timer.is_alive()
            assert len(json.load(answer)["phrases"]) == 40
        assert process.wait(20) == 0
        with pytest.raises(OSError, match="refused"):
            urllib.request.urlopen(record["url"], timeout=5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--host", "0.0.0.0"], "0.0.0.0 can be reached by others, so a token is needed"),
        (["--token-file", "nowhere"], "nowhere: cannot be read"),
        (["--host", "203.0.113.1", "--token-file", "token"], "cannot listen on 203.0.113.1, port 8000"),
        ([], "no index at"),
    ],
)
def test_what_it_refuses_is_one_line(
    invoke: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PHRASEMATE_TOKEN", raising=False)
    Path("token").write_text("a-token-of-24-characters")
    port = [] if "203.0.113.1" in arguments else ["--port", "0"]
    result = invoke("serve", "idx", *arguments, *port)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_without_its_packages_it_says_how_to_install_them(
    invoke: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(phrasemate, "server", phrasemate.server)  # importing it again would leave the new one there
    for name in [name for name in sys.modules if name.startswith("phrasemate.server")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    result = invoke("serve", "idx")
    assert result.exit_code == 1
    assert "pip install 'phrasemate[serve]'" in result.stderr


def test_help_has_examples(invoke: Callable[..., Any]) -> None:
    assert "phrasemate serve idx" in invoke("serve", "--help").stdout


def test_a_reload_before_the_indexes_are_open_does_not_stop_it(tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    code = """
import os, signal
from phrasemate.cli import main
from phrasemate.server import indexes

def opening(*arguments, **options):
    os.kill(os.getpid(), signal.SIGHUP)
    os._exit(7)

indexes.Library = opening
main()
"""
    command = [sys.executable, "-c", code, "serve", str(tmp_path), "--port", "0"]
    assert subprocess.run(command, check=False, timeout=60).returncode == 7
