"""Lines that are wrapped at one width, e-mails and books of Gutenberg: paragraphs as they were written."""

from __future__ import annotations

import textwrap
from email.message import EmailMessage
from pathlib import Path

import pytest

from phrasemate.errors import InputError, ReadError
from phrasemate.text import read
from phrasemate.text.formats.wrapped import wrapped_paragraphs

FIRST = (
    "The ferry leaves the old harbour at seven in the morning and comes back late, when the lamps on the quay are lit "
    "and the fishermen have gone home. Nobody knows how many people it has carried since it was built."
)
SECOND = (
    "On Sundays the captain takes his dog along. It sits beside the wheel and barks at every gull that comes near, "
    "which the children like better than the castle on the other side of the bay."
)


def sentences(path: Path, text: str, **options: str) -> list[tuple[int, str]]:
    path.write_text(text, encoding="utf-8")
    return [(one.line, one.text) for document in read(path, **options) for one in document.sentences()]


def joined(text: str, guess: bool = False) -> list[str]:
    return [paragraph for _, paragraph in wrapped_paragraphs(enumerate(text.split("\n"), 1), guess)]


@pytest.mark.parametrize("width", [36, 60, 72, 100])
@pytest.mark.parametrize("lines", ["paragraph", "wrapped"])
def test_wrapped_paragraphs_are_joined_by_themselves_or_when_asked(tmp_path: Path, width: int, lines: str) -> None:
    first, second = textwrap.fill(FIRST, width), textwrap.fill(SECOND, width)
    place = first.count("\n") + 3
    expected = [(1, part) for part in (FIRST[: FIRST.index("Nobody") - 1], FIRST[FIRST.index("Nobody") :])]
    expected += [(place, part) for part in (SECOND[: SECOND.index("It") - 1], SECOND[SECOND.index("It") :])]
    text = f"{first}\n\n{second}\n" + f"\n{first}\n" * 4
    assert sentences(tmp_path / "a.txt", text, lines=lines)[:4] == expected


def test_lines_that_are_not_wrapped_stay_as_they_are() -> None:
    for text in (
        f"{FIRST}\n{SECOND}\n" * 20,  # a paragraph each
        "The lid is open.\nTake out the bag.\nClean the filter of the machine.\nClose it.\n" * 20,
        "Haus\nTür\nFensterbrett\nStuhl\nTischlampe\n" * 20,  # terms
        "One two three four five six\nseven eight nine ten eleven\n",  # too few to tell
    ):
        assert joined(text, guess=True) == text.split("\n")


def test_a_paragraph_ends_at_a_short_line_an_indent_an_item_and_a_rule() -> None:
    text = (
        "Chapter One\n" + textwrap.fill(FIRST, 60) + "\n    " + textwrap.fill(SECOND, 60) + "\n----------\n"
        "- bread that was baked in the morning and is still very warm\n  and soft\n- milk\n1. The end.\n2. More."
    )
    assert joined(text) == [
        "Chapter One",
        FIRST,
        SECOND,
        "- bread that was baked in the morning and is still very warm and soft",
        "- milk",
        "1. The end.",
        "2. More.",
    ]


def test_a_number_at_the_beginning_of_a_line_is_no_item_within_a_sentence() -> None:
    assert joined("Wir treffen uns am Sonntag, dem\n5. Mai, wieder am alten Hafen.") == [
        "Wir treffen uns am Sonntag, dem 5. Mai, wieder am alten Hafen."
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("We need an exam-\nple of it.", "We need an example of it."),
        ("A well-known man. He is a well-\nknown man.", "A well-known man. He is a well-known man."),
        ("The pre-\nand post-war years.", "The pre- and post-war years."),
        ("Haupt-\nund Nebensatz", "Haupt- und Nebensatz"),
        ("the Anglo-\nSaxon word", "the Anglo-Saxon word"),
        ("from page 10-\n12 of it", "from page 10- 12 of it"),
        ("我们今天去\n学校上课", "我们今天去学校上课"),
        ("나는 학교에\n갔다", "나는 학교에 갔다"),
    ],
)
def test_the_two_sides_of_a_line_end(text: str, expected: str) -> None:
    assert joined(text) == [expected]


def test_a_book_of_gutenberg_is_its_text_alone(tmp_path: Path) -> None:
    book = (
        "The Project Gutenberg eBook of The Ferry\n\nThis eBook is for all.\n\n"
        f"*** START OF THE PROJECT GUTENBERG EBOOK THE FERRY ***\n\n\nCHAPTER I.\n\n{textwrap.fill(SECOND, 72)}\n\n"
        "*** END OF THE PROJECT GUTENBERG EBOOK THE FERRY ***\n\nThe licence.\n"
    )
    texts = [text for _, text in sentences(tmp_path / "a.txt", book)]
    assert texts == ["CHAPTER I.", SECOND[: SECOND.index("It") - 1], SECOND[SECOND.index("It") :]]


def test_the_header_of_an_email_and_what_it_quotes(tmp_path: Path) -> None:
    mail = (
        "From: ann@example.org\nTo: bob@example.org\nReceived: by a\n  and by b\nSubject: The ferry\n\nDear Bob,\n\n"
        "we take the ferry at seven in the morning and come\nback late. Will you be there?\n"
        "> I do not know when the ferry leaves, for nobody\n> has told me.\n"
    )
    assert [text for _, text in sentences(tmp_path / "a.txt", mail)] == [
        "The ferry",
        "Dear Bob,",
        "we take the ferry at seven in the morning and come back late.",
        "Will you be there?",
        "I do not know when the ferry leaves, for nobody has told me.",
    ]
    assert sentences(tmp_path / "b.txt", "Note: one\nNote: two\n\nText.")[0] == (1, "Note: one")


def test_emails_are_read_as_the_library_of_python_writes_them(tmp_path: Path) -> None:
    message = EmailMessage()
    message["From"], message["Subject"] = "ann@example.org", "Die grüne Fähre"
    message.set_content(f"{textwrap.fill(SECOND, 70)}\n\n-- \nAnn\n", cte="quoted-printable")
    message.add_alternative("<p>Another form of it.</p>", subtype="html")
    message.add_attachment(b"\x00\x01", maintype="application", subtype="pdf", filename="a.pdf")
    path = tmp_path / "a.eml"
    path.write_bytes(message.as_bytes())
    texts = [one.text for document in read(path) for one in document.sentences()]
    assert texts == ["Die grüne Fähre", SECOND[: SECOND.index("It") - 1], SECOND[SECOND.index("It") :]]
    page = EmailMessage()
    page.set_content("<p>Open <b>the</b> lid.</p><p>Close it.</p>", subtype="html")
    path.write_bytes(page.as_bytes())
    assert [one.text for document in read(path) for one in document.sentences()] == ["Open the lid.", "Close it."]


def test_an_email_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.eml").write_bytes(b"\n\nno header")
    with pytest.raises(ReadError, match="no header of an e-mail"):
        list(next(iter(read(tmp_path / "a.eml"))).sentences())
    part = "--b{}\nContent-Type: multipart/mixed; boundary=b{}\n\n"
    nested = "".join(part.format(number, number + 1) for number in range(3000))
    (tmp_path / "b.eml").write_text(f"From: a\nContent-Type: multipart/mixed; boundary=b0\n\n{nested}")
    with pytest.raises(ReadError, match="nested too deeply"):
        list(next(iter(read(tmp_path / "b.eml"))).sentences())
    (tmp_path / "c.eml").write_text("Subject: a\nContent-Type: text/plain; charset=klingon\n\nBody.\n")
    with pytest.raises(ReadError, match=r"a body that cannot be read \(unknown encoding: klingon\); save it as text"):
        list(next(iter(read(tmp_path / "c.eml"))).sentences())
    with pytest.raises(InputError, match="'wrapped'"):
        read(tmp_path, lines="word")


def test_a_paragraph_without_end_costs_bounded_memory() -> None:
    lines = ((number, "word " * 14) for number in range(20_000))
    paragraphs = list(wrapped_paragraphs(lines, guess=False))
    assert max(len(text) for _, text in paragraphs) < 100_200
    assert sum(len(text.split()) for _, text in paragraphs) == 14 * 20_000
