"""Fuzzing: mutated input for every reader, the mark-up parser, the splitter and the mapping of tokens to offsets.

With atheris (``pip install 'phrasemate[fuzz]'``), mutation is guided by coverage. Without it, or with --plain, sound
documents are mutated at random, and the output says so. tests/hostile/fuzz_targets.py says what must be true of any
input, and makes the seeds. Inputs that reached new code can be stored (--keep) in bench/fuzz/seeds.tar.xz as further
seeds. A finding ends the run with exit code 1 and is written to bench/out/fuzz/TARGET-*.

    python bench/fuzz.py tmx --seconds 3600
    python bench/fuzz.py --list

Random changes of bytes seldom leave mark-up well formed, so they hardly reach the code behind its parser. Half the
inputs of such formats are therefore made by moving, doubling, wrapping and renaming whole elements, and by changing
attributes and text, with the names of the format. JSON is changed value by value.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import io
import json
import os
import random
import re
import signal
import sys
import tarfile
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from common import OUT, limit_memory, plain_parser, use_test_modules
from filelock import FileLock

use_test_modules("hostile")  # fuzz_targets

FINDINGS = OUT / "fuzz"
SEED_FILE = Path(__file__).parent / "fuzz" / "seeds.tar.xz"
HANG = 20  # seconds for one input; more is a finding
MEMORY_MB = 1_024  # memory that the warm process may add; more is a finding


def main() -> None:
    args = _arguments()
    FINDINGS.mkdir(parents=True, exist_ok=True)
    if not args.plain:
        try:
            import atheris
        except ImportError:
            print("no atheris here (pip install 'phrasemate[fuzz]'): mutation at random, not guided by coverage")
            args.plain = True
    if args.plain:
        from fuzz_targets import TARGETS
    else:
        with atheris.instrument_imports(include=["phrasemate"]):
            from fuzz_targets import TARGETS
    if args.list or args.target not in TARGETS:
        print(*TARGETS, sep="\n")
        raise SystemExit(not args.list)
    elif args.plain:
        _plain(args.target, args.seconds, args.seed)
    else:
        _guided(args.target, args.seconds, args.seed, args.keep)


def kept_seeds() -> dict[str, list[bytes]]:
    """Return target -> the stored inputs that reached new code."""
    seeds: dict[str, list[bytes]] = {}
    with tarfile.open(SEED_FILE) as archive:
        for member in archive:
            file = archive.extractfile(member)
            assert file is not None, member.name
            seeds.setdefault(member.name.partition("/")[0], []).append(file.read())
    return seeds


def write_seeds(seeds: dict[str, list[bytes]]) -> None:
    """Write the archive with each input once, the smallest first; the same inputs give the same bytes."""
    with tarfile.open(SEED_FILE, "w:xz", preset=9) as archive:
        for target, inputs in sorted(seeds.items()):
            for number, data in enumerate(sorted(set(inputs), key=lambda data: (len(data), data))):
                member = tarfile.TarInfo(f"{target}/{number:04}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))


def _guided(target: str, seconds: int, seed: int, keep: int) -> None:
    """Run libFuzzer in a fork, since it never returns; then store the smallest inputs that reached new code."""
    import atheris
    from fuzz_targets import run

    seeds = _seeds(target)
    with atheris.instrument_imports(include=["phrasemate"]):  # targets import the tested modules at their first input
        run(target, seeds[0])
    with tempfile.TemporaryDirectory(prefix="seeds-") as name:
        for data in seeds:
            (Path(name) / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
        options = [f"-max_total_time={seconds}", f"-timeout={HANG}", f"-rss_limit_mb={MEMORY_MB + 1_024}"]
        options += [f"-max_len={LONGEST}", f"-seed={seed or 1}", "-print_final_stats=1", "-verbosity=0"]
        options += [f"-artifact_prefix={FINDINGS}/{target}-", name]
        child = os.fork()
        if child == 0:
            change = {"custom_mutator": _mutator(target)} if target in MARKUP or target in JSON else {}
            atheris.Setup([sys.argv[0], *options], lambda data: run(target, data), **change)
            atheris.Fuzz()
            os._exit(0)
        _, status, usage = os.wait4(child, 0)
        code = os.waitstatus_to_exitcode(status)
        spent = usage.ru_utime + usage.ru_stime
        new = {path.read_bytes() for path in Path(name).iterdir()} - set(seeds)
    if keep:
        with FileLock(FINDINGS / "seeds.lock"):
            archive = kept_seeds()
            archive.setdefault(target, []).extend(sorted(new, key=len)[:keep])
            write_seeds(archive)
    summary = f"{spent:.0f} s of processor time, {len(new)} inputs that reached new code"
    print(f"{target}: {'no finding' if not code else 'a finding'}, {summary} (seed {seed})", flush=True)
    raise SystemExit(code)


def _mutator(target: str) -> Callable[[bytes, int, int], bytes]:
    """Return a function that changes half the inputs in their elements or values, and the other half in their bytes."""
    import atheris

    def change(data: bytes, most: int, seed: int) -> bytes:
        draw = random.Random(seed)
        mutant = _structured(draw, data, target) if draw.random() < 0.5 else data
        return atheris.Mutate(data, most) if mutant == data or len(mutant) > most else mutant

    return change


def _structured(draw: random.Random, data: bytes, target: str) -> bytes:
    """Return the input changed in its elements or values, if it has any."""
    if target in JSON:
        return revalued(draw, data)
    return reshaped(draw, data, target) if target in MARKUP else data


def _plain(target: str, seconds: int, seed: int) -> None:
    """Mutate at random: change elements or values of a seed, or bytes and blocks, and mix seeds."""
    from fuzz_targets import SEEDS, run

    draw, seeds, sound = random.Random(f"{target} {seed}"), _seeds(target), SEEDS[target]()
    deadline, count, read = time.monotonic() + seconds, 0, 0
    limit_memory(MEMORY_MB * 1_000_000)
    signal.signal(signal.SIGALRM, _hang)
    while time.monotonic() < deadline:
        one = draw.choice(sound)
        data = _structured(draw, one, target) if draw.random() < 0.5 else one
        if data == one or len(data) > LONGEST:
            data = mutated(draw, seeds)
        signal.setitimer(signal.ITIMER_REAL, HANG)
        try:
            read += run(target, data)
        except KeyboardInterrupt:
            raise
        except BaseException:  # a panic of a library in Rust is not an Exception
            path = FINDINGS / f"{target}-{hashlib.sha256(data).hexdigest()[:16]}"
            path.write_bytes(data)
            traceback.print_exc()
            raise SystemExit(f"{target}: a finding after {count:,} inputs, written to {path}") from None
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        count += 1
    print(f"{target}: {count:,} inputs, {read:,} of them read, no finding (mutated at random; seed {seed})")


class Hang(BaseException):
    """Error for an input that takes more than `HANG` seconds; no reader catches it."""


def _hang(*_: object) -> None:
    raise Hang(f"more than {HANG} s")


def _seeds(target: str) -> list[bytes]:
    from fuzz_targets import SEEDS

    return [*SEEDS[target](), *kept_seeds().get(target, [])]


def _arguments() -> argparse.Namespace:
    options = plain_parser(__doc__)
    options.add_argument("target", nargs="?", default="", help="a target that --list names")
    options.add_argument("--seconds", type=int, default=60)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument(
        "--keep", type=int, default=0, help="number of new inputs that become seeds, the smallest ones"
    )
    options.add_argument("--plain", action="store_true", help="without atheris")
    options.add_argument("--list", action="store_true", help="name the targets")
    return options.parse_args()


# -- mutation

LONGEST = 4_096  # bytes of an input
TOKENS = (
    *(b"\0", b"\xff", b"\xed\xa0\x80", b"\xe2\x80\xae", b"\xef\xbb\xbf", b"99999999999", b"-1", b"<", b"]]>", b"<!--"),
    *(b"&#0;", b"&#xD800;", b"<!DOCTYPE x [", b'"', b"\n", b"\r", b"\t", b"[[", b"]]", b"\\", b"{", b"NaN", b"1e999"),
)
_WORDS = """0 1 -1 99999999999 1e999 NaN True a é de en-GB x-none und * preserve default &lt; &amp;amp; &#x10FFFF; &#10;
    ไทย 中文 A1 ZZZ9999999 _x0000_ _xD83D_ .. / http://x.y/ # urn:x ]] {{ [[Bank|Bänke]]"""
TEXTS = ("", " ", "\n", "e\u0301", "\u202e", "👩\u200d👧", *_WORDS.split())
_SHARED = "xml:lang xml:space lang id"
MARKUP = {  # names of a format's elements and attributes, used besides those of its seeds
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
    *(None, True, 0, -1, 1, 7, 1 << 62, 10**400, 0.5, float("nan"), float("inf"), [], {}, [1], {"a": 1}),
    *([[0, 7]], [[0, 4], [6, 3]], [[0, -1]], "", "a", "../a", "\0", "\ud800", "OPQ4,IVF16,PQ4x4fs", "vectors-0.codes"),
)
JSON = frozenset({"jsonl", "manifest"})
_PIECES = re.compile(rb"<[^<>]*>|[^<>]+|[<>]")
_NAME = re.compile(rb"(?<=[</])[^\s<>/!?]+")
_ATTRIBUTE = re.compile(rb"""\s+([^\s=<>/]+)\s*=\s*("[^"]*"|'[^']*')""")
Pieces = list[bytes]


def mutated(draw: random.Random, seeds: list[bytes]) -> bytes:
    """Return one of the seeds with one to six changes."""
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
    """Return mark-up with one to four elements, attributes or texts changed; well-formed mark-up stays well formed.

    ``data`` is returned unchanged if it has no elements, as in a packed archive.
    """
    pieces = _PIECES.findall(data)
    for _ in range(draw.randint(1, 4)):
        elements = _elements(pieces)
        if not elements or len(pieces) > LONGEST:
            break
        # The root element ends last, and is rarely changed.
        inner = elements[:-1] if len(elements) > 1 and draw.random() < 0.95 else elements
        draw.choice(_CHANGES)(draw, pieces, draw.choice(inner), target)
    return b"".join(pieces)


def revalued(draw: random.Random, data: bytes) -> bytes:
    """Return a JSON object with one to three values changed or left out; other data are returned unchanged."""
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
    """Yield every list and dict inside the content, with each of its keys."""
    keys = content if isinstance(content, dict) else range(len(content)) if isinstance(content, list) else ()
    for key in keys:
        yield content, key
        yield from _places(content[key])


def _elements(pieces: Pieces) -> list[tuple[int, int]]:
    """Return the numbers of the first and last piece of each element; an empty element has one piece."""
    elements: list[tuple[int, int]] = []
    stack: list[int] = []
    for at, piece in enumerate(pieces):
        if not piece.startswith(b"<") or piece[1:2] in (b"!", b"?", b""):
            continue
        if piece.endswith(b"/>"):
            elements.append((at, at))
        elif piece.startswith(b"</"):
            if stack:
                elements.append((stack.pop(), at))
        else:
            stack.append(at)
    return elements


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
    block = pieces[first : last + 1]
    if draw.random() < 0.5:
        del pieces[first : last + 1]
    at = draw.randint(1, max(len(pieces) - 1, 1))
    pieces[at:at] = block


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
    attributes = list(_ATTRIBUTE.finditer(tag))
    if not attributes or draw.random() < 0.3:
        end = len(tag) - (2 if tag.endswith(b"/>") else 1)
        pieces[element[0]] = tag[:end] + _attribute(draw, target) + tag[end:]
        return
    one = draw.choice(attributes)
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
    """Return a name of the format, or one from the document."""
    if draw.random() < 0.3 and (tag := _NAME.search(draw.choice(pieces))):
        return tag[0]
    return draw.choice(MARKUP[target][0].split()).encode()


def _attribute(draw: random.Random, target: str) -> bytes:
    return f' {draw.choice(MARKUP[target][1].split())}="{draw.choice(TEXTS)}"'.encode()


if __name__ == "__main__":
    main()
