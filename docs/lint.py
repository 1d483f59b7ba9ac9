"""Check the prose of the pages: short sentences, little punctuation, plain words.

Without arguments every page that users read is checked, then the records (decisions, reports, the pages for
contributors) and the words of the source: messages, help texts, docstrings and comments. With pages, only these are
checked, and every long sentence is printed. Leaves with 1 where a gate is missed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
GENERATED = HERE / "reference" / "generated"
SECTIONS = ("tutorials", "how-to", "explanation", "reference", "results")

MEAN = 16.0  # words of a sentence
LONG, LONG_SHARE = 30, 0.06  # more words than this are too many, in more than this share of the sentences
LONGEST = 34  # words that no sentence exceeds
MARKS, MARKS_SHARE = 4, 0.06  # as many commas, colons, semicolons and brackets are heavy
TOTAL = 33_000  # words that are written by hand, tables included, code left out

AVOID = {
    r"\banew\b": "again, or rebuild",
    r"(?<!there )\b(is|are|was|were) no (?!longer|more\b|less\b)": "is not a",
    r"\bgo(es)? on\b": "continues, or resumes",
    r"\bin place of\b": "instead of",
    r"\bbegun\b": "started",
    r"\b(is|are|was|were) told\b": "is reported",
    r"\bwritten over\b|\bwrites? over\b": "overwrite",
    r"\b(is|are) there already\b": "already exists",
    r"\btaken along\b": "exported",
    r"\bthat (is|are) none\b": "leave it out",
    r"\bwhole now\b": "complete",
    r"\bby falling\b": "highest first",
    r"\bmend(ed|s)?\b": "fix",
    r"\b(it|that|what|as|so) (is|was|has been) said\b|\bsaid of\b": "describe it",
    r"\bmade up of\b|\b(is|are) made of\b": "consists of",
}
DECIMAL = {r"(?<![\w.])\.\d": "a decimal with its leading zero"}


@dataclass(frozen=True)
class Figures:
    """What a text measures: sentences, words of a sentence, shares of long and of heavy sentences."""

    sentences: int
    mean: float
    long: float
    heavy: float


def pages() -> list[Path]:
    """The pages that users read and that are written by hand."""
    sections = [page for section in SECTIONS for page in (HERE / section).rglob("*.md")]
    written = [page for page in sections if GENERATED not in page.parents]
    return [ROOT / "README.md", ROOT / "CHANGELOG.md", HERE / "index.md", *sorted(written)]


def records() -> list[Path]:
    """Pages for contributors and reports: plain words and short sentences, though they may be heavy with figures."""
    contributors = [ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]
    return [*contributors, *sorted((HERE / "decisions").glob("*.md")), *sorted((ROOT / "results").rglob("*.md"))]


def sources() -> list[Path]:
    """Files whose words users or contributors read: modules, templates and scripts of the page, configurations."""
    folder = ROOT / "src" / "phrasemate"
    return sorted(path for ending in ("py", "html", "js", "toml") for path in folder.rglob(f"*.{ending}"))


def prose(text: str) -> str:
    """The running text of a page: no code, tables, headings, comments or addresses of links."""
    text = re.sub(r"^(```|~~~).*?^\1[^\n]*$", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"^ *(\||#).*$|^signatures?:.*$", "", text, flags=re.MULTILINE | re.IGNORECASE)
    text = re.sub(r"^( {4}|\t)(?! *([-*]|\d+\.) ).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`\n]+`", "code", text)
    return re.sub(r"<[^>]+>|\*\*|(?<!\w)[*_]|[*_](?!\w)", "", text)


def sentences(text: str) -> Iterator[str]:
    """Sentences of the running text; an item of a list and a paragraph each end one."""
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", prose(text)):
        words = " ".join(re.sub(r"^\s*([-*]|\d+\.) ", "", paragraph).split())
        for sentence in re.split(r"(?<=[.!?])[\"”)]?\s+(?=[\"“(]?[A-Z0-9ÄÖÜ]|code)", words):
            if len(sentence.split()) > 1:
                yield sentence


def heavy(sentence: str) -> bool:
    """True for a sentence with too many commas, colons, semicolons and opening brackets."""
    return len(re.findall(r"[,;:](?!\d)|\(", sentence)) >= MARKS


def measure(text: str) -> Figures:
    """The figures of a page or of many pages joined."""
    every = [(len(sentence.split()), heavy(sentence)) for sentence in sentences(text)]
    count = max(len(every), 1)
    return Figures(
        len(every),
        sum(words for words, _ in every) / count,
        sum(words > LONG for words, _ in every) / count,
        sum(marked for _, marked in every) / count,
    )


def misses(text: str) -> list[str]:
    """What keeps a page from passing: gates that are missed, and words to avoid."""
    figures = measure(text)
    findings = lengths(text)
    if round(figures.heavy * figures.sentences) > max(1, MARKS_SHARE * figures.sentences):
        findings.append(f"{figures.heavy:.0%} of the sentences with heavy punctuation, at most {MARKS_SHARE:.0%}")
    return findings + avoided(prose(text), AVOID | DECIMAL)


def lengths(text: str) -> list[str]:
    """The gates on the length of sentences that a page misses."""
    figures = measure(text)
    findings = [f"mean sentence {figures.mean:.1f} words, at most {MEAN:.0f}"] if figures.mean > MEAN else []
    if round(figures.long * figures.sentences) > max(1, LONG_SHARE * figures.sentences):
        findings.append(f"{figures.long:.0%} of the sentences over {LONG} words, at most {LONG_SHARE:.0%}")
    return findings + [
        f"{len(sentence.split())} words, at most {LONGEST}: {sentence[:60]}"
        for sentence in sentences(text)
        if len(sentence.split()) > LONGEST
    ]


def avoided(text: str, words: dict[str, str]) -> list[str]:
    """Words to avoid, each with what is around it and a better one."""
    findings = []
    for pattern, better in words.items():
        for match in re.finditer(pattern, text, re.IGNORECASE):
            around = " ".join(text[max(0, match.start() - 25) : match.end() + 25].split())
            findings.append(f"'{match[0].strip()}' in '{around}'; better: {better}")
    return findings


def problems() -> dict[Path, list[str]]:
    """Every page, record and source with what it misses."""
    checked = {page: misses(page.read_text("utf-8")) for page in pages()}
    for record in records():
        text = record.read_text("utf-8")
        checked[record] = lengths(text) + avoided(prose(text), AVOID | DECIMAL)
    checked |= {source: avoided(source.read_text("utf-8"), AVOID) for source in sources()}
    return {path.relative_to(ROOT): findings for path, findings in checked.items() if findings}


def words(text: str) -> int:
    """Words that somebody wrote: everything but code, comments and addresses of links."""
    text = re.sub(r"^(```|~~~).*?^\1[^\n]*$", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return len(re.findall(r"\w[\w'’.,-]*", text))


def main(names: list[str]) -> int:
    chosen = [Path(name).resolve() for name in names] or pages()
    texts = {page: page.read_text("utf-8") for page in chosen}
    missed = problems() if not names else {page: misses(text) for page, text in texts.items()}
    for page, findings in missed.items():
        for problem in findings:
            print(f"{page}: {problem}")
    if names:
        for text in texts.values():
            for sentence in sentences(text):
                if len(sentence.split()) > LONG or heavy(sentence):
                    print(f"    {sentence}")
    total = sum(words(text) for text in texts.values())
    figures = measure("\n\n".join(texts.values()))
    print(
        f"{len(texts)} pages, {total:,} words; {figures.sentences:,} sentences of {figures.mean:.1f} words, "
        f"{figures.long:.1%} over {LONG} words, {figures.heavy:.1%} with heavy punctuation"
    )
    if not names and total > TOTAL:
        print(f"more than {TOTAL:,} words")
    return any(missed.values()) or (not names and total > TOTAL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
