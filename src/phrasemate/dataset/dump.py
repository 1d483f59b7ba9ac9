"""Wikipedia dumps (pages-articles, langlinks): stream of pages, links between languages, plain text of wikitext.

The plain text has no templates, tables, references, pictures or headings. mwparserfromhell parses the wikitext.
"""

from __future__ import annotations

import bz2
import re
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from phrasemate.errors import ReadError, needs_extra
from phrasemate.text.formats.xml import Attributes, XmlStream
from phrasemate.text.text_file import Damage, TextFile

_BLOCK = 1 << 16
_DIGITS = 18  # most digits of a page number, so that 64 bits hold it
_SUFFIXES = (".xml", ".xml.gz", ".bz2")


class Page(NamedTuple):
    """Article: number, title, and wikitext; the wikitext of a redirect is empty."""

    id: int
    title: str
    text: str


def is_dump(path: str | Path) -> bool:
    """Return whether a file name is that of a dump: it ends in .xml, .xml.gz or .bz2."""
    return str(path).lower().endswith(_SUFFIXES)


def pages(
    path: str | Path,
    namespaces: set[str],
    progress: Callable[[int, int], None] = lambda step, total: None,
    encoding: str | None = None,
) -> Iterator[Page]:
    """Yield the articles of a dump (namespace 0, no redirects), one at a time.

    Args:
        path: Dump of pages-articles.
        namespaces: Set that is filled with the wiki's names for files and categories; the dump has them before the
            first page.
        progress: Called with the bytes of the file that were read, and all bytes.
        encoding: Encoding that replaces the one that the dump declares.

    Raises ReadError for a file that is not a complete dump.
    """
    stream = _Dump(str(path), namespaces, encoding)
    yield from stream.read(blocks(Path(path), progress))


def blocks(path: Path, progress: Callable[[int, int], None] = lambda step, total: None) -> Iterator[bytes]:
    """Yield the bytes of a file, unpacked if its name ends in .bz2 or .gz. Raises ReadError for an unreadable file."""
    if not path.is_file():
        raise ReadError(str(path), 0, "not a file" if path.exists() else "no such file", "check the path")
    total = path.stat().st_size
    if path.suffix.lower() == ".bz2":
        yield from _unpack_bzip2(path, total, progress)
        return
    file = TextFile(path, str(path), path.suffix.lower() == ".gz", "utf-8", Damage(skip=False))
    for block in file.blocks():
        yield block
        progress(file.bytes_read, total)


def _unpack_bzip2(path: Path, total: int, progress: Callable[[int, int], None]) -> Iterator[bytes]:
    try:
        with path.open("rb") as file, bz2.open(file) as stream:
            while block := cast(IO[bytes], stream).read(_BLOCK):
                yield block
                progress(file.tell(), total)
    except EOFError as error:
        reason = "the bzip2 data end too early"
        raise ReadError(str(path), 0, reason, "copy or download the file again") from error
    except OSError as error:
        if error.errno is None:
            reason = f"not bzip2 data, or damaged ({error})"
            raise ReadError(str(path), 0, reason, "rename it, or download it again") from error
        raise ReadError(str(path), 0, f"cannot be read ({error.strerror})", "check its permissions") from error


class _Dump(XmlStream[Page]):
    """Parser of the articles of a dump; it also collects the wiki's names for files and categories."""

    format_name = "a MediaWiki dump"
    root = frozenset({"mediawiki"})
    _HEARD = frozenset({"title", "ns", "id", "text", "namespace"})
    _UNSEEN = frozenset({"6", "14"})  # namespaces of files and categories, to which a link shows no text

    def __init__(self, name: str, namespaces: set[str], encoding: str | None) -> None:
        super().__init__(name, encoding)
        self._namespaces = namespaces
        self._page: dict[str, str] = {}
        self._redirect, self._key = False, ""

    def start(self, tag: str, attributes: Attributes) -> None:
        if tag == "page":
            self._page, self._redirect = {}, False
            self.settle()
        elif tag == "namespace":
            self._key = attributes.get("key", "")
        elif tag == "redirect":
            self._redirect = True
        self.take_text()
        self.listening = tag in self._HEARD

    def end(self, tag: str) -> None:
        text, self.listening = self.take_text(), False
        parent = self.path[-1] if self.path else ""
        if tag == "page":
            self._finish()
        elif tag == "namespace":
            if self._key in self._UNSEEN:
                self._namespaces.add(text.strip())
            self.settle()
        elif parent == "page" or (parent == "revision" and tag == "text"):
            self._page[tag] = text  # leaves out the id of the revision

    def _finish(self) -> None:
        """Give the page if it is an article. Raises ReadError for a page without a title or number."""
        page = self._page
        number, title = page.get("id", "").strip(), " ".join(page.get("title", "").split())
        if not number.isdecimal() or len(number) > _DIGITS or not title:
            reason = f"a page without a title, or without a number of at most {_DIGITS} digits"
            raise self.error(reason, "give a dump of pages-articles")
        if page.get("ns", "0").strip() == "0" and not self._redirect:
            self.give(Page(int(number), title, page.get("text", "")))
        self.settle()


_INSERT = re.compile(rb"INSERT INTO [`\"]?(\w+)[`\"]?\s*(?:\([^()]*\)\s*)?VALUES\s*", re.IGNORECASE)
_STRING = rb"'((?:[^'\\]++|\\.|'')*+)'"
_ROW = re.compile(rb"\s*\(\s*(\d{1,18})\s*,\s*" + _STRING + rb"\s*,\s*" + _STRING + rb"\s*\)\s*([,;])\s*", re.DOTALL)
_TITLE = re.compile(rb"(\d{1,18})\t")  # beginning of a line in a file of titles; 64 bits hold the number
_ESCAPED = re.compile(rb"\\(.)|''", re.DOTALL)
_ESCAPES = {b"0": b"\0", b"b": b"\b", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"Z": b"\x1a"}  # MySQL, string literals
_KEPT = 1 << 16  # bytes at the end of a block that are searched again, for a statement that continues in the next one
_LONGEST = 1 << 20  # most bytes of a row
_PLACE = 48  # bits of an offset in a file of titles
_GIVE_LANGLINKS = "give a dump of langlinks (…-langlinks.sql.gz)"
_EXPLAINED = re.compile(r"\s*[(（][^()（）]*[)）]$")  # explanation in a title, such as Mercury (planet)


def linked_titles(
    titles: Titles, path: str | Path, language: str, progress: Callable[[int, int], None] = lambda step, total: None
) -> Iterator[tuple[str, str]]:
    """Yield pairs of a title of this wiki and the linked title, without explanations in brackets at their ends."""
    for page, title in language_links(path, language, progress):
        if own_title := titles.get(page):
            yield _EXPLAINED.sub("", own_title), _EXPLAINED.sub("", title)


def language_links(
    path: str | Path, language: str, progress: Callable[[int, int], None] = lambda step, total: None
) -> Iterator[tuple[int, str]]:
    """Yield page number and title in ``language`` of each link; titles that are not UTF-8 are skipped.

    Raises ReadError for a file that is not a dump of ``langlinks``, or that ends inside a statement.
    """
    code = language.encode()
    for page, lang, title in _rows(Path(path), progress):
        if lang == code:
            try:
                yield page, " ".join(_unescape(title).decode().replace("_", " ").split())
            except UnicodeDecodeError:
                continue  # the database cuts a title at 255 bytes


class Titles:
    """Titles by page number, from files with a number, a tab and a title on each line; a context manager.

    Memory holds only the places of the titles, 16 bytes for each page. Raises ReadError for a malformed file.
    """

    def __init__(self, *paths: str | Path) -> None:
        self._numbers, self._places = array("q"), array("q")
        with ExitStack() as stack:
            self._files = [stack.enter_context(Path(path).open("rb")) for path in paths]
            for at, (path, file) in enumerate(zip(paths, self._files, strict=True)):
                self._add(path, file, at << _PLACE)
            self._close = stack.pop_all().close
        self._sort()

    def _add(self, path: str | Path, file: IO[bytes], place: int) -> None:
        for number, line in enumerate(file, 1):
            if (match := _TITLE.match(line)) is None:
                line_start = line[:40].decode("utf-8", "backslashreplace")
                reason = f"not a page number and a title: {line_start!r}; expected 1 to 18 digits, a tab, a title"
                raise ReadError(str(path), number, reason, "delete the file, it is rebuilt")
            self._numbers.append(int(match[1]))
            self._places.append(place)
            place += len(line)

    def _sort(self) -> None:
        """Sort by number: one dump is sorted, but several together may not be."""
        if any(a > b for a, b in pairwise(self._numbers)):
            order = sorted(range(len(self._numbers)), key=self._numbers.__getitem__)
            self._numbers = array("q", (self._numbers[at] for at in order))
            self._places = array("q", (self._places[at] for at in order))

    def __len__(self) -> int:
        return len(self._numbers)

    def get(self, number: int) -> str:
        """Return the title of a page; "" if there is none."""
        at = bisect_left(self._numbers, number)
        if at == len(self._numbers) or self._numbers[at] != number:
            return ""
        file = self._files[self._places[at] >> _PLACE]
        file.seek(self._places[at] & ((1 << _PLACE) - 1))
        return file.readline().decode().rstrip("\n").partition("\t")[2]

    def __enter__(self) -> Titles:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()


def _rows(path: Path, progress: Callable[[int, int], None]) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield the rows of all INSERT statements: page number, language, title as it is written."""
    buffer, inside, statements, line = b"", False, 0, 1
    for block in blocks(path, progress):
        buffer += block
        at = 0
        while True:
            match = _ROW.match(buffer, at) if inside else _INSERT.search(buffer, at)
            if match is None:
                break
            line += buffer.count(b"\n", at, match.end())
            at = match.end()
            if inside:
                inside = match[4] == b","
                yield int(match[1]), match[2], match[3]
            else:
                if match[1].lower() != b"langlinks":
                    reason = f"rows of the table {match[1].decode('ascii', 'backslashreplace')}"
                    raise ReadError(str(path), line, reason, _GIVE_LANGLINKS)
                inside, statements = True, statements + 1
        if inside and len(buffer) - at > _LONGEST:
            raise _no_row(path, line, buffer[at : at + 40])
        keep = at if inside else max(at, len(buffer) - _KEPT)
        line += buffer.count(b"\n", at, keep)
        buffer = buffer[keep:]
    if inside or b"INSERT INTO" in buffer:
        raise _no_row(path, line, buffer[:40])
    if not statements:
        raise ReadError(str(path), 0, "no INSERT INTO langlinks in it", _GIVE_LANGLINKS)


def _no_row(path: Path, line: int, row_bytes: bytes) -> ReadError:
    """Return the error for bytes that are not a complete row."""
    row_start = row_bytes.decode("utf-8", "backslashreplace")
    reason = f"not a whole row of langlinks: {row_start!r}; expected (page,'language','title')"
    return ReadError(str(path), line, reason, "the file may be cut short: download it again")


def _unescape(literal: bytes) -> bytes:
    """Return the value of a string literal of MySQL."""
    if b"\\" not in literal and b"''" not in literal:
        return literal
    return _ESCAPED.sub(lambda m: b"'" if m[1] is None else _ESCAPES.get(m[1], m[1]), literal)


_GONE = "\ufffc"  # stands for a removed part that showed text, without which the sentence may mean something else


def _set(names: str) -> frozenset[str]:
    return frozenset(names.split())


_DROPPED = _set(  # tags without running text
    "ref references table gallery timeline imagemap graph pre source indicator syntaxhighlight templatestyles mapframe"
    " maplink inputbox poem style script rp rt"
)
_SAID = _set("math chem ce score hiero code")  # tags that are removed, but leave their sentence incomplete
# Tags that begin a new line.
_BREAKING = _set("li dd dt br hr p div blockquote center ul ol dl tr td th")
# Prefixes of links to other Wikipedias (https://meta.wikimedia.org/wiki/List_of_Wikipedias), without those that are
# closed. A link with another prefix, such as [[Re:Zero]] or [[CSI: Miami]], leads to a page of this wiki.
_CODES = """
    ab ace ady af ak als alt am ami an ang ann anp ar arc ary arz as ast atj av avk awa ay az azb ba ban bar bat-smg
    bbc bcl bdr be be-tarask be-x-old bew bg bh bi bjn blk bm bn bo bpy br bs btm bug bxr ca cbk-zam cdo ce ceb ch
    chr chy ckb co cr crh cs csb cu cv cy da dag de dga din diq dsb dtp dty dv dz ee el eml en eo es et eu ext fa
    fat ff fi fiu-vro fj fo fon fr frp frr fur fy ga gag gan gcr gd gl glk gn gom gor got gpe gsw gu guc gur guw gv
    ha hak haw he hi hif hr hsb ht hu hy hyw ia iba id ie ig igl ik ilo inh io is it iu ja jam jbo jv ka kaa kab kbd
    kbp kcg kg kge ki kk kl km kn knc ko koi krc ks ksh ku kus kv kw ky la lad lb lbe lez lfn lg li lij lld lmo ln
    lo lrc lt ltg lv lzh mad mai map-bms mdf mg mhr mi min mk ml mn mni mnw mo mr mrj ms mt mwl my myv mzn na nah
    nan nap nb nds nds-nl ne new nia nl nn no nov nqo nr nrm nso nup nv ny oc olo om or os pa pag pam pap pcd pcm
    pdc pfl pi pih pl pms pnb pnt ps pt pwn qu rm rmy rn ro roa-rup roa-tara rsk ru rue rup rw sa sah sat sc scn sco
    sd se sg sgs sh shi shn shy si simple sk skr sl sm smn sn so sq sr srn ss st stq su sv sw syl szl szy ta tay tcy
    tdd te tet tg th ti tig tk tl tly tn to tpi tr trv ts tt tum tw ty tyv udm ug uk ur uz ve vec vep vi vls vo vro
    wa war wo wuu xal xh xmf yi yo yue za zea zgh zh zh-classical zh-cn zh-min-nan zh-tw zh-yue zu
"""
_WIKIPEDIAS = _set(_CODES)
_CANONICAL = frozenset(["file", "image", "category"])
_MEDIA = re.compile(r"\.(?:djvu|gif|jpe?g|mp3|oga|og[gv]|pdf|png|svg|tiff?|wav|web[mp]|xcf)$", re.IGNORECASE)
_CITED = re.compile(f"(?<=[^\\s({_GONE}]){_GONE}+")  # directly behind a word or full stop, it was a reference
_WRAPPED = re.compile(r"(?<=[^\s.!?:;])\n(?=[a-zà-öø-ÿа-яё])")  # line break inside a paragraph
_LEFT = re.compile(r"^[|!]|\{\{|\}\}|\[\[|\]\]|\{\||\|\}|<[a-z/]|__[A-Z]+__")  # markup that was not closed
_EMPTY = re.compile(r" ?\( ?[;,:]* ?\)")  # for text with single spaces; \s* would take quadratic time for long gaps
_VARIANTS = re.compile(r"-\{([^{}\n]*)\}-")  # script variants: -{zh-hans:计;zh-hant:計}-, and -{text without variants}-
_MARK = re.compile(
    r"(?P<open>\{\{+|\[\[(?:[a-z][a-z0-9+.-]*:|//)?|^[^\S\n]*\{\|)|(?P<close>\}\}|\]\]|^[^\S\n]*\|\})|</(?P<end>[a-z]\w*)"
    r"|<(?P<tag>[a-z]\w*)(?P<whole>(?:[^<>{}\[\]\"']|\"[^<>{}\[\]\"]*\"|'[^<>{}\[\]']*')*+>)?|(?P<comment><!--)"
    r"|\[(?P<link>[a-z][a-z0-9+.-]*:|//)(?P<shut>[^\]\[\n{}<]*\])?",
    re.IGNORECASE | re.MULTILINE,
)
_OPENED_BY = {"}}": "{{", "]]": "[[", "|}": "{|"}
_TABLE, _BROKEN = "{|", "<"
_AGAIN = 20  # most times that the parser may read a page, on average; the worst of 112 real pages needs 3.4
_READ = 50_000_000  # most characters that the parser may read for one page, some ten seconds


def paragraphs(
    wikitext: str, namespaces: Iterable[str] = (), left_out: Callable[[], None] = lambda: None, variants: bool = False
) -> Iterator[str]:
    """Yield the lines of plain text of a page, with single spaces.

    The character U+FFFC stands for a template or formula in the middle of a sentence, so that the sentence can be left
    out. Lines with markup that was never closed are left out. A page with so much of it, or with tables nested so
    deeply, that parsing would take too long is left out too.

    Args:
        wikitext: Wikitext of a page.
        namespaces: The wiki's names for files and categories; links to them are not text.
        left_out: Called if the page is left out.
        variants: Whether the wiki shows its text in several scripts; text that depends on the script is replaced by
            U+FFFC.

    Raises MissingExtra if the parser is not installed.
    """
    with needs_extra("dataset", "mwparserfromhell"):
        import mwparserfromhell
    if _Readings(wikitext).count() > min(_AGAIN * len(wikitext) + 2000, _READ):
        left_out()
        return
    foreign = _CANONICAL | {name.casefold() for name in namespaces if name}
    text = _CITED.sub("", _plain(mwparserfromhell.parse(wikitext), foreign))
    if variants:
        text = _VARIANTS.sub(lambda match: _GONE if set("|:;") & set(match[1]) else match[1], text)
    for line in _WRAPPED.sub(" ", text).split("\n"):
        line = _single_spaces(_EMPTY.sub("", _single_spaces(line)))
        if line.strip(_GONE + " ") and not _LEFT.search(line):
            yield line


def _single_spaces(line: str) -> str:
    return " ".join(line.split())


def _plain(code: Any, foreign: frozenset[str]) -> str:
    """Return the text of a piece of wikitext; the parser limits the depth of nested parts."""
    return "" if code is None else "".join(_node(node, foreign) for node in code.nodes)


def _node(node: Any, foreign: frozenset[str]) -> str:
    kind = type(node).__name__
    if kind == "Text":
        return str(node)
    if kind == "Tag":
        return _tag(node, foreign)
    if kind == "Wikilink":
        return _link(node, foreign)
    if kind == "ExternalLink":
        return _plain(node.title, foreign) if node.brackets else str(node.url)
    if kind == "HTMLEntity":
        return str(node.normalize() or " ")
    if kind == "Heading":
        return "\n"
    return "" if kind == "Comment" else _GONE  # a template or a template's argument


def _tag(node: Any, foreign: frozenset[str]) -> str:
    name = str(node.tag).strip().casefold()
    if name in _DROPPED:
        return "\n" if name in ("table", "gallery") else ""
    if name in _SAID:
        return _GONE
    inside = _plain(node.contents, foreign)
    return f"\n{inside}" if name in _BREAKING else inside


def _link(node: Any, foreign: frozenset[str]) -> str:
    title = str(node.title).strip()
    prefix, colon, _ = title.removeprefix(":").partition(":")
    prefix = prefix.strip().casefold().replace("_", " ")
    if colon and not title.startswith(":"):
        # A file may have the prefix of a former namespace name. A link to the file itself (media:) shows its text.
        is_file = node.text is not None and prefix != "media" and _MEDIA.search(title)
        if is_file or prefix in foreign or prefix in _WIKIPEDIAS:
            return ""
    return _plain(node.text, foreign) if node.text is not None else title.removeprefix(":").partition("#")[0]


class _Readings:
    """Estimate, in one pass, of how many characters mwparserfromhell reads to parse a page.

    For markup that is never closed, the parser reads to the end of the page, and then again from directly behind the
    opening. It reads three things twice: a cell of a table, a link that may be an address, and a tag without its ``>``
    inside other markup. When these are nested, their factors multiply to 4, 8, 16 and so on.
    """

    def __init__(self, text: str) -> None:
        self._text, self._total, self._line_end = text, 0, -1
        self._open: list[tuple[str, int, bool]] = []  # kind, offset, and whether its content is read twice
        self._kinds: Counter[str] = Counter()  # number of open ones of each kind
        self._doubled = 0  # number of open ones that are read twice
        self._endless: set[str] = set()  # kinds with unparsed content that do not end in the rest of the page

    def count(self) -> int:
        """Return the number of characters that the parser reads."""
        at = 0
        while mark := _MARK.search(self._text, at):
            self._total += (mark.end() - at) << min(self._doubled, 64)
            at = self._after(mark)
        never = sum(len(self._text) - at for _, at, _ in self._open)
        return self._total + never + len(self._text) - at

    def _after(self, mark: re.Match[str]) -> int:
        """Process a mark and return the offset to continue at."""
        at = mark.start()
        if mark["open"]:
            self._begin(mark["open"].lstrip(), at)
        elif mark["close"]:
            self._end(_OPENED_BY[mark["close"].lstrip()])
        elif mark["end"]:
            self._end("<" + mark["end"].casefold())
        elif mark["comment"]:
            return self._skip("<!--", "-->", mark)
        elif mark["tag"]:
            return self._tag(mark)
        elif not mark["shut"]:
            self._total += self._rest_of_line(at)
        return mark.end()

    def _begin(self, what: str, at: int) -> None:
        """Open a piece of markup of a kind."""
        if what.startswith("{{{"):  # the parser first tries an argument, but it is usually a template
            self._total += len(self._text) - at
            what = "{{"
        doubles = what == _TABLE or what[-1] in ":/" or (what == _BROKEN and bool(self._open))
        what = "[[" if what[0] == "[" else what
        self._open.append((what, at, doubles))
        self._kinds[what] += 1
        self._doubled += doubles

    def _end(self, what: str) -> None:
        """Close the innermost open markup of a kind; what was opened inside it is never closed."""
        if self._kinds[what]:
            while (last := self._open.pop())[0] != what:
                self._kinds[last[0]] -= 1
                self._total += len(self._text) - last[1]
                self._doubled -= last[2] and last[0] != _TABLE  # a table continues when markup around it is closed
            self._kinds[what] -= 1
            self._doubled -= last[2]

    def _tag(self, mark: re.Match[str]) -> int:
        """Process a tag and return the offset to continue at."""
        from mwparserfromhell.definitions import is_parsable, is_single

        name, whole = mark["tag"].casefold(), mark["whole"]
        if not whole:
            self._begin(_BROKEN, mark.start())
        elif not is_parsable(name) and not whole.endswith("/>"):
            return self._skip("<" + name, "</" + name, mark)
        elif not is_single(name) and not whole.endswith("/>"):
            self._begin("<" + name, mark.start())
        return mark.end()

    def _skip(self, what: str, end: str, mark: re.Match[str]) -> int:
        """Return the offset behind markup whose content is not parsed.

        If it has no end, the parser reads to the end of the page and continues directly behind the opening.
        """
        if what not in self._endless:
            if match := re.compile(re.escape(end), re.IGNORECASE).search(self._text, mark.end()):
                return match.end()
            self._endless.add(what)
        self._total += len(self._text) - mark.start()
        return mark.end()

    def _rest_of_line(self, at: int) -> int:
        """Return the number of characters up to the end of the line."""
        if self._line_end < at:
            end = self._text.find("\n", at)
            self._line_end = end if end >= 0 else len(self._text)
        return self._line_end - at
