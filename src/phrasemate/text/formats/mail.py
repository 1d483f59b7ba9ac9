"""E-mails (.eml): subject and text, without header, signature and enclosures."""

from __future__ import annotations

import email
import email.policy
from collections.abc import Iterator
from typing import Any

from phrasemate.errors import ReadError
from phrasemate.text.formats.html import page_paragraphs
from phrasemate.text.formats.wrapped import wrapped_paragraphs
from phrasemate.text.text_file import WHOLE, TextFile

_SIGNATURE = "-- "  # a line, behind which the sender's signature stands (RFC 3676, section 4.3)


def mail_paragraphs(file: TextFile) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Number (from 1), text and "heading" (0: the subject) of each paragraph. Raises ReadError.

    Of a text and the same as a web page, the text is read. Text that is quoted is read, too.
    """
    raw = b""
    for block in file.blocks():
        raw += block
        if len(raw) > WHOLE:
            raise ReadError(file.name, 0, f"more than {WHOLE:,} bytes; expected an e-mail", "take out what is enclosed")
    message = email.message_from_bytes(raw, policy=email.policy.default)
    if not message.keys():
        raise ReadError(file.name, 0, "no header of an e-mail", "check the file")
    subject = str(message.get("subject", "")).strip()
    if subject:
        yield 1, subject, {"heading": 0}
    body = message.get_body(("plain", "html"))
    if body is None:
        return
    try:
        content = body.get_content()
    except (LookupError, KeyError, UnicodeError) as error:
        raise ReadError(file.name, 0, f"a body that cannot be read ({error})", "save it as text") from None
    if not isinstance(content, str):
        return
    if body.get_content_subtype() == "html":
        texts = [text for _, text, _ in page_paragraphs(file.name, [content.encode("utf-8", "replace")])]
    else:
        lines = content.splitlines()
        lines = lines[: lines.index(_SIGNATURE)] if _SIGNATURE in lines else lines
        texts = [text for _, text in wrapped_paragraphs(enumerate(lines, 1), guess=False)]
    for number, text in enumerate(texts, 2 if subject else 1):
        yield number, text.replace("\0", "\ufffd"), {}
