"""Dictionaries of every format, looked up in both directions, with and without inflection; bad files."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest
from dictionary_files import write_dictd, write_stardict

from phrasemate.errors import IndexDamaged, InputError, ReadError
from phrasemate.glossary import Entry, write_glossary
from phrasemate.lexicon import Dictionary, DictionaryFolder, Equivalent, dictionary, formats, open_dictionaries
from phrasemate.lexicon.dictionary import terms_in
from phrasemate.text import Side, Term, TermPair, Unit, write_pairs, write_terms, write_units

HOUSE: list[tuple[int | str, str]] = [("de", "Haus"), ("en", "house"), ("en", "building")]


def texts(lexicon: Dictionary, wording: str, lang: str = "", target: str = "") -> list[str]:
    return [equivalent.text for equivalent in lexicon.equivalents(wording, lang, target)]


def opened(path: Path) -> Dictionary:
    [lexicon] = open_dictionaries([path])
    return lexicon


def test_both_directions_and_weights_by_rank() -> None:
    lexicon = Dictionary("mine", [HOUSE, [("de", "Gebäude"), ("en", "building")]])
    assert lexicon.equivalents("haus") == [
        Equivalent("house", 1 / 1.5, "mine", "en"),
        Equivalent("building", 0.5 / 1.5, "mine", "en"),
    ]
    assert texts(lexicon, "Building") == ["Haus", "Gebäude"]
    assert lexicon.languages == ["de", "en"]
    assert len(lexicon) == 4


def test_languages_leave_out_sides() -> None:
    entries = [[("de", "Gift"), ("en", "poison")], [("en", "gift"), ("de", "Geschenk"), ("fr", "cadeau")]]
    lexicon = Dictionary("mine", entries)
    assert texts(lexicon, "gift", "de") == ["poison"]
    assert texts(lexicon, "gift", "en") == ["Geschenk", "cadeau"]
    assert texts(lexicon, "gift", "en-GB", "fr") == ["cadeau"]
    assert set(texts(lexicon, "gift")) == {"poison", "Geschenk", "cadeau"}
    assert texts(lexicon, "gift", "fr") == []
    assert [equivalent.weight for equivalent in lexicon.equivalents("gift", "en", "fr")] == [1]  # of French alone


def test_the_wording_itself_comes_before_its_inflections() -> None:
    lexicon = Dictionary("mine", [[("en", "bench"), ("de", "Bank")], [("en", "benches"), ("de", "Bänke")]])
    assert texts(lexicon, "benches", "en") == ["Bänke"]
    assert texts(lexicon, "the benches", "en") == ["Bänke"]
    assert texts(lexicon, "benching", "en") == ["Bank", "Bänke"]
    assert texts(lexicon, "benchmark", "en") == []
    for wording, exact in (("benches", True), ("the benches", True), ("benching", False)):
        assert {equivalent.exact for equivalent in lexicon.equivalents(wording, "en")} == {exact}


def test_sides_of_unknown_language_are_stemmed_in_that_of_the_wording() -> None:
    lexicon = Dictionary("mine", [[(0, "to build"), (1, "bauen")]])
    assert texts(lexicon, "builds", "en") == ["bauen"]
    assert texts(lexicon, "builds") == []
    assert texts(lexicon, "baue", "de") == ["to build"]


def test_words_that_mean_the_same_in_one_language_are_not_pair() -> None:
    lexicon = Dictionary("mine", [HOUSE])
    assert texts(lexicon, "house") == ["Haus"]
    with pytest.raises(InputError, match="no pair of wordings"):
        Dictionary("mine", [[("en", "house"), ("en", "building")]])


@pytest.fixture
def cached_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """A dictd dictionary and a table, both large enough for a cache."""
    monkeypatch.setattr(dictionary, "CACHE_BYTES", 0)
    table = tmp_path / "de-en.tsv"
    table.write_text("Haus\thouse; building\nhaus\tHouse\nBank\tbench\n", "utf-8")
    return [write_dictd(tmp_path / "eng-deu.index", [("bench", "bench\nBank"), ("bank", "bank\nBank; Ufer")]), table]


def state(lexicon: Dictionary) -> list[object]:
    wordings = ("haus", "Haus", "Häuser", "house", "bench", "Bank", "the benches", "Ufer", "none")
    return [lexicon.name, lexicon.languages, len(lexicon), [lexicon.equivalents(wording) for wording in wordings]]


def test_what_was_read_comes_from_the_cache(
    cached_paths: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, paths_read = tmp_path / "a" / "cache", list[Path]()
    first = open_dictionaries(cached_paths, (), cache, paths_read.append)
    assert [*map(state, first)] == [*map(state, open_dictionaries(cached_paths))]
    assert paths_read == cached_paths
    assert not list(cache.glob("*.part"))
    with monkeypatch.context() as patch:
        patch.setattr(dictionary, "_read", lambda *_: pytest.fail("read again"))
        assert [*map(state, open_dictionaries(cached_paths, (), cache))] == [*map(state, first)]
    open_dictionaries(cached_paths, ("en", "de"), cache, paths_read.append)  # other languages are another dictionary
    assert paths_read == 2 * cached_paths


def test_a_changed_dictionary_is_read_again(cached_paths: list[Path], tmp_path: Path) -> None:
    table = cached_paths[1]
    for entries, equivalents in (("Haus\thouse\n", ["house"]), ("Haus\tbuilding\n", ["building"])):
        table.write_text(entries, "utf-8")
        for _ in range(2):
            [lexicon] = open_dictionaries([table], cache=tmp_path / "cache")
            assert texts(lexicon, "Haus") == equivalents
    assert len(list((tmp_path / "cache").iterdir())) == 1


@pytest.mark.parametrize("content", [b"", b"x" * 100, None])
def test_a_damaged_or_closed_cache_is_passed_over(
    cached_paths: list[Path], tmp_path: Path, content: bytes | None
) -> None:
    cache = tmp_path / "cache"
    if content is None:
        cache.write_bytes(b"a file")
    for _ in range(2):
        lexicons = open_dictionaries(cached_paths, cache=cache)
        assert [*map(state, lexicons)] == [*map(state, open_dictionaries(cached_paths))]
        for path in cache.iterdir() if content is not None else ():
            path.write_bytes(content)


def test_the_dictionaries_of_an_index(tmp_path: Path) -> None:
    folder = DictionaryFolder(tmp_path)
    assert (folder.names(), folder.read()) == ([], [])
    for name in ("b.tsv", "a.tbx"):
        folder.add(Dictionary(name, [HOUSE]))
    folder.add(Dictionary("b.tsv", [[("de", "Bank"), ("en", "bench")]]))  # replaces the first one
    first, second = folder.read()
    assert folder.names() == [first.name, second.name] == ["a.tbx", "b.tsv"]
    assert (texts(first, "Haus"), texts(first, "Bank")) == (["house", "building"], [])
    assert (texts(second, "Haus"), texts(second, "Bank")) == ([], ["bench"])
    folder.remove("a.tbx")
    assert folder.names() == ["b.tsv"]
    with pytest.raises(InputError, match=r"no dictionary 'a\.tbx'; this index has: b\.tsv"):
        folder.remove("a.tbx")


@pytest.mark.parametrize("place", [0, -1, -40])
def test_a_damaged_dictionary_of_an_index_is_refused(tmp_path: Path, place: int) -> None:
    DictionaryFolder(tmp_path).add(Dictionary("a.tsv", [HOUSE]))
    (file,) = (tmp_path / "dictionaries").iterdir()
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)
    with pytest.raises(IndexDamaged, match=r"a\.tsv\.safetensors: is damaged; remove the dictionary"):
        DictionaryFolder(tmp_path).read()


def test_small_dictionaries_are_not_kept(tmp_path: Path) -> None:
    (tmp_path / "de-en.tsv").write_text("Haus\thouse\n", "utf-8")
    paths_read: list[Path] = []
    open_dictionaries([tmp_path / "de-en.tsv"], (), tmp_path / "cache", paths_read.append)
    assert not paths_read
    assert not (tmp_path / "cache").exists()


def test_half_a_surrogate_pair_is_not_wording() -> None:
    assert Dictionary("mine", [HOUSE]).equivalents("\ud800") == []


def test_more_pairs_than_memory_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dictionary, "PAIRS", 10)
    with pytest.raises(InputError, match="more than 10 pairs"):
        Dictionary("mine", [[("de", f"{n}") for n in range(4)] + [("en", f"{n}") for n in range(4)]])


@pytest.mark.parametrize("suffix", [".tsv", ".csv", ".txt", ".tsv.gz"])
def test_tables_without_a_header(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"de-en{suffix}"
    comma = "," if suffix == ".csv" else "\t"
    raw = f"# mine\nHaus (n){comma}house; building\n\n# more\nBank{comma}bench\n".encode()
    path.write_bytes(gzip.compress(raw) if suffix.endswith(".gz") else raw)
    lexicon = opened(path)
    assert lexicon.languages == ["de", "en"]
    assert lexicon.name == path.name
    assert texts(lexicon, "die Häuser", "de") == ["house", "building"]
    assert texts(lexicon, "benches", "en") == ["Bank"]


def test_a_glossary_of_omegat_is_read_by_its_first_two_columns(tmp_path: Path) -> None:
    path = tmp_path / "glossary.txt"
    path.write_text("Bank\tbench\ta seat\nFeder\tspring\tof steel :: not of a bird\nUfer\tshore\t\n", "utf-8")
    lexicon = opened(path)
    assert [texts(lexicon, word) for word in ("Bank", "Feder", "Ufer")] == [["bench"], ["spring"], ["shore"]]
    assert texts(lexicon, "not of a bird") == []


@pytest.mark.parametrize(
    "header",
    [
        *["Deutsch;Englisch", "deutsch;English", "German;Englisch", "allemand;anglais", "Alemán;inglés"],
        *["ALLEMAND;ANGLAIS", normalize("NFD", "alemán;inglés"), "de;English", "Deutsch;Target", "source;Englisch"],
    ],
)
def test_headers_in_other_languages_than_english(tmp_path: Path, header: str) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(f"{header}\nBank;bench\nFrist;deadline\n", "utf-8")
    lexicon = opened(path)
    assert len(lexicon) == 4
    assert [item.text for item in lexicon.equivalents("Bank", "de", "en")] == ["bench"]
    if not {"target", "source"} & set(header.lower().split(";")):
        assert lexicon.languages == ["de", "en"]
        assert lexicon.equivalents("Bank", "fr") == []


def test_a_first_entry_with_the_names_of_one_language_is_no_header(tmp_path: Path) -> None:
    path = tmp_path / "mine.tsv"
    path.write_text("Deutsch\tGerman\nBank\tbench\n", "utf-8")
    assert texts(opened(path), "deutsch") == ["German"]


def test_headers_name_columns(tmp_path: Path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text("id\tEnglish\tnote\tGerman\tfr\n1\tbench\tx\tBank\tbanc\n", "utf-8")
    assert opened(path).languages == ["en", "de", "fr"]
    assert texts(opened(path), "bench", target="fr") == ["banc"]
    path.write_text("source\ttarget\tscore\nBank\tbench\t0.9\n", "utf-8")
    assert texts(opened(path), "bench") == ["Bank"]
    [lexicon] = open_dictionaries([path], ["de", "en"])
    assert lexicon.languages == ["de", "en"]


@pytest.mark.parametrize("suffix", [".tsv", ".csv", ".xlsx"])
def test_a_table_that_phrasemate_wrote_has_one_wording_in_a_cell(tmp_path: Path, suffix: str) -> None:
    wordings = ["input; output", "salt, pepper", "teacher(s)", 'the "big" one', '"salt; pepper"', "=sum(a;b)", "adj."]
    pairs = [TermPair(Term(f"Wort {n}", "de"), Term(text, "en")) for n, text in enumerate(wordings)]
    write_pairs(tmp_path / f"pairs{suffix}", pairs)
    lexicon = opened(tmp_path / f"pairs{suffix}")
    assert [texts(lexicon, f"Wort {n}") for n in range(len(wordings))] == [[text] for text in wordings]


def test_a_glossary_as_a_table_has_one_wording_in_a_cell(tmp_path: Path) -> None:
    path = tmp_path / "glossary.csv"
    entries = [Entry("Ein-/Ausgabe", "input; output", "de", "en"), Entry("Lehrer(in)", "teacher(s)", "de", "en")]
    write_glossary(path, entries, "csv")
    lexicon = opened(path)
    assert [texts(lexicon, entry.source) for entry in entries] == [["input; output"], ["teacher(s)"]]
    path.write_text("German,English\nEin-/Ausgabe,input; output\n", "utf-8")  # a table of another program
    assert texts(opened(path), "Ein-/Ausgabe") == ["input", "output"]


def test_ding_lines(tmp_path: Path) -> None:
    path = tmp_path / "de-en.txt"
    path.write_text("# Version 1\nHaus {n}; Gebäude {n} | Häuser {pl} :: house; building | houses\n", "utf-8")
    lexicon = opened(path)
    assert texts(lexicon, "Gebäude") == ["house", "building"]
    assert texts(lexicon, "houses", "en") == ["Häuser"]


def test_term_bases_and_memories(tmp_path: Path) -> None:
    terms = [Term("bench", "en", "1"), Term("Bank, lang", "de", "1"), Term("well", "en", "2")]
    write_terms(tmp_path / "base.tbx", terms)
    assert texts(opened(tmp_path / "base.tbx"), "benches") == ["Bank, lang"]
    long = " ".join(["word"] * 9)
    pairs = [("Guten Tag!", "Hello!"), (long, "x")]
    units = [Unit((Side(german, "de-DE"), Side(english, "en-GB"))) for german, english in pairs]
    write_units(tmp_path / "memory.tmx", units)
    assert texts(opened(tmp_path / "memory.tmx"), "hello!", "en") == ["Guten Tag!"]
    assert texts(opened(tmp_path / "memory.tmx"), "x", "en") == []


def test_workbooks(tmp_path: Path) -> None:
    write_pairs(tmp_path / "terms.xlsx", [TermPair(Term("Bank", "de"), Term("bench", "en"))])
    assert texts(opened(tmp_path / "terms.xlsx"), "bank") == ["bench"]


@pytest.mark.parametrize(("width", "pack"), [(4, False), (4, True), (8, False)])
def test_stardict(tmp_path: Path, width: int, pack: bool) -> None:
    entries = [("Bank", b"<b>bench</b>; bank"), ("Haus", b"1. house\n2. building")]
    facts = "sametypesequence=h" + ("\nidxoffsetbits=64" if width == 8 else "")
    path = write_stardict(tmp_path / "deu-eng.ifo", entries, facts, width, pack)
    (tmp_path / "deu-eng.syn").write_bytes("Häuser".encode() + b"\0" + (1).to_bytes(4, "big"))
    lexicon = opened(path)
    assert lexicon.languages == ["de", "en"]
    assert texts(lexicon, "Bank", "de") == ["bench", "bank"]
    assert texts(lexicon, "building", "en") == ["Haus", "Häuser"]
    assert [opened(path.with_suffix(".idx")).name, opened(tmp_path).name] == ["deu-eng.ifo", "deu-eng.ifo"]


def test_stardict_fields_of_several_types(tmp_path: Path) -> None:
    mixed = b"tbank\0mbench\0P" + (3).to_bytes(4, "big") + b"png" + b"gb<i>ank</i>\0"
    path = write_stardict(tmp_path / "x.ifo", [("Sitz", mixed)], "")
    assert texts(opened(path), "Sitz") == ["bench", "bank"]
    path = write_stardict(tmp_path / "x.ifo", [("Sitz", b"bank\0bench")], "sametypesequence=tm")
    assert texts(opened(path), "Sitz") == ["bench"]


@pytest.mark.parametrize("pack", [False, True])
def test_dictd(tmp_path: Path, pack: bool) -> None:
    entries = [
        ("00databaseinfo", "About\nthis dictionary"),
        ("thats that", "that's that /x/\nDas war's.\n"),
        ("bench", "bench /bentʃ/\nBank <fem>, Sitzbank\n   Synonyms: {seat}"),
    ]
    lexicon = opened(write_dictd(tmp_path / "eng-deu.index", entries, pack))
    assert texts(lexicon, "that's that") == ["Das war's."]
    assert texts(lexicon, "benches", "en") == ["Bank", "Sitzbank"]
    assert texts(lexicon, "dictionary") == []


BAD = [
    ("x.tsv", b"", "no pair of wordings"),
    ("x.tsv", b"one\n", "no row with two wordings"),
    ("x.tsv", b"\xff\xfe\0\0", "byte-order mark"),
    ("x.txt", b"only words\n", "no two wordings"),
    ("x.csv", b"\x89PNG\r\n\x1a\n", "a PNG image"),
    ("x.tbx", b"<tbx", "x.tbx"),
    ("x.tmx", b"no xml", "x.tmx"),
    ("x.xlsx", b"PK\x03\x04", "x.xlsx"),
    ("x.pdf", b"%PDF-", "no dictionary by its name"),
    ("x.ifo", b"StarDict\n", "does not begin with"),
    ("x.ifo", b"StarDict's dict ifo file\n", "no file x.idx or x.idx.gz beside it"),
    ("x.index", b"word\tA\tB\n", "no file x.dict.dz or x.dict beside it"),
]


@pytest.mark.parametrize(("name", "content", "message"), BAD)
def test_bad_files(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ReadError, match=message):
        open_dictionaries([tmp_path / name])


def test_missing_file_and_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match=r"cannot be read \(No such file"):
        open_dictionaries([tmp_path / "x.tsv"])
    with pytest.raises(ReadError, match="no dictionary in this folder"):
        open_dictionaries([tmp_path])


def test_damaged_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_stardict(tmp_path / "x.ifo", [("Bank", b"bench")])
    (tmp_path / "x.dict").write_bytes(b"ben")
    with pytest.raises(ReadError, match="an entry ends at byte 5 of 3 bytes"):
        opened(path)
    (tmp_path / "x.idx").write_bytes(b"Bank\0\0")
    with pytest.raises(ReadError, match="no entry at byte 0"):
        opened(path)
    path = write_dictd(tmp_path / "y.index", [("Bank", "bench")])
    path.write_text("Bank\tA\t!\n")
    with pytest.raises(ReadError, match="line 1: no number"):
        opened(path)
    path.write_text("Bank\n")
    with pytest.raises(ReadError, match="line 1: no headword"):
        opened(path)
    (tmp_path / "y.dict.dz").write_bytes(gzip.compress(b"bench")[:-4])
    with pytest.raises(ReadError, match="damaged gzip data"):
        opened(path)
    monkeypatch.setattr(formats, "SIZE", 1000)
    (tmp_path / "y.dict.dz").write_bytes(gzip.compress(b"0" * 2000))
    with pytest.raises(ReadError, match="more than 1,000 bytes"):
        opened(path)


def test_more_entries_than_memory_is_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [(word, "bank") for word in ("eins", "zwei", "drei")]
    star, dictd = write_stardict(tmp_path / "x.ifo", []), tmp_path / "y.index"
    for limit, says in ((3, ""), (2, "more than 2 entries; split the dictionary")):
        monkeypatch.setattr(formats, "ENTRIES", limit)
        write_stardict(star, [(word, meaning.encode()) for word, meaning in words])
        write_dictd(dictd, words)
        for path, names in ((star, "x.idx"), (dictd, "y.index, line 3")):
            if not says:
                assert texts(opened(path), "drei") == ["bank"]
                continue
            with pytest.raises(ReadError, match=f"{names}: {says}"):
                opened(path)
    write_stardict(star, [(word, meaning.encode()) for word, meaning in words[:2]])
    star.with_suffix(".syn").write_bytes(b"".join(word.encode() + b"\0" + bytes(4) for word, _ in words))
    with pytest.raises(ReadError, match=r"x\.syn: more than 2 entries; split the dictionary"):
        opened(star)


def test_a_part_of_a_dictionary_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, usual = write_stardict(tmp_path / "x.ifo", [("Bank", b"bench")]), Path.open

    def refuse(file: Path, *arguments: Any) -> Any:
        if file.suffix == ".dict":
            raise PermissionError(13, "Permission denied")
        return usual(file, *arguments)

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ReadError, match=r"x\.dict: cannot be read \(Permission denied\); check the path and its perm"):
        opened(path)


def test_many_entries_of_one_definition_cost_no_more_than_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "TEXT", 20)
    path = write_dictd(tmp_path / "x.index", [("a", "0123456789")])
    path.write_text("".join(f"word{n}\tA\tK\n" for n in range(9)))
    with pytest.raises(ReadError, match="definitions of more than 20 bytes"):
        opened(path)


@pytest.mark.parametrize(
    ("lang", "sentence", "expected"),
    [
        *[("fr", "Je vais à l'école.", ["école"]), ("fr", "Je vais à L’École.", ["École"])],
        *[("fr", "Parce qu'école et l'eau potable.", ["école", "eau potable"]), ("fr", "une école", ["école"])],
        *[("fr", normalize("NFD", "près de l'école"), [normalize("NFD", "école")]), ("fr", "D'accord, l'", ["accord"])],
        *[("fr", "aujourd'hui", ["aujourd'hui"]), ("it", "Beve l'acqua dell’isola", ["acqua", "isola"])],
        *[("ca", "beu l'aigua", ["aigua"]), ("en", "l'école", [])],
    ],
)
def test_terms_after_an_elision(lang: str, sentence: str, expected: list[str]) -> None:
    french = ["école", "eau", "eau potable", "d'accord", "aujourd'hui"]
    listed = {"fr": french, "it": ["acqua", "l'isola"], "ca": ["aigua"], "en": ["hui"]}
    lexicon = Dictionary(
        "mine", [[(key, term), ("de", term.upper())] for key, terms in listed.items() for term in terms]
    )
    terms = terms_in(sentence, [lexicon], lang, "de")
    assert [sentence[term.start : term.end] for term in terms] == expected


def test_composed_and_decomposed_letters_are_alike(tmp_path: Path) -> None:
    word = normalize("NFD", "café")
    (tmp_path / "mine.tsv").write_text(f"fr\ten\n{word}\tcoffee\ncafé\tcafe\n", "utf-8")
    lexicon = opened(tmp_path / "mine.tsv")
    assert texts(lexicon, word) == texts(lexicon, "café") == ["coffee", "cafe"]
    assert texts(lexicon, "coffee") == ["café"]
    assert [term.equivalents for term in terms_in(f"Un {word}.", [lexicon], "fr")] == [("coffee", "cafe")]
