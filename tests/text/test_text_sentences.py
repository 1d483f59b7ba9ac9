from __future__ import annotations

import ctypes
import time
from unicodedata import category, name

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phrasemate.text import split_sentences, words
from phrasemate.text.sentences import icu_functions


def cut(text: str, spans: list[tuple[int, int]]) -> list[str]:
    return [text[start:end] for start, end in spans]


def sentences(text: str, lang: str = "") -> list[str]:
    return cut(text, split_sentences(text, lang))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It's 3.14, (really)!", ["It's", "3.14", "really"]),
        ("state-of-the-art naïve", ["state", "of", "the", "art", "naïve"]),
        ("我们学习中文。", ["我们", "学习", "中文"]),
        ("私は学生です。", ["私", "は", "学生", "です"]),
        ("ฉันรักภาษาไทย", ["ฉัน", "รัก", "ภาษา", "ไทย"]),
        ("나는 학교에 갔다.", ["나는", "학교에", "갔다"]),
        ("東京ABC大学2024年", ["東京", "ABC", "大学", "2024", "年"]),
        ("…!? -- 😀", []),
        ("", []),
        (" \t\n", []),
    ],
)
def test_words_hold_a_letter_or_digit(text: str, expected: list[str]) -> None:
    assert cut(text, words(text)) == expected


@pytest.mark.parametrize("before", ["😀", "😀😀 ", "𝔘𝔫𝔦 ", "👨‍👩‍👧 ", "e\u0301 ", "\ud800 "])
def test_offsets_are_characters_whatever_stands_before(before: str) -> None:
    spans = words(before + "two words")
    assert spans[-2:] == [(len(before), len(before) + 3), (len(before) + 4, len(before) + 9)]
    text = before + "One ends. Two begins."
    assert split_sentences(text)[-1] == (len(before) + 10, len(text))


def test_a_character_outside_the_first_plane_can_be_a_word() -> None:
    assert cut("a 𠮷 b", words("a 𠮷 b")) == ["a", "𠮷", "b"]


@given(st.text(alphabet=st.one_of(st.characters(), st.sampled_from(list('.!?。 \n"「」()aB1😀»'))), max_size=60))
def test_any_text_gives_ordered_spans_in_range(text: str) -> None:
    for spans in (words(text), split_sentences(text)):
        ends = [0, *(end for _, end in spans)]
        assert all(last <= start < end <= len(text) for last, (start, end) in zip(ends, spans, strict=False))
    inside = {at for start, end in split_sentences(text) for at in range(start, end)}
    assert all(letter.isspace() for at, letter in enumerate(text) if at not in inside)
    assert all(sentence == sentence.strip() for sentence in sentences(text))
    results = {at for start, end in words(text) for at in range(start, end)}
    assert all(at in results for at, letter in enumerate(text) if letter.isalnum())


@pytest.mark.parametrize(
    ("lang", "text"),  # " | " marks the expected cuts
    [
        ("en", "Dr. Smith came. | He left. | Mr. Jones stayed."),
        ("de", "RA Dr. iur. Meier kam. | Er blieb, usw. | Dann ging er."),
        ("pl", "Przyszedł gen. Kowalski. | Ks. Nowak też."),
        ("nl", "Met vr.gr. en o.a. Jan. | Dan kwam maj. Jansen."),
        ("cs", "Přišel JUDr. Novák. | Byl to sport. | Pak odešel."),
        ("ro", "Locuia pe str. Eminescu. | Apoi, etc. | Gata."),
        ("tr", "Yrd. Doç. Ahmet geldi. | Av. Mehmet gitti."),
        ("hr", "Živi u ul. Vukova. | Došao je kpt. Horvat."),
        ("en", "We use it, e.g. Paris or i.e. London. | Fine."),
        ("en", "No. 5 is alive. | Is it? | No. | He left."),
        ("en", "J. K. Rowling met J.R.R. Tolkien. | George W. Bush came."),
        ("en", "Mr. J. K. Rowling met Dr. H. Müller on St. P. Road. | He left."),
        ("en", "In the U. S. | They left at 5 p. m. | Mr. Jones stayed."),
        ("en", "So do I. | Then we went."),
        ("en", "At 5 p.m. | He left."),
        ("en", 'He said "Go!" and left. | "Come," she said.'),
        ("en", "Wait... and see. | (See p. 5.) | Then stop!"),
        ("en", "1. Open the file. | 2. Close it. | B. Read on."),
        ("en", "what? ! | no, really?!"),
        ("en", "hello! | how are you?"),
        ("de", "Das ist z. B. Berlin, d. h. Preußen. | Gut."),
        ("de", "Am 5. Mai kam Dr. Müller. | Er blieb bis 1990. | Dann ging er."),
        ("de", "Hr. Dr. Dr. K. Weber kam am 5. 6. Juni. | Sie wohnt in Nr. 5. | Gut."),
        ("de", "Siehe Abb. 3 und Nr. 4 usw. | Danach kam Prof. Meier."),
        ("de", "„Hallo.“ | Er ging. | »Wer da?« | Niemand."),
        ("", "Herr Prof. Weber wohnt z. B. Unter den Linden. | Mme. Dupont aussi."),
        ("fr", "« Quoi ? » | Il sortit. | Voir p. ex. Paris."),
        ("fr", "Les trav. publ. Dupont durent. | Fin."),
        ("de", "Der Text, Forts. f. Seite Fünf. | Ende."),
        ("en", "He left . | ( See it . ) | [ He ran . ] | Then he sat ."),
        ("es", "El Sr. García vino. | ¿Quién es? | ¡Hola!"),
        ("cs", "Dne 5. Května přišel např. Karel. | Pak odešel."),
        ("ru", "Проф. Иванов живёт на ул. Ленина. | Он пришёл, т. е. Приехал."),
        ("ar", "كيف حالك؟ | جيد."),
        ("es", "La Avda. Real cruza la Av. Mayor. | La Cía. Sur es de EE. UU. | Es de aquí. | Los RR. HH. Nuevos."),
        ("es", "El Excmo. Sr. Ruiz. | Nadó en el mar. | Hace sol. | Desde el 5 a. C. Roma existe."),
        ("pt", "Mora na Av. Central. | O Exmo. Sr. Lima foi ao mar. | Voltou às dez. | Fim."),
        ("it", "L'avv. Bruni e il geom. Neri. | Il dott. Verdi è qui. | La luce è on. | Va."),
        ("nl", "Dhr. en mw. Smit. | Mr. Bos en ir. Dekker ook."),
        ("vi", "TP. Huế đẹp. | ThS. Lan và TS. Minh đến. | PGS. Hoa ở Q. 5. | Hết."),
        ("fr", "Le Prof. Petit. | Il nage dans la mer. | On voit. | La P.-D. G. Dupont."),
        ("de", "Der Dipl.-Ing. Kern wohnt bei Fa. Beck. | Das war ein Test. | So. | Um 30 v. Chr. Rom."),
        ("en", "Lt.Cdr. Hook met Capt. Cook. | It is on. | Do. | He lost the job. | Then Approx. Two."),
        ("ru", "Вот тел. Иванова. | Это стоит 5 руб. | Потом."),
        ("el", "Ο κ. Νικολάου και ο δρ. Παππάς. | Ήρθαν."),
        ("no", "Han heter bl.a. Ola. | Dr. Dahl kom."),
        ("hu", "Zs. Nagy Éva és a Sz. Mihály út. | A 12. sz. alatt. | Gy. Szabó is."),
        ("sv", "Sedan kom Kap. Ek. | Se kap. 5. | Enligt kap. | Nästa."),
        ("pl", "Ch. Dickens i Sz. Nowak. | Koniec."),
        ("en", "I met Ty. | He left."),
        ("uk", "На вул. Лесі живе проф. Бойко. | Так."),
        ("ka", "ქალაქი დიდია. | მდინარე აქ არის. | ა. ბერიძე მოვიდა."),
        ("", "ქალაქი დიდია. | მდინარე აქ არის."),
        ("he", "הוא א. כהן. | היא באה."),
        ("es", "El Gral. Ruiz y los Sres. Paz. | El Ayto. Toledo. | Vio el Pto. Montt. | Espere un min. | Ya."),
        ("pt", "O Cel. Lima e o Min. Reis. | Falta um min. | Vem já."),
        ("vi", "KTS. Vũ và LS. An ở ĐH. Huế. | Hết."),
        ("it", "Il Cap. Neri e l'On. Bruni. | La Gent.ma Sig.ra Verdi. | Il Col. Ferri. | Vado col. | Sì."),
        ("nl", "Min. Bos en Burg. Smit. | Nog een min. | Nu de fam. Jansen."),
        ("id", "Hj. Siti dan Tn. Budi di Kab. Bogor. | PT. Maju ada. | Habis."),
        ("ro", "Ing. Pop din jud. Cluj. | Av. Rusu vine. | Gata."),
        ("hr", "Br. 5 i čl. 7. | Ing. Kos je tu."),
        ("ta", "திரு. குமார் வந்தார். | அவர் போனார்."),
        ("bn", "ডা. রহমান এলেন। | মো. আলী গেলেন।"),
        ("lt", "Čia doc. Petraitis ir prof. Jonaitis. | Kas kt. | Ne."),
        ("", "Πού πας; | Έλα εδώ. | Γεια\u037e | Ναι."),
        ("hy", "Սա գիրք է: | Դա տուն է։ | Ժամը 5:30 է: դա է."),
        ("am", "ሰላም፡ነው፡፡ | እንዴት፡ነህ፧ | ደህና።"),
        ("he", "שלום עולם׃ | ברוך הבא׃"),
        ("bo", "ང་ཡིན། | འདི་དེབ་རེད།། | ག་པར་འགྲོ།"),
        ("zh", "你好。|我是学生！|「真的吗？」|他问道。"),
        ("ja", "私は学生です。|「東京へ行きました。」と言った。|（次。）|はい。"),
    ],
)
def test_sentences(lang: str, text: str) -> None:
    bar = " | " if " | " in text else "|"
    assert sentences(text.replace(bar, " " if bar == " | " else ""), lang) == text.split(bar)


def letters_of_scripts() -> list[str]:
    """A letter of each case, or of none, of each script below U+20000, by Unicode's names: "GEORGIAN LETTER", ..."""
    kinds: dict[tuple[str, ...], str] = {}
    for letter in map(chr, range(0x20000)):
        words_of_name = name(letter, "").split()
        partner = category(letter) != "Ll" or letter.upper() != letter  # not a sign of phonetics alone
        if partner and category(letter) in ("Lu", "Ll", "Lo") and {"LETTER", "SYLLABLE"} & set(words_of_name[1:]):
            kinds.setdefault((words_of_name[0], category(letter)), letter)
    return list(kinds.values())


@pytest.mark.parametrize("letter", letters_of_scripts(), ids=name)
def test_every_script_is_cut_at_a_full_stop_unless_a_small_letter_that_has_a_capital_follows(letter: str) -> None:
    word = letter * 4
    needs_capital = not name(letter).startswith(("COPTIC", "CHEROKEE"))
    expected = 1 if letter.islower() and letter.title() != letter and needs_capital else 2
    assert len(sentences(f"{word} {word}. {word} {word}.", "xx")) == expected


def test_a_line_break_ends_a_sentence_whatever_follows() -> None:
    assert sentences("One.\ntwo goes on\nDr.\u2028Smith") == ["One.", "two goes on", "Dr.", "Smith"]


def test_every_rule_has_its_limits() -> None:
    assert sentences("He got 5. Then he left.", "en") == ["He got 5.", "Then he left."]  # no ordinal dot in English
    assert sentences("Das war 1990. Dann kam er.", "de") == ["Das war 1990.", "Dann kam er."]  # nor after a year
    assert sentences("Es gilt Artikel 48. Dann kam er.", "de") == ["Es gilt Artikel 48.", "Dann kam er."]
    assert sentences("He ate etc. Then he slept.") == ["He ate etc.", "Then he slept."]


def test_a_library_or_function_of_icu_that_is_not_there_is_none() -> None:
    assert icu_functions("libicuuc", "icuuc", {"u_charType": (ctypes.c_int8, ctypes.c_int32)}) is not None
    assert icu_functions("libnothing", "nothing", {}) is None
    assert icu_functions("libicuuc", "icuuc", {"u_nothing": (None,)}) is None


def test_without_words_there_is_one_sentence() -> None:
    assert sentences("... !!! ???") == ["... !!! ???"]
    assert sentences("") == sentences("  \n ") == []


@pytest.mark.parametrize("lang", ["", "EN", "pt_BR", "zh-Hant-TW", "nonsense!", "xx"])
def test_any_language_code_is_taken(lang: str) -> None:
    assert sentences("One. Two.", lang) == ["One.", "Two."]


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    ["a. " * 100_000, "A. " * 25_000, "x" * 300_000 + " a. B. " * 9, "9" * 9000 + ". Ja", "(" * 300_000 + ". A"],
)
def test_time_is_linear_for_text_that_no_one_wrote(text: str) -> None:
    began = time.process_time()
    assert split_sentences(text, "de")
    assert words(text) != [(0, 0)]
    assert time.process_time() - began < 5
