"""What the REST service takes and gives: the bodies of requests, and the answers as its description has them."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from phrasemate.server.request_body import Asked, Limits

INDEX = Field("", description="The name of an index, as /indexes gives it; empty: the first one.")
LANGUAGE = "^[A-Za-z0-9_-]{0,20}$"
TEXTS = [("maxItems", "texts"), ("maxLength", "characters")]


class Search(Asked):
    """What means the same as the marked phrases of a sentence."""

    limits: ClassVar[Limits] = {
        "query": [("maxLength", "characters")],
        "k": [("maximum", "k")],
        "contexts": [("maximum", "contexts")],
        "documents": [("maxItems", "filters"), ("maxLength", "characters")],
        "languages": [("maxItems", "filters"), ("maxLength", "characters")],
    }
    query: str = Field(
        description=r"A sentence; [[ ]] marks its phrases (\[[ and \]] are brackets), else all are taken."
    )
    index: str = INDEX
    k: int = Field(10, ge=1, description="Groups of equal wording for each phrase, at most.")
    contexts: int = Field(5, ge=0, description="Sentences for each group, at most.")
    documents: list[str] | None = Field(None, description="Search in these documents only.")
    languages: list[str] | None = Field(None, description="Search in these languages only.")


class Segment(Asked):
    """The phrases of texts."""

    limits: ClassVar[Limits] = {"texts": TEXTS}
    texts: list[str]
    index: str = INDEX
    overlapping: bool = Field(True, description="False: phrases that share no word.")
    threshold: float | None = Field(None, ge=0, le=1, description="The least score of a phrase.")
    max_words: int | None = Field(None, ge=1, le=16, description="The most words of a phrase.")


class Encode(Asked):
    """Vectors of marked phrases and of whole sentences."""

    limits: ClassVar[Limits] = {"queries": TEXTS, "sentences": TEXTS}
    queries: list[str] = Field([], description="Sentences whose phrases are marked with [[ ]].")
    sentences: list[str] = Field([], description="Sentences, each as a whole.")
    index: str = INDEX


class Mine(Asked):
    """The pairs of sentences that are translations of each other."""

    limits: ClassVar[Limits] = {
        "source": [("maxItems", "sentences"), ("maxLength", "sentence_characters")],
        "target": [("maxItems", "sentences"), ("maxLength", "sentence_characters")],
    }
    source: list[str]
    target: list[str]
    index: str = Field("", description="The index whose model is used.")
    source_language: str = Field("", pattern=LANGUAGE)
    target_language: str = Field("", pattern=LANGUAGE)
    threshold: float | None = Field(None, ge=-10, le=10, description="The least score of a pair.")


class Terms(Asked):
    """The terms of a document, each with its candidate translations."""

    model_config = ConfigDict(extra="forbid", strict=False)  # a form holds text only
    limits: ClassVar[Limits] = {
        "most": [("maximum", "terms")],
        "k": [("maximum", "k")],
        "contexts": [("maximum", "contexts")],
    }
    index: str = INDEX
    language: str = Field("", pattern=LANGUAGE, description="Language of the document, e.g. de.")
    target_language: str = Field("", pattern=LANGUAGE, description="Translations in this language only.")
    ranking: Literal["termhood", "expected", "frequency", "cvalue"] = "termhood"
    most: int = Field(200, ge=1, description="The best terms, at most.")
    k: int = Field(5, ge=1, description="Candidate translations of a term, at most.")
    contexts: int = Field(2, ge=0, description="Sentences of a term, and of a translation, at most.")


class Failure(BaseModel):
    """Every answer that is none."""

    class Error(BaseModel):
        status: int
        code: str = Field(description="For programs; docs/serve.md lists all.")
        message: str = Field(description="For people: what was seen, what was expected.")

    error: Error


class Span(BaseModel):
    start: int = Field(description="Characters (Unicode code points) of the text without marks.")
    end: int


class Hit(Span):
    context: str
    score: float
    document: str
    line: int
    language: str
    metadata: dict[str, Any]


class Group(BaseModel):
    text: str
    score: float = Field(description="The cosine of its best hit.")
    support: float = Field(description="What groups are ordered by: the probability, where it is known.")
    count: int = Field(description="How often the wording occurs: in the whole index, where the probability is known.")
    probability: float | None = Field(None, description="How likely the wording is an equivalent, if known.")
    source: str = Field("", description="The dictionary that gives the wording, if one does.")
    hits: list[Hit]


class Result(Span):
    phrase: str
    confidence: float | None = Field(None, description="The probability that the index holds an equivalent, if known.")
    groups: list[Group]


class SearchAnswer(BaseModel):
    index: str
    query: str
    results: list[Result] = Field(description="One for each phrase.")


class Proposed(Span):
    text: str
    score: float


class SegmentAnswer(BaseModel):
    phrases: list[list[Proposed]] = Field(description="One list for each text.")


class EncodedPhrase(Span):
    query: int = Field(description="The number of the query, from 0.")
    phrase: str
    vector: list[float]


class EncodeAnswer(BaseModel):
    model: str
    model_hash: str
    phrases: list[EncodedPhrase] = Field(description="Vectors of unit length.")
    sentences: list[list[float]] = Field(description="Vectors of unit length, one for each sentence.")


class Pair(BaseModel):
    source: int = Field(description="The number of the sentence, from 0 (the first of equal ones).")
    target: int
    score: float
    cosine: float


class MineAnswer(BaseModel):
    threshold: float
    pairs: list[Pair] = Field(description="The best pair first.")


class IndexFacts(BaseModel):
    name: str
    documents: int
    sentences: int
    phrases: int
    languages: dict[str, int] = Field(description="Documents in each language.")
    model: str
    model_hash: str
    generation: int = Field(description="Grows with every change.")
    problem: str = Field("", description="Why it cannot be used just now: then nothing else is known of it.")


class IndexesAnswer(BaseModel):
    indexes: list[IndexFacts]


class Variant(BaseModel):
    text: str
    count: int


class Place(Span):
    context: str
    document: str
    line: int


class Term(BaseModel):
    text: str
    score: float = Field(description="What it is ranked by.")
    count: int
    belief: float
    variants: list[Variant]
    places: list[Place]
    confidence: float | None
    groups: list[Group]


class TermsAnswer(BaseModel):
    index: str
    terms: list[Term] = Field(description="The best first.")


class Health(BaseModel):
    status: str
    version: str
    indexes: list[str]
