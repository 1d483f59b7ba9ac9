"""Checkpoints that somebody has altered: not gone on from, not by one digit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from phrasemate.errors import CheckpointDamaged
from phrasemate.training.trainer import FACTS, TENSORS, Checkpoint
from phrasemate.utils.storage import sha256_of

KNOWN = {"step": 312, "best": float("-inf"), "sums": {"loss": 0.1}}


@pytest.fixture
def saved_checkpoint(tmp_path: Path) -> Checkpoint:
    checkpoint = Checkpoint(tmp_path / "checkpoint")
    checkpoint.save({"a": torch.arange(3.0)}, KNOWN)
    return checkpoint


def test_what_is_saved_is_loaded(saved_checkpoint: Checkpoint) -> None:
    tensors, facts = saved_checkpoint.load()
    assert (tensors["a"].tolist(), facts) == ([0, 1, 2], KNOWN)


def test_the_checkpoint_behind_a_link_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "disk" / "checkpoint").mkdir(parents=True)
    (tmp_path / "link").symlink_to("disk/checkpoint")
    Checkpoint(tmp_path / "link").save({}, KNOWN)
    assert (tmp_path / "link").readlink() == Path("disk/checkpoint")
    assert Checkpoint(tmp_path / "disk" / "checkpoint").load()[1] == KNOWN


def test_each_bit_of_the_facts_counts(saved_checkpoint: Checkpoint) -> None:
    path = saved_checkpoint.folder / FACTS
    content = path.read_bytes()
    for at in range(len(content)):
        for bit in range(8):
            path.write_bytes(content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :])
            try:
                assert saved_checkpoint.load()[1] == KNOWN  # white space is free
            except CheckpointDamaged:
                continue


def test_one_of_before_is_gone_on_from(saved_checkpoint: Checkpoint) -> None:
    facts = KNOWN | {"sha256": sha256_of(saved_checkpoint.folder / TENSORS)}
    (saved_checkpoint.folder / FACTS).write_text(json.dumps(facts, indent=1))
    assert saved_checkpoint.load()[1] == KNOWN
    (saved_checkpoint.folder / TENSORS).write_bytes(b"x")
    with pytest.raises(CheckpointDamaged, match="remove it to start again"):
        saved_checkpoint.load()


@pytest.mark.parametrize("content", ["[]", '"seal"', "null", "{}", '{"seal": 1, "facts": []}', "[" * 100_000])
def test_what_is_none(saved_checkpoint: Checkpoint, content: str) -> None:
    (saved_checkpoint.folder / FACTS).write_text(content)
    with pytest.raises(CheckpointDamaged, match="remove it to start again"):
        saved_checkpoint.load()
