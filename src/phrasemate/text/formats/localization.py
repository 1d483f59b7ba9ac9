"""Readers of localization files: gettext catalogues, properties, JSON, YAML and subtitles; read whole, with limits."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from itertools import zip_longest
from typing import Any

from phrasemate.errors import ReadError, needs_extra
from phrasemate.text.formats.units import Record, Side, Unit
from phrasemate.text.text_file import TextFile

DEPTH = 100  # maximum depth of nested collections
_ENGLISH = "en"  # default language of the messages of a catalogue
_SENTENCE_ENDS = re.compile("[.!?…。！？।][\"'”’»)\\]]*$")
_SURROGATE = re.compile("[\ud800-\udfff\0]")
_CHARSET = re.compile(  # in the header, the translation of the empty message
    rb'^msgid\s*+""\s*+msgstr\s*+""\s*+(?:"(?:[^"\\\r\n]|\\.)*+"\s*+)*?"Content-Type:[^"\r\n]*charset=([\w.:-]+)',
    re.MULTILINE | re.IGNORECASE,
)
_TURN = re.compile(r"\n(?=\s*(?:[-–—]|>>|&gt;&gt;))")  # before the words of another speaker
_TAGS = re.compile(r"</?[a-zA-Z][^<>]*>")
_TOGETHER = 20  # maximum number of subtitle lines that are joined to one sentence
_PAUSE = 2000  # maximum milliseconds between two lines of one sentence


def po_units(file: TextFile) -> Iterator[Unit]:
    """Yield the messages of a gettext catalogue with their translations, except obsolete messages.

    Fuzzy translations are left out. A file that is not UTF-8 is read in the charset of its header. The source language
    is English, unless the header "X-Source-Language" names another. Raises ReadError, MissingExtra without polib.
    """
    with needs_extra("formats", "polib"):
        import polib
    try:
        catalogue = polib.pofile(file.whole(declaration=_CHARSET).lstrip("\ufeff") + "\n", check_for_duplicates=False)
    except (OSError, ValueError, IndexError, KeyError, AttributeError) as error:
        line = re.search(r"line (\d+)", str(error))
        number = int(line[1]) if line else 0
        raise ReadError(file.name, number, "not a gettext catalogue", "fix it: msgfmt --check") from None
    source = catalogue.metadata.get("X-Source-Language", "").strip() or _ENGLISH
    target = catalogue.metadata.get("Language", "").strip() or "und"
    for entry in catalogue:
        if entry.obsolete:
            continue
        metadata = {"context": entry.msgctxt} if entry.msgctxt else {}
        plural = entry.msgid_plural
        originals = [entry.msgid, plural] if plural else [entry.msgid]
        translations = [text for _, text in sorted(entry.msgstr_plural.items())] if plural else [entry.msgstr]
        for original, translation in zip_longest(originals, () if entry.fuzzy else translations):
            sides = [Side(_sound(original), source)] if original is not None else []
            sides += [Side(_sound(translation), target)] if translation else []
            if sides:
                yield Unit(tuple(sides), metadata, entry.linenum or 0)


def properties_texts(file: TextFile) -> Iterator[Record]:
    """Yield the values of a Java properties file, which is UTF-8 or else Latin-1. Raises ReadError, MissingExtra."""
    with needs_extra("formats", "javaproperties"):
        import javaproperties
    line = 1
    try:
        for item in javaproperties.parse(file.whole(otherwise="latin-1")):
            if isinstance(item, javaproperties.KeyValue):
                yield line, _sound(item.value), {"key": item.key}
            line += len(item.source.splitlines()) if item.source else 0
    except javaproperties.InvalidUEscapeError as error:
        raise ReadError(file.name, line, f"a wrong escape ({error})", "write the character itself") from None


def json_texts(file: TextFile) -> Iterator[Record]:
    """Yield the string values with a letter of a JSON document, with their keys. Raises ReadError."""
    raw = file.whole()
    try:
        document = json.loads(raw)
    except json.JSONDecodeError as error:
        raise ReadError(file.name, error.lineno, f"broken JSON ({error.msg})", "fix it") from None
    except RecursionError:
        raise ReadError(file.name, 0, "JSON that is nested too deeply", "give ordinary JSON") from None
    except ValueError as error:  # a number of thousands of digits
        raise ReadError(file.name, 0, f"broken JSON ({error})", "give ordinary JSON") from None
    waiting: list[tuple[str, Any]] = [("", document)]
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, str) and any(map(str.isalpha, value)):
            yield 0, _sound(value), {"key": key[:1000]} if key else {}
        elif isinstance(value, dict):
            waiting += reversed([(str(name), inner) for name, inner in value.items()])
        elif isinstance(value, list):
            waiting += reversed([(key, inner) for inner in value])


def yaml_texts(file: TextFile) -> Iterator[Record]:
    """Yield the string values with a letter of a YAML document, with their keys; aliases are not followed.

    Raises ReadError, MissingExtra without PyYAML.
    """
    with needs_extra("formats", "pyyaml"):
        import yaml
    kinds = yaml.SafeLoader.yaml_implicit_resolvers
    open_: list[list[Any]] = []  # for each open collection: whether it is a mapping, and its key if a value is next
    try:
        for event in yaml.parse(file.whole(), Loader=yaml.SafeLoader):
            if isinstance(event, yaml.CollectionStartEvent):
                open_.append([isinstance(event, yaml.MappingStartEvent), None])
                if len(open_) > DEPTH:
                    raise ReadError(file.name, 0, f"YAML that is nested more than {DEPTH} deep", "give ordinary YAML")
                continue
            if isinstance(event, yaml.CollectionEndEvent):
                open_.pop()
            elif isinstance(event, yaml.ScalarEvent):
                if open_ and open_[-1][0] and open_[-1][1] is None:
                    open_[-1][1] = event.value
                    continue
                key = next((level[1] for level in reversed(open_) if level[1]), "")
                plain = event.style is None and any(
                    pattern.match(event.value) for _, pattern in kinds.get(event.value[:1], ())
                )
                if not plain and any(map(str.isalpha, event.value)):
                    yield event.start_mark.line + 1, _sound(event.value), {"key": key[:1000]} if key else {}
            if open_:  # after a value, a mapping has a key next
                open_[-1][1] = None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = f"not YAML ({getattr(error, 'problem', None) or error})"
        raise ReadError(file.name, mark.line + 1 if mark else 0, reason[:300], "fix it") from None


def subtitle_texts(file: TextFile) -> Iterator[Record]:
    """Yield the texts of subtitles (SubRip, WebVTT, SubStation Alpha and others that pysubs2 reads), without styles.

    Lines in close succession are joined until a sentence ends or another speaker begins (`_TURN`). Raises ReadError,
    MissingExtra.
    """
    with needs_extra("formats", "pysubs2"):
        import pysubs2
    text = file.whole().lstrip("\ufeff")
    try:
        film = pysubs2.SSAFile.from_string(text)
    except (pysubs2.Pysubs2Error, ValueError, IndexError, KeyError) as error:
        reason = f"no subtitles that are known ({type(error).__name__})"
        raise ReadError(file.name, 0, reason, "save them as SubRip (.srt)") from None
    events = (event for event in film if not event.is_comment and not event.is_drawing)
    turns = (
        (at, event, turn) for at, event in enumerate(events, 1) for turn in enumerate(_TURN.split(event.plaintext))
    )
    number, pieces, end = 1, list[str](), 0
    for at, event, (place, words) in turns:
        speech = _TAGS.sub("", words)
        speech = " ".join((unescape(speech) if film.format == "vtt" else speech).split())
        over = pieces and (
            place > 0
            or _SENTENCE_ENDS.search(pieces[-1])
            or len(pieces) >= _TOGETHER
            or event.start - end > _PAUSE
            or speech[:1] in "-–—>"
        )
        if over:
            yield number, " ".join(pieces), {}
            pieces = []
        if speech:
            number = number if pieces else at
            pieces.append(_sound(speech))
            end = event.end
    if pieces:
        yield number, " ".join(pieces), {}


def _sound(text: str) -> str:
    """Replace NUL and lone surrogates, which escapes may stand for, by U+FFFD."""
    return _SURROGATE.sub("\ufffd", text)
