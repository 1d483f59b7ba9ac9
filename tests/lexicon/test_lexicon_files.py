"""The files of the lexicon package: each says in one clear error that it is missing, damaged or of another format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from phrasemate.errors import ModelDamaged, ModelUnsupported
from phrasemate.lexicon.endings import Endings
from phrasemate.lexicon.induced import InducedLexicon
from phrasemate.lexicon.senses import FOLDER, Collocates, SenseVectors


@pytest.mark.parametrize(
    ("reader", "what", "number", "file"),
    [
        (InducedLexicon, "lexicon", 3, "lexicon"),
        (Endings, "endings", 1, "endings"),
        (Collocates, "collocates", 2, "collocates"),
        (SenseVectors, "senses", 2, "senses-into-english"),
        (SenseVectors, "senses", 2, "senses-from-english"),
    ],
)
def test_a_file_that_cannot_be_read(
    tmp_path: Path, reader: Callable[[Path], object], what: str, number: int, file: str
) -> None:
    whole = (FOLDER / f"{file}.safetensors").read_bytes()
    (tmp_path / "whole").write_bytes(whole)
    reader(tmp_path / "whole")
    (tmp_path / "cut").write_bytes(whole[:-1])
    (tmp_path / "text").write_text("no tensors")
    for name in ("cut", "text", "missing"):
        with pytest.raises(ModelDamaged, match=rf"{name}: no {what} can be read \(.+\); install phrasemate again"):
            reader(tmp_path / name)
    save_file({"text": np.zeros(1, np.uint8)}, tmp_path / "plain")
    with pytest.raises(ModelUnsupported, match=f"plain: format None; expected 'phrasemate {what} {number}'"):
        reader(tmp_path / "plain")
    save_file(load_file(tmp_path / "whole"), tmp_path / "later", {"format": f"phrasemate {what} {number + 1}"})
    with pytest.raises(ModelUnsupported, match=f"later: format 'phrasemate {what} {number + 1}'"):
        reader(tmp_path / "later")
