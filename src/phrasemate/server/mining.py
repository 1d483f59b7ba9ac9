"""Mining of two small lists, for the REST service."""

from __future__ import annotations

import re
from typing import Any

from phrasemate.errors import InputError
from phrasemate.mine import Mining, mine
from phrasemate.server.effort import go_on
from phrasemate.server.schemas import Mine
from phrasemate.types import Document

_OPTIONS = re.compile(r", --(source|target)-lang and --check")  # of the command line: here they are fields


def mined(model: Any, asked: Mine) -> dict[str, Any]:
    """The answer to a request: pairs of numbers of sentences.

    Raises InputError if no sentence of a side can be used.
    """
    settings = Mining(threshold=asked.threshold, languages=(asked.source_language, asked.target_language))
    texts = [Document.from_texts(side, getattr(asked, side)) for side in ("source", "target")]
    try:
        with mine([texts[0]], [texts[1]], model, settings=settings, threads=1, progress=go_on) as found:
            pairs = [
                {
                    "source": mate.source_places[0].line - 1,
                    "target": mate.target_places[0].line - 1,
                    "score": round(mate.score, 4),
                    "cosine": round(mate.cosine, 4),
                }
                for mate in found
            ]
            return {"threshold": found.report.threshold, "pairs": pairs}
    except InputError as error:
        raise InputError(_OPTIONS.sub(r" and \1_language", str(error))) from error
