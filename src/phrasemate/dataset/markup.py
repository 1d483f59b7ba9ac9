"""Wikitext -> running text, by mwparserfromhell: no templates, tables, references, pictures, headings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from phrasemate.errors import MissingExtra

_GONE = "\ufffc"  # where something was that made text: what is left of the sentence may say something else
_DROPPED = frozenset(
    {
        *("ref", "references", "table", "gallery", "timeline", "imagemap", "graph", "pre", "source", "indicator"),
        *(
            "syntaxhighlight",
            "templatestyles",
            "mapframe",
            "maplink",
            "inputbox",
            "poem",
            "style",
            "script",
            "rp",
            "rt",
        ),
    }
)
_SAID = frozenset({"math", "chem", "ce", "score", "hiero", "code"})  # dropped, but the sentence is not whole without
_BREAKING = frozenset(
    {"li", "dd", "dt", "br", "hr", "p", "div", "blockquote", "center", "ul", "ol", "dl", "tr", "td", "th"}
)
# Wikipedias by the prefix of links to them (https://meta.wikimedia.org/wiki/List_of_Wikipedias), without those that are
# closed. A link such as [[Re:Zero]] or [[CSI: Miami]] is one to a page of this wiki.
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
_WIKIPEDIAS = frozenset(_CODES.split())
_CANONICAL = frozenset(["file", "image", "media", "category"])
_CITED = re.compile(f"(?<=[^\\s({_GONE}]){_GONE}+")  # right behind a word or full stop it was a reference
_WRAPPED = re.compile(r"(?<=[^\s.!?:;])\n(?=[a-zà-öø-ÿа-яё])")  # a paragraph goes on
_LEFT = re.compile(r"^[|!]|\{\{|\}\}|\[\[|\]\]|\{\||\|\}|<[a-z/]|__[A-Z]+__")  # markup that was not closed
_EMPTY = re.compile(r" ?\( ?[;,:]* ?\)")  # in folded text: with \s* the time would grow with the square of a gap
_VARIANTS = re.compile(r"-\{([^{}\n]*)\}-")  # of wikis in several scripts: -{zh-hans:计;zh-hant:計}-, and -{as it is}-
_MARK = re.compile(
    r"(?P<open>\{\{+|\[\[(?:[a-z][a-z0-9+.-]*:|//)?|^[^\S\n]*\{\|)|(?P<close>\}\}|\]\]|^[^\S\n]*\|\})|</(?P<end>[a-z]\w*)"
    r"|<(?P<tag>[a-z]\w*)(?P<whole>(?:[^<>{}\[\]\"']|\"[^<>{}\[\]\"]*\"|'[^<>{}\[\]']*')*+>)?|(?P<comment><!--)"
    r"|\[(?P<link>[a-z][a-z0-9+.-]*:|//)(?P<shut>[^\]\[\n{}<]*\])?",
    re.IGNORECASE | re.MULTILINE,
)
_OPENED_BY = {"}}": "{{", "]]": "[[", "|}": "{|"}
_TABLE, _BROKEN = "{|", "<"
_AGAIN = 20  # times that the parser may read a page, on average: of 112 real ones the worst 3.4
_READ = 50_000_000  # characters that it may read for one page, some ten seconds


def paragraphs(
    wikitext: str,
    namespaces: Iterable[str] = (),
    left_out: Callable[[], None] = lambda: None,
    variants: bool = False,
) -> Iterator[str]:
    """The lines of text of a page, without markup, white space made single.

    ``namespaces`` are the names that the wiki gives to its own: links to their pages are no text. A line keeps the
    character U+FFFC where a template or formula stood in the middle of a sentence, so that the sentence can be left
    out. Lines with markup that was never closed are left out, and pages with so much of it, or with tables so deep in
    one another, that to parse them would take out of all proportion: then ``left_out`` is called. ``variants``: the
    wiki shows its text in several scripts, and what a reader's decides about is a hole, too. Raises MissingExtra where
    the parser is absent.
    """
    foreign = _CANONICAL | {name.casefold() for name in namespaces if name}
    code = _parsed(wikitext)
    if code is None:
        left_out()
    text = _CITED.sub("", _plain(code, foreign))
    if variants:
        text = _VARIANTS.sub(lambda found: _GONE if set("|:;") & set(found[1]) else found[1], text)
    for line in _WRAPPED.sub(" ", text).split("\n"):
        line = _folded(_EMPTY.sub("", _folded(line)))
        if line.strip(_GONE + " ") and not _LEFT.search(line):
            yield line


def _parsed(wikitext: str) -> Any:
    try:
        import mwparserfromhell
    except ImportError as error:
        raise MissingExtra("mwparserfromhell", "dataset") from error
    return None if _costly(wikitext) else mwparserfromhell.parse(wikitext)


def _folded(line: str) -> str:
    return " ".join(line.split())


def _plain(code: Any, foreign: frozenset[str]) -> str:
    """The text of a piece of wikitext; the depth of what it holds is limited by the parser."""
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
    if colon and not title.startswith(":") and (prefix in foreign or prefix in _WIKIPEDIAS):
        return ""
    return _plain(node.text, foreign) if node.text is not None else title.removeprefix(":").partition("#")[0]


def _costly(wikitext: str) -> bool:
    """Whether the parser would read the page too often."""
    return _Readings(wikitext).count() > min(_AGAIN * len(wikitext) + 2000, _READ)


class _Readings:
    """How many characters mwparserfromhell reads of a page, estimated in one pass.

    What is never closed it reads to the end of the page, and then again from right behind the opening. What is in a
    cell of a table it reads twice, so what is in a link that may be an address, and behind a tag that does not end in
    something else: within one another, these come to 4, 8, 16 ... times.
    """

    def __init__(self, text: str) -> None:
        self._text, self._total, self._line_end = text, 0, -1
        self._open: list[tuple[str, int, bool]] = []  # what, where, and whether what is in it doubles
        self._kinds: Counter[str] = Counter()  # of these
        self._doubled = 0
        self._endless: set[str] = set()  # what is not parsed inside, and has no end in the rest of the page

    def count(self) -> int:
        at = 0
        while mark := _MARK.search(self._text, at):
            self._total += (mark.end() - at) << min(self._doubled, 64)
            at = self._after(mark)
        never = sum(len(self._text) - at for _, at, _ in self._open)
        return self._total + never + len(self._text) - at

    def _after(self, mark: re.Match[str]) -> int:
        """Take a mark in; returns where to go on."""
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
        if what.startswith("{{{"):  # is tried first, and seldom meant
            self._total += len(self._text) - at
            what = "{{"
        doubles = what == _TABLE or what[-1] in ":/" or (what == _BROKEN and bool(self._open))
        what = "[[" if what[0] == "[" else what
        self._open.append((what, at, doubles))
        self._kinds[what] += 1
        self._doubled += doubles

    def _end(self, what: str) -> None:
        """The nearest of these is closed; what was opened since then never is."""
        if self._kinds[what]:
            while (last := self._open.pop())[0] != what:
                self._kinds[last[0]] -= 1
                self._total += len(self._text) - last[1]
                self._doubled -= last[2] and last[0] != _TABLE  # which goes on, whatever is closed around it
            self._kinds[what] -= 1
            self._doubled -= last[2]

    def _tag(self, mark: re.Match[str]) -> int:
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
        """Behind what is not parsed inside; if it has no end, all of it is."""
        if what not in self._endless:
            if found := re.compile(re.escape(end), re.IGNORECASE).search(self._text, mark.end()):
                return found.end()
            self._endless.add(what)
        self._total += len(self._text) - mark.start()
        return mark.end()

    def _rest_of_line(self, at: int) -> int:
        if self._line_end < at:
            found = self._text.find("\n", at)
            self._line_end = found if found >= 0 else len(self._text)
        return self._line_end - at
