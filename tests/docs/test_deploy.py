"""What ``deploy/`` has is what the page shows, and the unit and the proxies' files are right where that can be told."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from phrasemate.server.settings import Settings
from phrasemate.server.tokens import Tokens

ROOT = Path(__file__).parents[2]
PROXIES = [name for name in ("nginx", "caddy") if shutil.which(name)]
DEPLOY = ROOT / "deploy"


@pytest.mark.parametrize("name", ["phrasemate.service", "nginx.conf", "Caddyfile", "Containerfile"])
def test_the_page_shows_the_file(name: str) -> None:
    page = (ROOT / "docs" / "how-to" / "deploy.md").read_text("utf-8")
    assert f"\n{(DEPLOY / name).read_text('utf-8')}```\n" in page


def test_the_user_of_the_page_may_change_the_glossary(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "deploy.md").read_text("utf-8")
    (example,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "tokens.toml").write_text(example, "utf-8")
    user = Tokens(tmp_path / "tokens.toml").user(b"test")
    assert user is not None
    assert (user.name, user.may("write"), user.may("admin")) == ("anna", True, False)


def test_nginx_takes_addresses_as_long_as_the_server_does() -> None:
    """The address of the page contains its text: nginx's own 8 kB end at 900 Chinese characters."""
    sizes = re.findall(r"large_client_header_buffers \d+ (\d+)k;", (DEPLOY / "nginx.conf").read_text("utf-8"))
    assert [int(size) << 10 for size in sizes] == [Settings().header_bytes]


def test_commands_have_known_options() -> None:
    declared = set(re.findall(r'"(--[a-z-]+)"', (ROOT / "src" / "phrasemate" / "cli" / "serve.py").read_text("utf-8")))
    for name in ("phrasemate.service", "Containerfile"):
        text = (DEPLOY / name).read_text("utf-8").replace("\\\n", " ")
        served = re.findall(r" serve (.*)", text)
        assert served
        assert {option for line in served for option in re.findall(r"--[a-z-]+", line)} - declared - {"--help"} == set()


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd here")
def test_the_unit_is_one() -> None:
    result = subprocess.run([DEPLOY / "check.sh", "proxies"], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert re.search(r"exposure level .* [01]\.\d OK", result.stdout)


@pytest.mark.slow
@pytest.mark.skipif(not PROXIES, reason="no proxy here")
def test_the_proxies_do_what_their_files_say() -> None:
    result = subprocess.run([sys.executable, DEPLOY / "exercise.py"], capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("the proxy without a server") == len(PROXIES)
