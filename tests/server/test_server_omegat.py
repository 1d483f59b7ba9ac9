"""The script for OmegaT, run by Groovy with what OmegaT gives its scripts, against a server on a socket."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from server_fakes import FakeModel, make_index, running

from phrasemate.server.page.tools import DEFAULT
from phrasemate.server.settings import Settings

SCRIPT = Path(__file__).parents[2] / "src" / "phrasemate" / "server" / "page" / "programs" / "phrasemate.groovy"
OMEGAT = """
class Console { void println(text) { System.out.println(text) } }
def (path, named, sets) = [args[0], args[1], args[2..-1].collate(4)]
sets.each { server, language, selected, segment ->
    def names = [
        console: new Console(),
        project: [projectProperties: [targetLanguage: [languageCode: language]]],
        editor: [selectedText: selected ?: null, currentEntry: [srcText: segment]],
    ]
    new GroovyShell(new Binding(names)).evaluate(new File(path).getText("UTF-8").replace(named, server))
    println "--"
}
"""


@pytest.fixture(scope="module")
def groovy() -> str:
    """The interpreter, with a Java. Skips the test without one."""
    program = shutil.which("groovy")
    if not program or not shutil.which("java"):
        pytest.skip("no Groovy is installed: apt-get install groovy")
    return program


@pytest.fixture(scope="module")
def port(groovy: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    model = FakeModel()
    with running(make_index(tmp_path_factory.mktemp("omegat") / "idx", model), Settings(), model) as number:
        yield number


def test_selected_words_are_looked_up_in_their_segment(groovy: str, port: int, tmp_path: Path) -> None:
    """One run of Groovy for all, which takes longer to start than to ask."""
    server = f"http://127.0.0.1:{port}"
    states = [
        (server, "EN", "bank", "Die bank gab den loan nicht."),
        (server, "FR", "", "bank"),
        ("http://127.0.0.1:1", "EN", "", "bank"),
    ]
    (tmp_path / "omegat.groovy").write_text(OMEGAT, "utf-8")
    java = Path(os.environ.get("JAVA_HOME") or Path(shutil.which("java") or "").resolve().parents[1])
    result = subprocess.run(
        [groovy, str(tmp_path / "omegat.groovy"), str(SCRIPT), DEFAULT, *(text for state in states for text in state)],
        **{"capture_output": True, "text": True, "timeout": 120},
        env={**os.environ, "JAVA_HOME": str(java), "JAVA_OPTS": "-Dfile.encoding=UTF-8 -Xshare:auto"},
    )
    assert result.returncode == 0, result.stderr
    selected, nothing, absent = (part.strip("\n").splitlines() for part in result.stdout.split("--\n")[:3])
    assert selected[0] == "bank"
    assert selected[1] == "  100 %  bank  (index)  The bank refused to extend the loan."
    assert len(selected) == 1 + 5
    assert nothing == ["phrasemate: nothing for this segment in fr"]
    assert absent[0].startswith("phrasemate: no answer from http://127.0.0.1:1 ")
