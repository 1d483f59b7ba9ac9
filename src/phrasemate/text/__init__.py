"""Text in: files, folders and standard input as documents; sentences and words with character offsets."""

from __future__ import annotations

from phrasemate.text.corpus import Corpus, read
from phrasemate.text.damage import Skipped
from phrasemate.text.segmentation import split_sentences, words

__all__ = ["Corpus", "Skipped", "read", "split_sentences", "words"]
