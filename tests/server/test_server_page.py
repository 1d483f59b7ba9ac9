from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from page_fakes import HOSTILE, NEWS, Sure, WordModel, make

pytest.importorskip("fastapi")
pytest.importorskip("lxml")
from page_client import Browser
from starlette.testclient import TestClient

from phrasemate.concordance import Reading
from phrasemate.errors import IndexDamaged
from phrasemate.index import Index
from phrasemate.lexicon import Dictionary, DictionaryFolder
from phrasemate.server.app import create_app
from phrasemate.server.indexes import Library
from phrasemate.server.page.queries import Answer, Facts, State, answer, pieces
from phrasemate.server.settings import Settings
from phrasemate.types import Document, Sentence

TEXT = "Die Bank war am Abend zu.\nDanach kam eine Schweigeminute."
BANK = "4-8"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Indexes: news, law (in French, two documents), odd (with another model), empty."""
    folder, model = tmp_path_factory.mktemp("indexes"), WordModel(confidence=Sure())
    make(folder / "news", {"news.txt": NEWS, "hostile.txt": HOSTILE}, model)
    make(folder / "law", {"a/loi.txt": ["la bank est fermée"], "b/code.txt": ["bank code"]}, model, "fr")
    make(folder / "empty", {}, model)
    folders = [folder / name for name in ("news", "law", "empty")]
    library = Library(folders, Settings(characters=500), model=model)
    with TestClient(create_app(library), base_url="http://127.0.0.1") as client:
        yield Browser(client)


def test_an_empty_page_asks_for_a_text(browser: Browser) -> None:
    page = browser.get()
    assert page.status == 200
    assert page.texts("label[for=q]") == ["Your sentence or paragraph"]
    assert page.texts(".indexes label") == ["news", "law", "empty"]
    assert [box.value for box in page.all(".indexes input[checked]")] == ["news"]


def test_a_page_reads_no_file_of_its_templates_again(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    browser.get(q=TEXT, at=BANK)
    checks: list[str] = []
    monkeypatch.setattr("jinja2.Template.is_up_to_date", property(lambda template: checks.append(template.name)))
    assert browser.get(q=TEXT, at=BANK).all(".candidate")
    assert not checks


def test_the_phrases_of_a_text_are_buttons(browser: Browser) -> None:
    page = browser.get(q=TEXT.replace("\n", "\r\n"))  # as a form sends it
    assert page.texts("#text .phrase") == ["Bank", "Abend", "Danach", "eine", "Schweigeminute"]
    assert page.all("#text")[0].text_content() == TEXT
    buttons = page.all("#text .phrase")
    assert [TEXT[slice(*map(int, button.get("value").split("-")))] for button in buttons] == page.texts("#text .phrase")
    assert not page.all(".candidate")


def test_the_dictionaries_of_an_index_stand_above_its_candidates(tmp_path: Path) -> None:
    model = WordModel(confidence=Sure())
    for name in ("news", "law"):
        make(tmp_path / name, {"news.txt": NEWS}, model)
    DictionaryFolder(tmp_path / "news").add(Dictionary("kept.tsv", [[("de", "Bank"), ("en", "lender")]]))
    mine = Dictionary("mine.tsv", [[("de", "Bank"), ("en", "counter")]])
    library = Library([tmp_path / "news", tmp_path / "law"], model=model, dictionaries=[mine])
    with TestClient(create_app(library), base_url="http://127.0.0.1") as client:
        for name, equivalents in (("news", ["counter", "lender"]), ("law", ["counter"])):
            page = Browser(client).get("/", ("in", name), q=TEXT, at=BANK)
            assert [text for text in ("counter", "lender") if text in page.text] == equivalents


def test_a_button_and_its_form_ask_about_the_phrase(browser: Browser) -> None:
    page = browser.get(q=TEXT, sort="count")
    response = browser.get("/", *page.form("#pick"), at=page.all("#text .phrase")[0].get("value"))
    assert response.texts("#asked") == ["Bank"]
    assert response.texts(".candidate .wording")[0] == "bank"
    assert [option.get("value") for option in response.all("select[name=sort] option[selected]")] == ["count"]
    assert [phrase.text for phrase in response.all("#text [aria-current]")] == ["Bank"]


def test_a_concordance_line_has_its_parts(browser: Browser) -> None:
    page = browser.get(q=TEXT, at=BANK)
    rows = page.all(".candidate")[0].cssselect("tr.line")
    parts = [[row.cssselect(f"td.{name}")[0].text_content() for name in ("l", "m", "r")] for row in rows]
    assert ["The old ", "bank", " was closed."] in parts
    assert page.all(".candidate .place")[0].get("title") in ("news.txt:1", "news.txt:4", "hostile.txt:2")
    assert "news.txt:1" in page.texts(".place .where")
    assert page.texts(".candidate .count")[0] == "5×"  # two in the news, three that are hostile
    assert page.all(".candidate .copy")[0].get("data-copy") == "bank"


def test_longer_and_shorter_phrases_are_offered(browser: Browser) -> None:
    page = browser.get(q=TEXT, at=f"{TEXT.index('eine')}-{len(TEXT) - 1}")
    assert page.texts("#asked") == ["eine Schweigeminute"]
    assert page.texts(".others button") == ["Danach kam eine", "eine", "Schweigeminute"]


def test_a_verb_in_two_parts_is_asked_about_as_one(browser: Browser) -> None:
    text = "Die Bank nahm danach am Markt teil. Dann war Ruhe."
    at = "9-13.30-34"
    page = browser.get(q=text, at=at)
    assert page.texts("#asked") == ["teilnehmen"]
    assert page.all("#asked")[0].get("data-context") == "Die Bank nahm danach am Markt teil."
    assert [part.text for part in page.all("#text [aria-current]")] == ["nahm", "teil"]
    assert [part.get("value") for part in page.all("#text .part")] == [at, at]
    assert browser.get(q=text, at="9-13.14-20").status == 422
    assert browser.get(q=text, at="9-13.30-99").status == 422


def test_marks_choose_a_phrase_without_a_script(browser: Browser) -> None:
    page = browser.get(q="Die [[Bank war]] am Abend zu.")
    assert page.texts("#asked") == ["Bank war"]
    assert page.all("#q")[0].value.removeprefix("\n") == "Die Bank war am Abend zu."


@pytest.mark.parametrize("query", ["Die [[Schweige-\r\nminute]] am Abend.", "Die Schweige-\nminute am Abend."])
def test_a_word_that_a_line_end_splits_is_whole(browser: Browser, query: str) -> None:
    page = browser.get(q=query)
    assert page.all("#q")[0].value.removeprefix("\n") == "Die Schweigeminute am Abend."


def test_a_single_phrase_is_asked_about_at_once(browser: Browser) -> None:
    assert browser.get(q="Schweigeminute").texts(".candidate .wording")[0] == "silence"


def test_how_sure_the_answer_is(browser: Browser) -> None:
    sure = browser.get(q=TEXT, at=BANK)  # cosine 1: 1 / (1 + exp(6 - 8)) = .88
    assert sure.texts(".sure") == ["The closest candidate fits with a probability of 88 %."]
    at = TEXT.index("Danach")
    unsure = browser.get(q=TEXT, at=f"{at}-{at + 6}")
    assert unsure.texts(".sure.low strong") == ["Probably no equivalent here."]


def test_several_indexes_side_by_side_and_as_one(browser: Browser) -> None:
    pairs = [("in", "news"), ("in", "law")]
    side = browser.get("/", *pairs, q=TEXT, at=BANK)
    assert side.texts(".panel .name") == ["news", "law"]
    one = browser.get("/", *pairs, q=TEXT, at=BANK, view="one")
    assert one.texts(".panel .name") == ["news + law"]
    assert one.texts(".candidate .count")[0] == "7×"  # five and two
    assert set(one.texts(".place .in")) == {"news", "law"}
    assert set(one.texts(".candidate .language")) == {"en", "fr"}
    assert browser.get("/", pairs[0], q=TEXT, at=BANK).texts(".candidate .language") == []


def test_filters(browser: Browser) -> None:
    page = browser.get("/", ("in", "law"), q=TEXT, at=BANK, doc="b/code.txt")
    assert {cell.get("title") for cell in page.all(".place")} == {"b/code.txt:1"}
    assert [option.get("value") for option in page.all("#documents option")] == ["a/", "b/", "a/loi.txt", "b/code.txt"]
    folder = browser.get("/", ("in", "law"), q=TEXT, at=BANK, doc="b/")
    assert {cell.get("title") for cell in folder.all(".place")} == {"b/code.txt:1"}
    unknown = browser.get("/", ("in", "law"), q=TEXT, at=BANK, doc="nowhere.txt")
    assert unknown.texts(".problem")[0].startswith("law: has no document 'nowhere.txt'")  # the name as it is
    assert not unknown.texts(".further a")  # there is nothing to see more of
    assert unknown.status == 200
    other = browser.get("/", ("in", "news"), ("in", "law"), q=TEXT, at=BANK, lang="fr")
    assert other.texts(".problem") == ["No document here is in fr; the index has en."]
    assert len(other.all(".candidate")) > 0


def test_an_empty_index_says_so(browser: Browser) -> None:
    assert browser.get("/", ("in", "empty")).texts("#empty h2") == ["The index empty is empty"]
    page = browser.get("/", ("in", "news"), ("in", "empty"), q=TEXT, at=BANK)
    assert page.texts(".problem")[0].startswith("This index holds no text yet. Add text with: phrasemate index")
    assert page.texts(".candidate .wording")[0] == "bank"


def test_more_candidates_and_more_lines(browser: Browser) -> None:
    page = browser.get("/", ("in", "news"), q=TEXT, at=BANK, k=1, lines=1)
    assert (len(page.all(".candidate")), len(page.all("tr.line"))) == (1, 1)
    links = {link.text: link.get("href") for link in page.all(".further a")}
    assert set(links) == {"More candidates", "More lines for each"}
    assert len(browser.get(links["More candidates"]).all(".candidate")) == 4
    assert len(browser.get(links["More lines for each"]).all("tr.line")) == 5


def test_the_whole_sentence_and_its_neighbours(browser: Browser) -> None:
    page = browser.get(q="die Schweigeminute war kurz im Saal", at="4-18")
    (link,) = [row.cssselect("a.more")[0].get("href") for row in page.all(".candidate")[0].cssselect("tr.line")]
    sentence = browser.get(link)
    assert sentence.texts(".near") == [
        "1The old bank was closed.",
        "2A dog barked all evening.",
        "4Nobody trusts the bank.",
    ]
    assert sentence.texts(".own mark") == ["silence"]
    assert sentence.texts(".source") == ["news.txt, line 3, in news"]


def test_a_sentence_is_the_one_that_was_on_the_page(browser: Browser) -> None:
    """In an index that was rebuilt since, its number belongs to another."""
    page = browser.get(q="die Schweigeminute war kurz im Saal", at="4-18")
    one, other = [page.all(".candidate a.more")[n].get("href") for n in (0, 1)]
    number = dict(parse_qsl(one.partition("?")[2]))["phrase"]
    stale = browser.get(re.sub(r"phrase=\d+", f"phrase={number}", other))
    assert (stale.status, stale.texts(".own")) == (404, [])
    assert "has changed since" in stale.texts("#refused p")[0]
    assert browser.get(one).texts(".own mark") == ["silence"]


@pytest.mark.parametrize(
    ("fields", "status", "says"),
    [
        ({"q": "x" * 501}, 413, "501 characters; 500 is the limit"),
        ({"q": TEXT, "at": "90-99"}, 422, "outside the text"),
        ({"q": TEXT, "at": "4"}, 422, "expected the first and the last character"),
        ({"q": TEXT, "at": "٤-٨"}, 422, "expected the first and the last character"),
        ({"q": TEXT, "at": "8-4"}, 422, "marks nothing"),
        ({"q": "a .,- b", "at": "2-5"}, 422, "has no letter or digit"),
        ({"q": TEXT, "in": "../../etc"}, 404, "here is no index '../../etc'"),
        ({"q": TEXT, "at": BANK, "sort": "sideways"}, 422, "expected one of score, count, left, right"),
        ({"q": TEXT, "at": BANK, "k": "1e9"}, 422, "expected a number from 1 to 100"),
        ({"q": TEXT, "at": BANK, "k": "101"}, 422, "expected a number from 1 to 100"),
        ({"q": TEXT, "at": BANK, "lines": "0"}, 422, "expected a number from 1 to 50"),
    ],
)
def test_what_cannot_be_asked_is_said_on_the_page(
    browser: Browser, fields: dict[str, str], status: int, says: str
) -> None:
    page = browser.get("/", *fields.items())
    assert page.status == status
    assert says in page.texts("#refused")[0]
    assert page.all("#q")[0].value.removeprefix("\n") == fields["q"]  # nothing that was typed is lost


@pytest.mark.parametrize(
    "query", ["", "?in=news&phrase=", "?in=news&phrase=-1", "?in=news&phrase=99999", "?in=no&phrase=1"]
)
def test_a_sentence_that_is_not_there(browser: Browser, query: str) -> None:
    page = browser.get(f"/sentence{query}")
    assert page.status in (404, 422)
    assert page.texts("#refused h2")


def test_an_address_that_is_not_there_is_a_page(browser: Browser) -> None:
    page = browser.get("/nowhere")
    assert (page.status, page.texts("h2")) == (404, ["There is nothing here"])


def test_nothing_of_a_text_or_document_becomes_markup(browser: Browser) -> None:
    nasty = "\"><script>alert(1)</script><img src=x onerror=alert(2)> Bank 'onfocus=alert(3) {{7*7}} \0"
    at = nasty.index("Bank")
    page = browser.get("/", ("doc", "</option><script>"), q=nasty, at=f"{at}-{at + 4}")
    assert page.all("#text")[0].text_content() == nasty.replace("\0", "\ufffd")
    page = browser.get(q=nasty, at=f"{at}-{at + 4}")
    texts = [cell.text_content() for cell in page.all("td.l")]
    assert "The <script>alert(1)</script> " in texts
    for element in page.tree.iter():
        assert element.tag not in ("img", "style")
        assert not [name for name in element.attrib if name.startswith("on") or name == "style"]
        assert element.tag != "script" or element.get("src").startswith("/static/")
        assert not str(element.get("href", "")).startswith("javascript")


def test_text_that_no_encoding_has_is_shown_with_a_replacement(browser: Browser) -> None:
    page = browser.get(q=TEXT, at=BANK, lines=50)
    assert "half \ufffd a " in [cell.text_content() for cell in page.all("td.l")]


def test_right_to_left(browser: Browser) -> None:
    page = browser.get(q="وقف النواب دقيقة صمت حدادا")
    assert page.all("#text")[0].get("dir") == "rtl"
    assert browser.get(q=TEXT).all("#text")[0].get("dir") == "ltr"


def test_a_translation_has_the_direction_of_its_script(tmp_path: Path) -> None:
    model = WordModel()
    pairs = {"The old bank was closed.": "أغلق البنك أبوابه.", "Nobody trusts the bank.": "Der Bank traut keiner."}
    sentences = [Sentence(text, line, {"translation": side}) for line, (text, side) in enumerate(pairs.items(), 1)]
    with Index.create(tmp_path / "memory", model) as index:
        index.add([Document("memory.tmx", "", lambda: iter(sentences))], lang="en")
    with TestClient(create_app(Library([tmp_path / "memory"], model=model)), base_url="http://127.0.0.1") as client:
        cells = Browser(client).get(q=TEXT, at=BANK).all(".translation td")
    directions = {cell.text_content(): cell.get("dir") for cell in cells}
    assert directions == {"Translation: أغلق البنك أبوابه.": "rtl", "Translation: Der Bank traut keiner.": "ltr"}


def test_security_headers_and_static_files(browser: Browser) -> None:
    page = browser.get()
    policy = page.response.headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    for element in page.all("link[href], script[src]"):
        file = browser.client.get(element.get("href") or element.get("src"))
        assert file.status_code == 200
        assert "immutable" in file.headers["cache-control"]
    for name in ("../page.css", "..%2f__init__.py", "page.css%00", "no.js"):
        assert browser.client.get(f"/static/{name}").status_code == 404


def test_a_text_is_segmented_once(tmp_path: Path) -> None:
    model = WordModel()
    library = Library([make(tmp_path / "news", {"n": NEWS}, model)], model=model)
    with TestClient(create_app(library), base_url="http://127.0.0.1") as client:
        page = Browser(client).get(q=TEXT)
        before = len(model.calls)
        response = Browser(client).get("/", *page.form("#pick"), at=BANK)
    assert response.texts("#asked") == ["Bank"]
    assert len(model.calls) == before


def test_indexes_of_different_models_are_not_merged(tmp_path: Path) -> None:
    model = WordModel()
    library = Library([make(tmp_path / name, {"n": NEWS}, model) for name in ("one", "two")], model=model)

    async def answer_of(*models: str) -> Answer:
        model_facts = [
            Facts(name, 4, ("n",), ("en",), hash_) for name, hash_ in zip(("one", "two"), models, strict=True)
        ]
        state = State(TEXT, ("one", "two"), (4, 8), together=True)
        return await answer(library, state, model_facts, Reading(TEXT, (), ()))

    same, different = asyncio.run(answer_of("a", "a")), asyncio.run(answer_of("a", "b"))
    library.close()
    assert ([panel.name for panel in same.panels], same.remark) == (["one + two"], "")
    assert [panel.name for panel in different.panels] == ["one", "two"]
    assert "different models" in different.remark


def test_an_index_that_fails_does_not_silence_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = WordModel()
    library = Library([make(tmp_path / name, {"n": NEWS}, model) for name in ("one", "two")], model=model)
    ask = library.ask

    def broken(name: str, question: Any) -> Any:
        if name == "one":
            raise IndexDamaged("/secret/place: a checksum does not match")
        return ask(name, question)

    monkeypatch.setattr(library, "ask", broken)
    with TestClient(create_app(library), base_url="http://127.0.0.1") as client:
        browser = Browser(client)
        page = browser.get("/", ("in", "one"), ("in", "two"), q=TEXT, at=BANK)
        alone = browser.get("/", ("in", "one"), q=TEXT, at=BANK)
    assert page.status == 200
    assert "cannot be used just now" in page.texts(".problem")[0]
    assert page.texts(".candidate .wording")[0] == "bank"
    assert (alone.status, alone.texts("#refused h2")) == (503, ["The index cannot be used"])
    assert "/secret/place" not in page.text + alone.text


def test_the_start_page_says_in_a_sentence_that_an_index_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = Library([make(tmp_path / "news", {"n": NEWS}, WordModel())], model=WordModel())

    def broken(name: str, question: Any) -> Any:
        raise IndexDamaged("a checksum does not match")

    monkeypatch.setattr(library, "ask", broken)
    with TestClient(create_app(library), base_url="http://127.0.0.1") as client:
        page = Browser(client).get("/")
    assert page.texts("#empty p") == ["The index cannot be used just now; the server's log says why."]


def test_what_is_added_is_seen_at_once(tmp_path: Path) -> None:
    model = WordModel()
    folder = make(tmp_path / "news", {}, model)
    with TestClient(create_app(Library([folder], model=model)), base_url="http://127.0.0.1") as client:
        browser = Browser(client)
        assert browser.get().texts("#empty h2") == ["The index news is empty"]
        with Index.open(folder, model) as index:
            index.add([Document.from_texts("n.txt", NEWS)], lang="en")
        assert not browser.get().all("#empty")
        assert browser.get(q=TEXT, at=BANK).texts(".candidate .wording")[0] == "bank"
        assert [option.get("value") for option in browser.get(q=TEXT, at=BANK).all("#documents option")] == ["n.txt"]


@pytest.mark.parametrize(("query", "how"), [("kept a minutes", "forms"), ("minut* of", "words")])
def test_the_link_to_all_places_leads_to_those_that_were_counted(browser: Browser, query: str, how: str) -> None:
    page = browser.get("/", q=query)
    assert "occurs at 1 place in news" in page.texts("details.itself summary")[0]
    (link,) = page.all("details.itself a")
    assert f"how={how}" in link.get("href")
    assert browser.get(link.get("href")).texts("#answer h2") == ["1 place in 1 sentence"]


def test_brackets_of_the_text_stay_where_an_address_counts_in_it(browser: Browser) -> None:
    text = "Siehe [[Bank]] am Markt."
    page = browser.get(q=text, at=f"{text.index('Markt')}-{text.index('Markt') + 5}")
    assert page.texts("#asked") == ["Markt"]
    assert page.all("#q")[0].value.removeprefix("\n") == text
    marked = browser.get(q=r"see \[[2\]] for [[Markt]]")
    assert marked.texts("#asked") == ["Markt"]
    fields = {row.get("name"): row.get("value") for row in marked.all("#sift input[type=hidden]")}
    again = browser.get(q=fields["q"], at=fields["at"])
    assert again.texts("#asked") == ["Markt"]


def test_the_count_leads_to_the_index_of_a_candidate(tmp_path: Path) -> None:
    """Of several indexes taken as one, too, and to every form of its words."""
    model = WordModel()
    folders = [make(tmp_path / "one", {"n": ["Guten Abend."]}, model), make(tmp_path / "two", {"n": NEWS}, model)]
    with TestClient(create_app(Library(folders, model=model)), base_url="http://127.0.0.1") as client:
        browser = Browser(client)
        page = browser.get("/", ("in", "one"), ("in", "two"), q=TEXT, at=BANK, view="one")
        (link,) = [a for a in page.all("a.count") if a.get("aria-label").startswith("bank:")]
        assert browser.get(link.get("href")).texts("#answer h2") == ["2 places in 2 sentences"]
    assert "how=forms" in link.get("href")


def test_brackets_that_mark_nothing_are_text(browser: Browser) -> None:
    page = browser.get(q="Die [[Bank war zu.")
    assert page.status == 200
    assert page.all("#q")[0].value.removeprefix("\n") == "Die [[Bank war zu."
    assert not page.texts("#refused")


def test_a_filter_has_so_many_values(browser: Browser) -> None:
    most = Settings().filters
    page = browser.get("/", *(("doc", f"{number}.txt") for number in range(most + 1)), q=TEXT, at=BANK)
    assert page.status == 413
    assert f"{most + 1} values of doc; {most} is the limit" in page.texts("#refused")[0]
    same = browser.get("/", *(("doc", "news.txt") for _ in range(most + 1)), q=TEXT, at=BANK)
    assert same.status == 200  # one value, given often


def test_a_text_that_is_looked_up_has_a_length(browser: Browser) -> None:
    most = Settings().sentence_characters
    page = browser.get("/concordance", q="x" * (most + 1), in_="news")
    assert page.status == 413
    assert f"The query is too long; {most} characters is the limit" in page.texts("#refused")[0]


def test_the_former_address_of_the_concordance_leads_to_it(browser: Browser) -> None:
    answer = browser.client.get("/text?how=words&q=bank?", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (301, "/concordance?how=words&q=bank?")
    assert browser.client.get("/text", follow_redirects=False).headers["location"] == "/concordance"
    page = browser.get("/concordance", q="bank", how="forms")
    assert page.texts("nav a[aria-current]") == ["Concordance"]
    assert browser.get("/").texts("nav a[aria-current]") == ["Search"]


def test_pieces_of_a_translation() -> None:
    assert pieces("The bank, the BANKS.", []) == [("The bank, the BANKS.", False)]
    parts = pieces("The bank, the BANKS.", ["bank", "banks"])
    assert parts == [("The ", False), ("bank", True), (", the ", False), ("BANKS", True), (".", False)]
    assert pieces("embankment", ["bank"]) == [("embankment", False)]
    assert pieces("A bank's C++", ["bank", "c++"]) == [("A ", False), ("bank", True), ("'s ", False), ("C++", True)]


def test_pieces_of_a_translation_without_spaces() -> None:
    japanese = [("彼は", False), ("パイロット", True), ("になる。", False)]
    assert pieces("".join(text for text, _ in japanese), ["パイロット", "パイ"]) == japanese
    assert pieces("政府打算提高", ["政府", "提高"]) == [("政府", True), ("打算", False), ("提高", True)]
    assert pieces("パイロット", ["パイ"]) == [("パイロット", False)]


def test_indexes_that_all_fail_are_each_said_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    """As one, too; an error that nobody foresaw is in the log, and not on the page."""
    model = WordModel()
    library = Library([make(tmp_path / name, {"n": NEWS}, model) for name in ("one", "two")], model=model)

    def broken(self: object, *arguments: object) -> None:
        raise ArithmeticError("/secret/place")

    with TestClient(create_app(library), base_url="http://127.0.0.1") as client:
        browser = Browser(client)
        browser.get(q=TEXT)
        monkeypatch.setattr("phrasemate.search.Searcher.search_phrases", broken)
        page = browser.get("/", ("in", "one"), ("in", "two"), q=TEXT, at=BANK, view="one")
    assert page.status == 200
    assert len(page.texts(".problem")) == 2
    assert "/secret/place" not in page.text
    assert {"index one", "index two"} <= {record.getMessage() for record in caplog.records}


def test_only_what_is_there_can_be_clicked(browser: Browser) -> None:
    with_phrases = browser.get(q="Die Bank war zu.")
    assert with_phrases.texts("#reading-help")[0].startswith("Click a phrase, or select any words.")
    without = browser.get(q="… — !")
    assert without.texts("#reading-help") == ["No phrase stands out. Select any words."]


def test_text_in_the_language_of_an_index_is_shown_where_it_stands(browser: Browser) -> None:
    page = browser.get("/", q="minute of silence")
    assert page.texts("details.itself summary") == ["“minute of silence” itself occurs at 1 place in news"]
    assert page.texts("details.itself li") == ["They kept a minute of silence."]
    assert page.all("details.itself")[0].get("open") is not None
    (link,) = page.all("details.itself a")
    assert link.get("href") == "/concordance?q=minute+of+silence&in=news&how=words"
    assert browser.get("/", q="bank").all("details.itself")[0].get("open") is None  # or a word of another language
    assert not browser.get("/", q="Abend").all("details.itself")
    assert not browser.get("/", q="They kept a minute of silence.", at="12-29").all("details.itself")
