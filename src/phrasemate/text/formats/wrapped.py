"""Readers of hard-wrapped text and e-mails (.eml), which join lines to paragraphs and drop headers and signature."""

from __future__ import annotations

import email
import email.policy
import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice, pairwise, takewhile

from phrasemate.errors import ReadError
from phrasemate.text.formats.html import page_paragraphs
from phrasemate.text.formats.units import Paragraph
from phrasemate.text.text_file import WHOLE, TextFile
from phrasemate.utils.hyphens import UNSPACED, Hyphens

Line = tuple[int, str]  # number from 1, text

_HEAD = 1000  # number of lines from which the width is estimated
_HEAD_SIZE = 200_000  # maximum number of characters of these lines
_LONGEST = 100_000  # maximum number of characters of a paragraph
_LEAST = 5  # minimum number of lines before another, for a guess
_NARROW, _WIDE = 30, 120  # minimum and maximum width of wrapped text
_SLACK = 0.85  # share of the width that a line and the next word must exceed, else the line ends its paragraph
_FULL = 0.7  # minimum share of full lines among those before another line, in a wrapped text
_WITHIN = 0.4  # minimum share of full lines that end within a sentence, in a wrapped text
_SENTENCE_ENDS = re.compile("[.!?…:;。！？][\"'”’»)\\]]*$")
_ITEM = re.compile(r"[-*•·]\s")
_MAYBE_ITEM = re.compile(r"(?:[–—]|\(?\d{1,3}[.)]|\(?[a-zA-Z]\))\s")  # "am 5. Mai" may be wrapped before the number
_QUOTED = re.compile(r"(?:>[ \t]?)+")
_RULE = re.compile(r"[-=_*~#+.]{3,}$")

_FIELD = re.compile(r"([A-Z][\w-]*):[ \t]?(.*)")  # header field of an e-mail
_MAIL = frozenset(("cc", "date", "from", "message-id", "received", "reply-to", "return-path", "subject", "to"))
_BOOK = re.compile(r"\*{3}\s*(START|END) OF (?:THE|THIS) PROJECT GUTENBERG\b.*", re.IGNORECASE)
_EARLY = 500  # maximum number of lines before the text of a book from Project Gutenberg


def wrapped_paragraphs(lines: Iterable[Line], guess: bool) -> Iterator[Line]:
    """Join the lines of a text to paragraphs: yields the number of the first line and the text of each.

    A paragraph ends at a blank line, before a list item, where the depth of quotation (">") changes, and after a line
    that is clearly shorter than the width. The width is estimated from the first 1,000 lines.

    ``guess``: join lines only if the text seems to be wrapped, or is an e-mail or a book from Project Gutenberg. A text
    seems to be wrapped if most lines have the same width and many end within a sentence.
    """
    rest = iter(lines)
    head = _head(rest)
    texts = [text for _, text in head]
    width = _width(texts)
    if guess and not (_is_wrapped(texts, width) or _is_book(texts) or _is_mail(texts)):
        yield from head
        yield from rest
        return
    hyphens = Hyphens()
    for text in texts:
        hyphens.read(text)
    yield from _joined(_body(chain(head, rest), texts), width, hyphens)


def _head(lines: Iterator[Line]) -> list[Line]:
    head: list[Line] = []
    size = 0
    for line in islice(lines, _HEAD):
        head.append(line)
        size += len(line[1])
        if size > _HEAD_SIZE:
            break
    return head


def _inner(texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each line with the next one, if neither is blank."""
    return ((line.rstrip(), after.strip()) for line, after in pairwise(texts) if line.strip() and after.strip())


def _width(texts: Iterable[str]) -> int:
    """Return the 95th percentile of the lengths of lines that are followed by another."""
    lengths = sorted(len(line) for line, _ in _inner(texts))
    return lengths[len(lengths) * 19 // 20] if lengths else 0


def _is_full(line: str, after: str, width: int) -> bool:
    """Tell whether the first word of the next line would hardly have fitted into the line."""
    word = after[:1] if UNSPACED.match(after) else after.split(" ", 1)[0]
    return len(line) + 1 + len(word) > _SLACK * width


def _is_wrapped(texts: list[str], width: int) -> bool:
    inner = list(_inner(texts))
    if len(inner) < _LEAST or not _NARROW <= width <= _WIDE:
        return False
    full = [(line, after) for line, after in inner if _is_full(line, after, width)]
    within = sum(not _SENTENCE_ENDS.search(line) and not after[:1].isupper() for line, after in full)
    return len(full) >= _FULL * len(inner) and within >= _WITHIN * len(full)


def _body(lines: Iterable[Line], head: list[str]) -> Iterator[Line]:
    """Yield the lines without the frame of a Gutenberg book and without the header of an e-mail, except its subject."""
    in_preface, in_header = _is_book(head), _is_mail(head)
    for number, text in lines:
        if mark := _BOOK.match(text.strip()):
            in_preface = False
            if mark[1].upper() == "END":
                return
        elif in_preface:
            continue
        elif in_header:
            in_header = bool(text.strip())
            field = _FIELD.match(text)
            if field and field[1].lower() == "subject":
                yield number, field[2]
                yield number, ""
        else:
            yield number, text


def _is_book(head: list[str]) -> bool:
    """Tell whether a book from Project Gutenberg starts in the first lines."""
    return any((mark := _BOOK.match(text.strip())) and mark[1].upper() == "START" for text in head[:_EARLY])


def _is_mail(head: list[str]) -> bool:
    """Tell whether the text starts with header fields of an e-mail, at least two common ones, up to a blank line."""
    mail_fields = 0
    for text in head:
        field = _FIELD.match(text)
        if field:
            mail_fields += field[1].lower() in _MAIL
        elif not text[:1].isspace() or not text.strip():
            return mail_fields > 1 and not text.strip()
    return False


def _joined(lines: Iterable[Line], width: int, hyphens: Hyphens) -> Iterator[Line]:
    first, paragraph, last, quote_marks = 0, "", "", 0
    for number, raw in lines:
        mark = _QUOTED.match(raw)
        depth = mark[0].count(">") if mark else 0
        line = raw[mark.end() :].rstrip() if mark else raw.rstrip()
        text = line.strip()
        hyphens.read(text)
        is_over = len(paragraph) > _LONGEST or depth != quote_marks
        if paragraph and (not text or is_over or _is_apart(last, line, width)):
            yield first, paragraph
            paragraph = ""
        if text and not _RULE.match(text):
            first = first if paragraph else number
            paragraph = hyphens.join(paragraph, text)
        last, quote_marks = line, depth
    if paragraph:
        yield first, paragraph


def _is_apart(last: str, line: str, width: int) -> bool:
    """Tell whether a line starts a paragraph although the line before it is not blank."""
    text = line.strip()
    indent = len(line) - len(line.lstrip())
    before = len(last) - len(last.lstrip())
    if _ITEM.match(text) or _RULE.match(text) or _RULE.match(last.strip()):
        return True
    if _SENTENCE_ENDS.search(last) and (_MAYBE_ITEM.match(text) or (indent > before and not _is_item(last))):
        return True
    return not (_is_full(last, text, width) or text[:1].islower())


def _is_item(line: str) -> bool:
    return bool(_ITEM.match(line.strip()) or _MAYBE_ITEM.match(line.strip()))


_SIGNATURE = "-- "  # line before the signature of the sender (RFC 3676, section 4.3)


def mail_paragraphs(file: TextFile) -> Iterator[Paragraph]:
    """Yield the text of each paragraph of an e-mail; the subject has "heading" 0. Raises ReadError.

    If the body is both plain text and HTML, the plain text is read. Quoted text is read, too.
    """
    raw = b"".join(file.limited(WHOLE, "an e-mail", "take out what is enclosed"))
    try:
        subject, kind, content = _mail(file.name, raw)
    except RecursionError:
        reason = "parts that are nested too deeply; expected an e-mail"
        raise ReadError(file.name, 0, reason, "save its text") from None
    except (
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
    ) as error:  # errors of Python's parser for broken headers
        raise ReadError(file.name, 0, f"a body that cannot be read ({error})", "save it as text") from None
    if subject:
        yield subject, {"heading": 0}
    if kind == "html":
        texts = [text for text, _ in page_paragraphs(file.name, [content.encode("utf-8", "replace")])]
    else:
        lines = takewhile(_SIGNATURE.__ne__, content.splitlines())
        texts = [text for _, text in wrapped_paragraphs(enumerate(lines, 1), guess=False)]
    for text in texts:
        yield text.replace("\0", "\ufffd"), {}


def _mail(name: str, raw: bytes) -> tuple[str, str, str]:
    """Parse an e-mail: subject, kind of the body ("plain" or "html"), body or "". Raises ReadError without a header."""
    message = email.message_from_bytes(raw, policy=email.policy.default)
    if not message.keys():
        raise ReadError(name, 0, "no header of an e-mail", "check the file")
    subject, body = str(message.get("subject", "")).strip(), message.get_body(("plain", "html"))
    if body is None:
        return subject, "plain", ""
    content = body.get_content()
    return subject, body.get_content_subtype(), content if isinstance(content, str) else ""
