"""Learn the bundled pairs of endings from the bundled lexicon.

    python bench/endings.py --out src/phrasemate/models/lexicon/endings.safetensors

For each language, one word in ten of the lexicon is held out, and pairs of endings are learned from the other words.
The script prints how often a held-out word is answered through other forms of it, and how often the likeliest
equivalent is one that the lexicon lists for it.
"""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path

from common import parser

from phrasemate.lexicon import bundled_lexicon
from phrasemate.lexicon.endings import Endings, learn_endings, write_endings
from phrasemate.lexicon.inflection import stem
from phrasemate.lexicon.wordings import Wordings

UNINFLECTED = {"ja", "th", "vi", "zh"}
TESTED = 10  # one word in so many is held out
NONE = {("", ""): 0.0}


def equivalents(language: str) -> dict[str, dict[str, float]]:
    """Return the words of the lexicon in a language, each with the stems of its English equivalents.

    A stem has the sum of the probabilities of its equivalents.
    """
    lexicon = bundled_lexicon()
    assert lexicon is not None
    wordings, words = lexicon._keys_of(language).wordings, {}
    for word in wordings.texts(range(len(wordings))):
        if word.isalpha():
            stems: dict[str, float] = defaultdict(float)
            for english, probability in lexicon.into_english(word, language):
                stems[" ".join(stem(part, "en") for part in english.split())] += probability
            words[word] = dict(stems)
    return words


def report(language: str, words: dict[str, dict[str, float]], folder: Path, seed: int) -> None:
    """Print how well the held-out words of a language are answered through the others."""
    held_out = random.Random(seed).sample(sorted(words), len(words) // TESTED)
    rest = {word: words[word] for word in words.keys() - set(held_out)}
    write_endings(folder, {language: learn_endings(rest, language) or NONE})
    endings, wordings, answers, hits = Endings(folder), Wordings.of(sorted(rest, key=str.encode)), 0, 0
    for word in held_out:
        weights: dict[str, float] = defaultdict(float)
        for row, reliability in endings.forms(word, language, wordings):
            for english, probability in rest[wordings[row]].items():
                weights[english] = max(weights[english], reliability * probability)
        answers += bool(weights)
        hits += bool(weights) and max(weights, key=lambda english: weights[english]) in words[word]
    shares = f"{answers / len(held_out):.2f} answered, {hits / max(answers, 1):.2f} of these right"
    print(f"{language}: {len(held_out):,} words, {shares}", flush=True)


def main() -> None:
    """Learn the endings, print their figures and write them."""
    options = parser(__doc__)
    options.add_argument("--out", type=Path, required=True)
    args = options.parse_args()
    lexicon = bundled_lexicon()
    assert lexicon is not None
    languages = {}
    for language in sorted(set(lexicon.languages) - UNINFLECTED):
        words = equivalents(language)
        report(language, words, args.out, args.seed)
        if rules := learn_endings(words, language):
            languages[language] = rules
    write_endings(args.out, languages, {"licence": "LICENSE.md", "source": "bench/endings.py"})
    print(f"{sum(map(len, languages.values())):,} pairs of endings, {args.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
