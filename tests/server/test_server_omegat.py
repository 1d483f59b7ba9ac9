"""The script for OmegaT against a server on a socket: run by Groovy with what OmegaT gives its scripts, and by OmegaT.

OmegaT also opens the glossary of a user, in three formats.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from server_fakes import FakeModel, make_index, running

from phrasemate.glossary import Entry, Glossary, write_glossary
from phrasemate.server.page import DEFAULT
from phrasemate.server.settings import Settings

SCRIPT = Path(__file__).parents[2] / "src" / "phrasemate" / "server" / "page" / "programs" / "phrasemate.groovy"
JAR = Path(os.environ.get("PHRASEMATE_OMEGAT") or "/usr/share/omegat/OmegaT.jar")
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


PROJECT = """<?xml version="1.0" encoding="UTF-8"?>
<omegat><project version="1.0"><source_lang>DE</source_lang><target_lang>EN</target_lang>
<source_tok>org.omegat.tokenizer.LuceneGermanTokenizer</source_tok>
<target_tok>org.omegat.tokenizer.LuceneEnglishTokenizer</target_tok>
<sentence_seg>true</sentence_seg></project></omegat>
"""
PREFERENCES = (
    '<?xml version="1.0" encoding="UTF-8"?><omegat><preference version="1.0"><scripts_dir>{}</scripts_dir>'
    "</preference></omegat>"
)
ENTRIES = [
    ("Kündigungsfrist", "notice period"),
    ("Bank", "bank"),
    ("Mietvertrag", "lease"),
    ("auf eigene Gefahr", "at one's own risk"),
    ("Vertragsstrafe", "contractual penalty"),
    ("höhere Gewalt", "force majeure"),
    ("Gerichtsstand", "place of jurisdiction"),
    ("Gewährleistung", "warranty"),
    ("Verjährung", "limitation"),
    ("Haftungsausschluss", "exclusion & disclaimer of liability"),
]


@pytest.fixture(scope="module")
def display(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A display without a screen. Skips the test without one, or without OmegaT."""
    if not JAR.exists() or not shutil.which("java") or not shutil.which("Xvfb"):
        pytest.skip("no OmegaT is installed: apt-get install omegat xvfb")
    read, write = os.pipe()
    command = ["Xvfb", "-displayfd", str(write), "-screen", "0", "1024x768x24", "-nolisten", "tcp"]
    server = subprocess.Popen(command, pass_fds=[write], stderr=subprocess.DEVNULL)
    os.close(write)
    with os.fdopen(read) as numbers:
        number = numbers.readline().strip()
    yield f":{number}"
    server.terminate()
    server.wait(30)


@pytest.mark.slow
def test_omegat_runs_the_script_and_opens_the_glossary(display: str, port: int, tmp_path: Path) -> None:
    glossary = Glossary(tmp_path / "kept.jsonl")
    for source, target in ENTRIES:
        glossary.add(Entry(source, target, "de", "en", domain="law"))
    glossary.add(Entry("Bank", "bench", "de", "en", "deprecated"))
    entries = Glossary(glossary.path).entries  # as after a restart
    project, result = tmp_path / "project", tmp_path / "result.json"
    events = tmp_path / "settings" / "scripts" / "entry_activated"
    for folder in (
        *(project / name for name in ("source", "target", "tm", "glossary", "dictionary", "omegat")),
        events,
    ):
        folder.mkdir(parents=True)
    for name, format_ in (("a.txt", "omegat"), ("b.tbx", "tbx2")):
        write_glossary(project / "glossary" / name, entries, format_)
    write_glossary(project / "tm" / "c.tmx", entries, "tmx")
    (project / "omegat.project").write_text(PROJECT, "utf-8")
    (project / "source" / "text.txt").write_text("Die bank gab den loan nicht.\n", "utf-8")
    script = tmp_path / SCRIPT.name
    script.write_text(SCRIPT.read_text("utf-8").replace(DEFAULT, f"http://127.0.0.1:{port}"), "utf-8")
    driver = (Path(__file__).parent / "omegat_driver.groovy").read_text("utf-8")
    (events / "driver.groovy").write_text(driver.replace("SCRIPT", str(script)).replace("RESULT", str(result)), "utf-8")
    (tmp_path / "settings" / "omegat.prefs").write_text(PREFERENCES.format(events.parent), "utf-8")
    command = ["java", "-Duser.language=en", f"-Duser.home={tmp_path}", "-Dfile.encoding=UTF-8", "-jar", str(JAR)]
    subprocess.run(
        [*command, str(project), f"--config-dir={tmp_path / 'settings'}"],
        **{"env": {**os.environ, "DISPLAY": display}, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL},
        timeout=240,
    )
    report = json.loads(result.read_text("utf-8"))
    assert "error" not in report, report["error"]
    assert report["name"] == "phrasemate"
    assert report["selected"][:2] == ["bank", "  100 %  bank  (index)  The bank refused to extend the loan."]
    assert "bank" in report["segment"]
    # of both files; OmegaT does not look at the status of a term base, and the glossary made for it has no such entry
    assert sorted(tuple(row[:2]) for row in report["glossary"]) == sorted([*ENTRIES, *ENTRIES, ("Bank", "bench")])
    assert ["Bank", "bank", "law"] in report["glossary"]
    assert sorted(map(tuple, report["memory"])) == sorted(ENTRIES)
