"""Write gold word alignments of eight more languages, annotated for this project, for `phrasemate evaluate ccpr`.

    python bench/gold_links.py .cache/gold
    phrasemate evaluate ccpr --data .cache/gold/all --only alignment --langs hi,ja,bn,ca,et,ka,sw,ta

gold_links.tsv has the language, both sentences, sure links and possible links. The sentences of Hindi and Japanese are
in the general corpora, held out from training, and the file has only a hash of each pair. Every second pair is dev, the
others are test.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from hashlib import sha256
from pathlib import Path

from common import DATA, ROOT, plain_parser, table_rows, write_lines

from phrasemate.align.pairs import parse_links

LINKS = ROOT / "bench" / "gold_links.tsv"
PARTS = {"all": slice(None), "dev": slice(0, None, 2), "test": slice(1, None, 2)}


def pair_hash(other: str, english: str) -> str:
    """Return the hash that replaces a pair in gold_links.tsv if the repository does not contain its text."""
    return sha256(f"{other}\t{english}".encode()).hexdigest()[:16]


def main() -> None:
    """Write gold_alignments/XX-en.jsonl for each part, and the further text that eflomal learns from."""
    options = plain_parser(__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("--data", type=Path, default=DATA, help="folder of the corpora (default: %(default)s)")
    args = options.parse_args()
    rows = defaultdict(list)
    for line in LINKS.read_text(encoding="utf-8").splitlines():
        lang, *cells = line.split("\t")
        rows[lang].append(cells)
    for lang, pairs in rows.items():
        corpus = args.data / "parallel_general" / f"en-{lang}.tsv.gz"
        texts = {pair_hash(o, e): (o, e) for e, o, _ in table_rows(corpus)} if corpus.exists() else {}
        lines = []
        for other, english, sure, possible in pairs:
            source, target = (other, english) if english else texts[other]
            row = {"source": source, "target": target, "links": parse_links(sure), "possible": parse_links(possible)}
            lines.append(json.dumps(row, ensure_ascii=False))
        for part, chosen in PARTS.items():
            write_lines(args.folder / part / "gold_alignments" / f"{lang}-en.jsonl", lines[chosen])
            more = args.folder / part / "parallel" / f"en-{lang}.tsv.gz"
            more.parent.mkdir(exist_ok=True)
            more.write_bytes(corpus.read_bytes() if corpus.exists() else gzip.compress(b""))


if __name__ == "__main__":
    main()
