"""How bench/fuzz.py makes new inputs out of old ones: at random in bytes, and in the elements of mark-up.

Bytes that change at random seldom leave mark-up well formed, and what lies behind its parser is hardly reached. So half
the inputs of such formats are made by moving, doubling, wrapping and renaming whole elements, and by changing
attributes and text, with the names that a format knows; JSON is changed value by value.
"""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

LONGEST = 4_096  # bytes of an input
TOKENS = (
    *(b"\0", b"\xff", b"\xed\xa0\x80", b"\xe2\x80\xae", b"\xef\xbb\xbf", b"99999999999", b"-1", b"<", b"]]>", b"<!--"),
    *(b"&#0;", b"&#xD800;", b"<!DOCTYPE x [", b'"', b"\n", b"\r", b"\t", b"[[", b"]]", b"\\", b"{", b"NaN", b"1e999"),
)
TEXTS = (
    *(
        "",
        " ",
        "\n",
        "0",
        "1",
        "-1",
        "99999999999",
        "1e999",
        "NaN",
        "True",
        "a",
        "é",
        "e\u0301",
        "\u202e",
        "👩\u200d👧",
    ),
    *(
        "de",
        "en-GB",
        "x-none",
        "und",
        "*",
        "preserve",
        "default",
        "&lt;",
        "&amp;amp;",
        "&#x10FFFF;",
        "&#10;",
        "ไทย",
        "中文",
    ),
    *("A1", "ZZZ9999999", "_x0000_", "_xD83D_", "..", "/", "http://x.y/", "#", "urn:x", "]]", "{{", "[[Bank|Bänke]]"),
)
_SHARED = "xml:lang xml:space lang id"
MARKUP = {  # the names that a target's elements and attributes have, beside those of its seeds
    "docx": (
        "w:p w:r w:t w:tbl w:tr w:tc w:pPr w:pStyle w:outlineLvl w:br w:cr w:tab w:noBreakHyphen w:moveFrom w:moveTo "
        "w:rt w:del w:ins w:delText w:instrText w:fldSimple w:hyperlink w:sdt w:sdtContent w:txbxContent w:ruby "
        "w:rubyBase w:footnote w:body w:style w:name mc:AlternateContent mc:Choice mc:Fallback Relationship "
        "Relationships",
        "w:val w:styleId w:type Id Type Target TargetMode xmlns:mc xmlns:w",
    ),
    "dump": (
        "page revision text title ns redirect model format id siteinfo sitename namespaces namespace mediawiki",
        "xml:space xml:lang bytes deleted title key case xmlns version",
    ),
    "html": (
        "p br div span script style pre table tr td th ul li title head body html template svg math noscript textarea "
        "select option a img h1 h9 iframe ruby rt rp wbr base meta link plaintext xmp",
        "lang xml:lang charset http-equiv content dir href hidden alt title",
    ),
    "tbx": (
        "martif martifHeader text body conceptEntry termEntry langSec langSet termSec tig ntig termGrp term descrip "
        "descripGrp admin note termNote xref tbx tbxHeader sourceDesc p basic:definition min:subjectField",
        f"{_SHARED} type style xmlns xmlns:basic target",
    ),
    "tmx": (
        "tmx header body tu tuv seg prop note bpt ept ph it hi sub ut ude map",
        f"{_SHARED} srclang tuid creationdate type i x pos o-encoding version datatype",
    ),
    "xliff": (
        "xliff file body unit trans-unit segment ignorable source target seg-source mrk g x bx ex ph pc sc ec it bpt "
        "ept sub cp note notes group header alt-trans mtc:match originalData data",
        f"{_SHARED} mtype mid hex ctype subType state resname name original source-language target-language srcLang "
        "trgLang version xmlns xmlns:mtc",
    ),
    "xlsx": (
        "worksheet sheetData row c v f is t si sst r rPh phoneticPr sheets sheet workbook workbookPr Relationship "
        "Relationships mergeCells mergeCell",
        "r s t name sheetId r:id count uniqueCount ref Id Type Target state xml:space date1904",
    ),
}
VALUES = (
    *(
        None,
        True,
        0,
        -1,
        1,
        7,
        1 << 62,
        10**400,
        0.5,
        float("nan"),
        float("inf"),
        "",
        "a",
        "../a",
        "\0",
        "\ud800",
        [],
        {},
    ),
    *([1], [[0, 7]], [[0, 4], [6, 3]], [[0, -1]], {"a": 1}, "OPQ4,IVF16,PQ4x4fs", "vectors-0.codes"),
)
JSON = frozenset({"jsonl", "manifest"})
_PIECES = re.compile(rb"<[^<>]*>|[^<>]+|[<>]")
_NAME = re.compile(rb"(?<=[</])[^\s<>/!?]+")
_ATTRIBUTE = re.compile(rb"""\s+([^\s=<>/]+)\s*=\s*("[^"]*"|'[^']*')""")
Pieces = list[bytes]


def mutated(draw: random.Random, seeds: list[bytes]) -> bytes:
    """One of the seeds with one to six changes."""
    data = bytearray(draw.choice(seeds))
    for _ in range(draw.randint(1, 6)):
        at = draw.randrange(len(data) + 1)
        length = min(draw.choice((1, 1, 2, 4, 16, 64)), len(data) - at)
        other = draw.choice(seeds)
        kind = draw.randrange(6)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            del data[at : at + length]
        elif kind == 2:
            data[at:at] = data[at : at + length] * draw.choice((1, 2, 30))
        elif kind == 3:
            data[at : at + length] = draw.randbytes(length)
        elif kind == 4:
            start = draw.randrange(len(other) + 1)
            data[at:at] = other[start : start + draw.choice((1, 8, 64))]
        else:
            data[at:at] = draw.choice(TOKENS)
    return bytes(data[:LONGEST])


def reshaped(draw: random.Random, data: bytes, target: str) -> bytes:
    """Mark-up with one to four of its elements, attributes or texts changed; it stays well formed where it was.

    ``data`` comes back as it is where no element is found in it, as in a packed archive.
    """
    pieces = _PIECES.findall(data)
    for _ in range(draw.randint(1, 4)):
        elements = _elements(pieces)
        if not elements or len(pieces) > LONGEST:
            break
        inner = elements[:-1] if len(elements) > 1 and draw.random() < 0.95 else elements  # the root ends last
        draw.choice(_CHANGES)(draw, pieces, draw.choice(inner), target)
    return b"".join(pieces)


def revalued(draw: random.Random, data: bytes) -> bytes:
    """JSON with one to three of its values changed or left out; ``data`` as it is where it is no JSON object."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return data
    if not isinstance(content, dict):
        return data
    for _ in range(draw.randint(1, 3)):
        places = list(_places(content))
        holder, key = draw.choice(places) if places else (content, "text")
        if places and draw.random() < 0.2:
            del holder[key]
        else:
            holder[key] = copy.deepcopy(draw.choice(VALUES))
    return json.dumps(content).encode()


def _places(content: Any) -> Iterator[tuple[Any, Any]]:
    """Every list or dict in it, with each of its keys."""
    keys = content if isinstance(content, dict) else range(len(content)) if isinstance(content, list) else ()
    for key in keys:
        yield content, key
        yield from _places(content[key])


def _elements(pieces: Pieces) -> list[tuple[int, int]]:
    """First and last piece of each element: its tags, which are one where it is empty."""
    found, stack = [], []
    for at, piece in enumerate(pieces):
        if not piece.startswith(b"<") or piece[1:2] in (b"!", b"?", b""):
            continue
        if piece.endswith(b"/>"):
            found.append((at, at))
        elif piece.startswith(b"</"):
            if stack:
                found.append((stack.pop(), at))
        else:
            stack.append(at)
    return found


def _remove(draw: random.Random, pieces: Pieces, element: tuple[int, int], target: str) -> None:
    del pieces[element[0] : element[1] + 1]


def _unwrap(draw: random.Random, pieces: Pieces, element: tuple[int, int], target: str) -> None:
    first, last = element
    pieces[first : last + 1] = pieces[first + 1 : last]


def _double(draw: random.Random, pieces: Pieces, element: tuple[int, int], target: str) -> None:
    first, last = element
    pieces[first:first] = pieces[first : last + 1] * draw.choice((1, 1, 2, 9))


def _move(draw: random.Random, pieces: Pieces, element: tuple[int, int], target: str) -> None:
    first, last = element
    taken = pieces[first : last + 1]
    if draw.random() < 0.5:
        del pieces[first : last + 1]
    at = draw.randint(1, max(len(pieces) - 1, 1))
    pieces[at:at] = taken


def _wrap(draw: random.Random, pieces: Pieces, element: tuple[int, int], target: str) -> None:
    first, last = element
    name = _name(draw, pieces, target)
    attributes = b"".join(_attribute(draw, target) for _ in range(draw.choice((0, 0, 1, 2))))
    pieces[last + 1 : last + 1] = [b"</" + name + b">"]
    pieces[first:first] = [b"<" + name + attributes + b">"]


def _rename(draw: random.Random, pieces: Pieces, element: tuple[int, int], target: str) -> None:
    name = _name(draw, pieces, target)
    for at in set(element):
        pieces[at] = _NAME.sub(lambda _: name, pieces[at], count=1)


def _insert(draw: random.Random, pieces: Pieces, element: tuple[int, int], target: str) -> None:
    name, at = _name(draw, pieces, target), draw.randint(element[0], element[1] + 1)
    attributes = b"".join(_attribute(draw, target) for _ in range(draw.choice((0, 1, 2))))
    pieces[at:at] = [b"<" + name + attributes + b">", draw.choice(TEXTS).encode(), b"</" + name + b">"]


def _change_attribute(draw: random.Random, pieces: Pieces, element: tuple[int, int], target: str) -> None:
    tag = pieces[element[0]]
    found = list(_ATTRIBUTE.finditer(tag))
    if not found or draw.random() < 0.3:
        end = len(tag) - (2 if tag.endswith(b"/>") else 1)
        pieces[element[0]] = tag[:end] + _attribute(draw, target) + tag[end:]
        return
    one = draw.choice(found)
    fresh = b"" if draw.random() < 0.3 else b" " + one[1] + b'="' + draw.choice(TEXTS).encode() + b'"'
    pieces[element[0]] = tag[: one.start()] + fresh + tag[one.end() :]


def _change_text(draw: random.Random, pieces: Pieces, element: tuple[int, int], target: str) -> None:
    texts = [at for at in range(element[0], element[1]) if not pieces[at].startswith(b"<")]
    text = draw.choice(TEXTS).encode() * draw.choice((1, 1, 1, 40))
    if draw.random() < 0.2:
        before, after = draw.choice(((b"<!--", b"-->"), (b"<![CDATA[", b"]]>"), (b"<?x ", b"?>")))
        text = before + text.replace(b"-", b"").replace(b"]", b"") + after
    if texts and draw.random() < 0.7:
        pieces[draw.choice(texts)] = text
    else:
        at = draw.randint(element[0] + (element[0] != element[1]), element[1])
        pieces[at:at] = [text]


_CHANGES: tuple[Callable[[random.Random, Pieces, tuple[int, int], str], None], ...] = (
    *(_remove, _unwrap, _double, _move, _move, _wrap, _wrap, _rename, _rename),
    *(_insert, _insert, _change_attribute, _change_attribute, _change_text, _change_text),
)


def _name(draw: random.Random, pieces: Pieces, target: str) -> bytes:
    """A name that the format has, or one of the document."""
    if draw.random() < 0.3 and (found := _NAME.search(draw.choice(pieces))):
        return found[0]
    return draw.choice(MARKUP[target][0].split()).encode()


def _attribute(draw: random.Random, target: str) -> bytes:
    return f' {draw.choice(MARKUP[target][1].split())}="{draw.choice(TEXTS)}"'.encode()
