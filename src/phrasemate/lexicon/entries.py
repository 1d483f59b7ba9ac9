"""The equivalents in a cell or a definition of a dictionary: split apart, without notes on grammar and usage.

The rules are few and cautious; what they do not know stays as it is.

- Notes in brackets go: "(...)", "[...]", "{...}", "<...>". A cell that is nothing but a note keeps the text in it, and
  letters in brackets within a word are part of it: "colo(u)r" gives "colour".
- Pronunciation between slashes at the end goes: "bench /bentʃ/".
- Semicolons, bars and the ideographic comma part equivalents: "house; building". A comma does so only where each part
  has one or two words; a part that is an article ("Haus, das") is a note.
- An abbreviation for grammar with a full stop at the end goes: "Haus n.", "to go v.".
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

_MOST = 50  # equivalents of one cell
_LONGEST = 120  # characters of an equivalent; more is an explanation
_MOST_WORDS = 8  # of an equivalent in a definition
_NOTES = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}|<[^<>]*>|（[^（）]*）|【[^【】]*】")
_OPTIONAL = re.compile(r"(?<=\w)\((\w+)\)(?=\w)")
_BRACKETS = re.compile(r"[()\[\]{}<>（）【】]")
_PRONOUNCED = re.compile(r"\s/[^/]{1,100}/(?=\s|$)")
_PARTS = re.compile(r"\s*[;|；、]\s*")
_COMMAS = re.compile(r"\s*[,，،]\s*")
_SPACES = re.compile(r"\s+")
_ARTICLES = {
    *("der", "die", "das", "le", "la", "les", "l'", "un", "une", "el", "los", "las", "il", "lo", "gli", "the", "to")
}
_GRAMMAR = re.compile(
    r"\s+(?:(?:n|m|f|nt|neut|masc|fem|pl|sg|sing|adj|adv|v|vt|vi|vr|prep|conj|pron|interj|num)\.\s*)+$", re.IGNORECASE
)
_NUMBER = re.compile(r"^\s*(?:\(?\d{1,3}[.)]|\(?[a-z]\)|[ivx]{1,4}\.|[①-⑳•▪◦*·-]\s)\s*", re.IGNORECASE)
_LABEL = re.compile(
    r"^\s*(?:note|synonyms?|antonyms?|see(?: also)?|usage|example|etym\w*|cf\.?|vgl\.?|z\.\s?b\.)\s*:", re.I
)
_QUOTED = re.compile(r"^\s*[\"“„«]")
_BREAK_TAG = re.compile(r"<\s*(?:/?(?:p|div|li|ol|ul|tr|table|def|dtrn|blockquote)|br\s*/?)\b[^<>]*>", re.IGNORECASE)
_HIDDEN_TAG = re.compile(
    r"<\s*(style|script|k|ex|tr|abr|co|c|kref|iref|rref|su|pos|gr)\b[^<>]*>[^<]*<\s*/\s*\1\s*>", re.IGNORECASE
)
_TAG = re.compile(r"<[^<>]*>")


def alternatives(cell: str) -> list[str]:
    """The equivalents in a cell, in order; at most 50, and none longer than 120 characters."""
    return _distinct(_split(_bare(cell), 2))


def definition_equivalents(definition: str, headword: str = "") -> list[str]:
    """The equivalents in the definition of a dictionary, in order.

    A line that repeats the headword is left out, as are notes, cross-references and quoted examples; numbers of senses
    are cut off. Commas part equivalents of up to eight words; anything longer is an explanation and left out.
    """
    texts = []
    lines = definition.splitlines()
    for number, line in enumerate(lines):
        if _LABEL.match(line) or _QUOTED.match(line):
            continue
        bare = _bare(_NUMBER.sub("", line, count=1))
        if number == 0 and len(lines) > 1 and bare.casefold() == _bare(headword).casefold():
            continue
        texts += [text for text in _split(bare, _MOST_WORDS) if text.count(" ") < _MOST_WORDS]
    return _distinct(iter(texts))


def plain_markup(text: str) -> str:
    """HTML, Pango or XDXF markup as plain text: blocks become lines; headwords, examples and labels are left out."""
    text = _HIDDEN_TAG.sub(" ", text)
    return html.unescape(_TAG.sub("", _BREAK_TAG.sub("\n", text)))


def _bare(cell: str) -> str:
    """The cell without notes; with the text of its only note where there is nothing else."""
    text = cell
    if _BRACKETS.search(text):
        text = _OPTIONAL.sub(r"\1", text)
        for _ in range(3):  # notes within notes
            text = _NOTES.sub(" ", text)
    text = _tidy(_PRONOUNCED.sub(" ", text) if "/" in text else text)
    return text if any(map(str.isalnum, text)) else _tidy(_BRACKETS.sub(" ", cell))


def _split(text: str, words: int) -> Iterator[str]:
    for part in _PARTS.split(text):
        pieces = [_tidy(piece) for piece in _COMMAS.split(part)]
        pieces = [piece for piece in pieces if piece and piece.casefold() not in _ARTICLES]
        if all(piece.count(" ") < words for piece in pieces):
            yield from pieces
        else:
            yield part


def _distinct(texts: Iterator[str]) -> list[str]:
    distinct: dict[str, None] = {}
    for text in texts:
        text = _tidy(_GRAMMAR.sub("", text))
        if text and len(text) <= _LONGEST and any(map(str.isalnum, text)):
            distinct.setdefault(text)
        if len(distinct) == _MOST:
            break
    return list(distinct)


def _tidy(text: str) -> str:
    return _SPACES.sub(" ", text).strip(" ,;:=·–—\t")
