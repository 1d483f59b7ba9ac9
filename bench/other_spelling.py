"""Write a look-up set in the other spelling of its language, such as traditional Chinese.

    python bench/other_spelling.py lookups other-spelling

The other spellings are traditional characters for Chinese, cedillas for Romanian, "е" instead of "ё" for Russian, and
Arabic letters for Persian. The script writes the queries of each language that has two spellings, and the same
collections. Queries with the same spelling in both stay as they are. It prints how many phrases changed.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from common import plain_parser

ROMANIAN = str.maketrans("șțȘȚ", "şţŞŢ")
RUSSIAN = str.maketrans("ёЁ", "еЕ")
PERSIAN = str.maketrans("کی", "كي")


def conversions() -> dict[str, Callable[[str], str]]:
    """Return language -> a function that converts a text to its other spelling."""
    from opencc import OpenCC

    return {
        "fa": lambda text: text.translate(PERSIAN),
        "ro": lambda text: text.translate(ROMANIAN),
        "ru": lambda text: text.translate(RUSSIAN),
        "zh": OpenCC("s2t").convert,
    }


def main() -> None:
    """Write the queries and copy the collections."""
    options = plain_parser(__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("out", type=Path)
    args = options.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for path in args.folder.glob("en-*.txt"):
        shutil.copy(path, args.out)
    for language, convert in conversions().items():
        path = args.folder / f"{language}.jsonl"
        if not path.exists():
            continue
        queries = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        changed = 0
        for query in queries:
            text, start, end = query["text"], query["start"], query["end"]
            before, phrase, after = map(convert, (text[:start], text[start:end], text[end:]))
            changed += phrase != text[start:end]
            query |= {"text": before + phrase + after, "start": len(before), "end": len(before) + len(phrase)}
        lines = [json.dumps(query, ensure_ascii=False) + "\n" for query in queries]
        (args.out / path.name).write_text("".join(lines), encoding="utf-8")
        print(f"{language}: {len(queries)} queries, {changed} changed", flush=True)


if __name__ == "__main__":
    main()
