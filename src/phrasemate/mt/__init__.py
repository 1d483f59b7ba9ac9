"""Translation with a language model and retrieved phrases: prompts, client, scores."""

from __future__ import annotations

from phrasemate.mt.client import Answer, Cache, Client, Endpoint
from phrasemate.mt.hints import Hint, Hinter, Hints, RelatedSentences
from phrasemate.mt.prompt import FORMS, Example, Form, Prompt, Prompter, language_name, read_form
from phrasemate.mt.translate import Retrieval, Translation, Translator

__all__ = [
    "FORMS",
    "Answer",
    "Cache",
    "Client",
    "Endpoint",
    "Example",
    "Form",
    "Hint",
    "Hinter",
    "Hints",
    "Prompt",
    "Prompter",
    "RelatedSentences",
    "Retrieval",
    "Translation",
    "Translator",
    "language_name",
    "read_form",
]
