"""A run whose folder cannot be written any more stops with one error, and goes on exactly when it can."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from safetensors import SafetensorError

from phrasemate.errors import InputError, ModelError
from phrasemate.methods.backbone import Backbone
from phrasemate.methods.ccpr_task import CCPRTask, Config
from phrasemate.methods.checkpoint import Checkpoint
from phrasemate.train import Trainer


def trainer(tables: dict[str, Any], pairs: Path, run: Path) -> Trainer[Any]:
    config = Config.of(tables)
    return Trainer(CCPRTask(config, pairs), config.loop, run, config.facts())


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), SafetensorError("I/O error:\nNo space")])
def test_a_full_disk(
    tables: dict[str, Any], pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    trainer(tables, pairs, tmp_path / "whole").run()
    save, calls = Checkpoint.save, []

    def full(self: Checkpoint, *arguments: Any) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise error
        save(self, *arguments)

    monkeypatch.setattr(Checkpoint, "save", full)
    with pytest.raises(InputError, match=r"the run stopped .*No space.*goes on from the last checkpoint") as caught:
        trainer(tables, pairs, tmp_path / "run").run()
    assert "\n" not in str(caught.value)
    trainer(tables, pairs, tmp_path / "run").run()
    kept = [(tmp_path / name / "model" / "model.safetensors").read_bytes() for name in ("whole", "run")]
    assert kept[0] == kept[1]
    assert not (tmp_path / "run" / "model.old").exists()


def test_an_encoder_that_was_cut_short(base: Path, tmp_path: Path) -> None:
    for path in base.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(ModelError, match="no encoder that transformers loads"):
        Backbone(tmp_path)
