"""A worker: a Ray actor that holds the encoder and makes shards."""

from __future__ import annotations

import os
from typing import NamedTuple

from phrasemate.cluster import making
from phrasemate.cluster.records import Order, Recipe, Shard
from phrasemate.cluster.tables import Tables
from phrasemate.errors import ModelMismatch, PhrasemateError
from phrasemate.index.types import IndexModel


class Outcome(NamedTuple):
    """What came of an order: a shard, or an error of phrasemate by the name of its class and what it says."""

    shard: Shard | None
    kind: str = ""
    said: str = ""


class Worker:
    """Makes shards by one recipe, with one thread. The model is loaded with the first order."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.tables = Tables(recipe.place, recipe.options)
        self._model: IndexModel | None = None

    def pid(self) -> int:
        """The process that this worker is."""
        return os.getpid()

    def run(self, order: Order) -> Outcome:
        """Make a shard and commit it. What phrasemate raises comes back as a record, since not all of it travels."""
        try:
            made = making.make(order, self.model(), self.recipe)
            shard = self.write(order, made)
            self.commit(shard)
        except PhrasemateError as error:
            return Outcome(None, type(error).__name__, str(error))
        return Outcome(shard)

    def write(self, order: Order, made: making.Made) -> Shard:
        return making.write(self.tables, order, made)

    def commit(self, shard: Shard) -> None:
        making.commit(self.tables, shard)

    def model(self) -> IndexModel:
        """Raises ModelMismatch if this machine has another model, or another phrasemate, than the driver."""
        if self._model is None:
            from phrasemate import __version__
            from phrasemate.encode import load_model

            loaded: IndexModel = load_model(self.recipe.model_path, threads=1)
            if (loaded.hash, __version__) != (self.recipe.model_hash, self.recipe.version):
                raise ModelMismatch(
                    f"a worker has phrasemate {__version__} and the model {loaded.hash[:12]}, the driver "
                    f"{self.recipe.version} and {self.recipe.model_hash[:12]}; install the same on all machines"
                )
            self._model = loaded
        return self._model
