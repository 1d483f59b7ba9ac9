"""Reading a Wikipedia dump: megabytes a second, sentences, and the most memory it ever holds.

    python bench/dump.py
    python bench/dump.py --megabytes 20

Writes a dump of generated articles (headings, links, templates, references, tables, lists), as large as is said when
unpacked, packs it with bzip2 and reads it in a process of its own, as ``phrasemate dataset xpr`` does.
"""

from __future__ import annotations

import bz2
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from common import parser, report

from phrasemate.evaluate.report import signature

PARAGRAPHS = 12  # of an article
READ = """
import resource, sys, time
from pathlib import Path
from phrasemate.dataset.sources import Reading, staged
from phrasemate.dataset import markup
markup._parsed("")  # what the parser takes by itself
before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
made = staged(Path(sys.argv[2]), [sys.argv[1]], "en", Reading())
print(time.process_time() - started, before / 1024, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def sentence(draw: random.Random, words: list[str]) -> str:
    """A sentence with what wikitext puts into one."""
    chosen = draw.choices(words, k=draw.randint(6, 24))
    at = draw.randrange(len(chosen))
    chosen[at] = draw.choice([f"[[{chosen[at]}]]", f"[[{chosen[at]}|{chosen[0]}]]", f"''{chosen[at]}''", chosen[at]])
    reference = draw.choice(["", "", "<ref>{{cite web|url=http://a.example/|title=" + chosen[0] + "}}</ref>"])
    return " ".join(chosen).capitalize() + "." + reference


def article(number: int, draw: random.Random, words: list[str]) -> str:
    """A page of a dump."""
    parts = [f"{{{{Infobox thing\n| name = {draw.choice(words)}\n| size = {number}\n}}}}"]
    for _ in range(PARAGRAPHS):
        parts.append(f"== {draw.choice(words)} ==\n" + " ".join(sentence(draw, words) for _ in range(8)))
    parts.append('{| class="wikitable"\n' + "".join(f"|-\n| {word} || {number}\n" for word in words[:10]) + "|}")
    parts.append("\n".join(f"* [[{draw.choice(words)}]]" for _ in range(8)) + "\n[[Category:Things]]")
    text = "\n\n".join(parts).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return (
        f"<page><title>{draw.choice(words)} {number}</title><ns>0</ns><id>{number}</id><revision><id>{number}</id>"
        f'<text xml:space="preserve">{text}</text></revision></page>\n'
    )


def pages(megabytes: float, seed: int) -> Iterator[bytes]:
    """A dump of that size."""
    draw, size = random.Random(seed), 0
    words = ["".join(draw.choices("abcdeghiklmnoprstu", k=draw.randint(2, 10))) for _ in range(20_000)]
    yield b'<mediawiki xml:lang="en">\n'
    number = 0
    while size < megabytes * 1e6:
        number += 1
        page = article(number, draw, words).encode()
        size += len(page)
        yield page
    yield b"</mediawiki>\n"


def main() -> None:
    """Print the table."""
    options = parser(__doc__)
    options.add_argument("--megabytes", type=float, default=200, help="of the unpacked dump")
    args = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path, work = Path(folder, "wiki.xml.bz2"), Path(folder, "work")
        size = articles = 0
        with bz2.open(path, "wb", compresslevel=1) as file:
            for page in pages(args.megabytes, args.seed):
                size += file.write(page)
                articles += page.startswith(b"<page>")
        done = subprocess.run([sys.executable, "-c", READ, path, work], capture_output=True, text=True, check=True)
        seconds, before, peak = map(float, done.stdout.split())
        packed = path.stat().st_size / 1e6
        sentences = sum(text.read_bytes().count(b"\n") for text in work.glob("*.txt"))
    header = ["MB", "MB packed", "articles", "sentences", "CPU seconds", "MB/s", "MB before", "MB at most"]
    row = [size / 1e6, packed, articles, sentences, seconds, size / 1e6 / seconds, before, peak]
    report("dump", header, [row], signature(None, data="generated wikitext", seed=args.seed))


if __name__ == "__main__":
    main()
