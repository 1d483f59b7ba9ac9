"""A plan for an index of very many phrases: core-hours, hours, bytes and money for each step, from unit costs.

    sentences       = phrases / phrases a sentence
    reading         = sentences x read                                   on one core: the driver
    encoding        = sentences x encode
    writing         = phrases x write
    lists           = min(phrases / 4,096, 4,096)
    distances       = rounds x 256 x lists^2 + phrases x lists           training, and giving each vector its list
    vector index    = phrases x quantise + distances x distance          training on one machine, the rest on all
    bytes           = sentences x bytes a sentence + phrases x (bytes a phrase + bytes in the vector index)
    a query         = query + code x phrases x 64 / lists

The units are those of one core; results/log/scale.md says how they were measured. Each can be given.

    python bench/plan.py --phrases 1e9 --machines 4 --cores 16
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

from common import plain_parser

from phrasemate.evaluate.report import text_table
from phrasemate.index.lance.index import lists_for

SAMPLE, ROUNDS = 256, 50  # vectors a list that Lance trains on, and how often at most
PROBES = 64  # lists that a query reads


@dataclass(frozen=True)
class Units:
    """Of one core; seconds unless the name says something else."""

    phrases_a_sentence: float = 17.26
    read: float = 1.9e-5  # a sentence: read, cut into shards
    encode: float = 5.40e-3  # a sentence
    write: float = 1.55e-6  # a phrase, with its share of the commits
    quantise: float = 9.2e-6  # a phrase
    distance: float = 8.1e-8  # of a vector and a centre
    bytes_a_sentence: float = 286.0
    bytes_a_phrase: float = 388.0
    bytes_in_index: float = 40.0  # a phrase
    query: float = 0.0136  # whatever the size: the centres, reading and ranking 256 vectors
    code: float = 3.4e-9  # of the vector index, compared with a query
    core_hour: float = 0.05  # money; not measured: what a cloud asks
    gigabyte_month: float = 0.023  # money; not measured


class Step(NamedTuple):
    """``core_hours`` of work on ``cores``, and the ``bytes`` that it leaves."""

    name: str
    core_hours: float
    cores: int
    bytes: float = 0.0


def steps(phrases: float, units: Units, machines: int, cores: int) -> list[Step]:
    """Every step in its order; ``cores`` of each machine."""
    sentences, lists, every = phrases / units.phrases_a_sentence, lists_for(int(phrases)), machines * cores
    training = ROUNDS * SAMPLE * lists**2 * units.distance
    giving = phrases * (units.quantise + lists * units.distance)
    return [
        Step("read and cut", sentences * units.read / 3600, 1),
        Step("encode", sentences * units.encode / 3600, every, sentences * units.bytes_a_sentence),
        Step("write", phrases * units.write / 3600, every, phrases * units.bytes_a_phrase),
        Step("vector index: train", training / 3600, cores),
        Step("vector index: fill", giving / 3600, every, phrases * units.bytes_in_index),
    ]


def table(phrases: float, units: Units, machines: int, cores: int) -> str:
    """The plan as text. Reading continues while workers encode: the longer of the two counts."""
    rows, hours, total = [], 0.0, 0.0
    plan = steps(phrases, units, machines, cores)
    for step in plan:
        alone = step.core_hours / step.cores
        hours += max(0.0, alone - plan[0].core_hours) if step.name == "encode" else alone
        total += step.core_hours
        rows.append(
            [step.name, step.core_hours, step.cores, alone, step.bytes / 1e9, step.core_hours * units.core_hour]
        )
    size = sum(step.bytes for step in plan) / 1e9
    rows.append(["all", total, machines * cores, hours, size, total * units.core_hour])
    header = ["step", "core-hours", "on cores", "hours", "GB", "cost"]
    cells = [[cell if isinstance(cell, str | int) else f"{cell:,.1f}" for cell in row] for row in rows]
    lists, month = lists_for(int(phrases)), size * units.gigabyte_month
    query = units.query + units.code * phrases * min(1.0, PROBES / lists)
    notes = f"{lists:,} lists; a query {1e3 * query:,.0f} core-ms; keeping {size:,.0f} GB {month:,.0f} a month"
    return f"{text_table(header, cells)}\n{notes}"


def main() -> None:
    options = plain_parser(__doc__)
    options.add_argument("--phrases", type=float, default=1e9)
    options.add_argument("--machines", type=int, default=4)
    options.add_argument("--cores", type=int, default=16, help="of each machine (default: %(default)s)")
    for unit in fields(Units):
        options.add_argument(f"--{unit.name.replace('_', '-')}", type=float, default=unit.default)
    units = vars(options.parse_args())
    phrases, machines, cores = units.pop("phrases"), units.pop("machines"), units.pop("cores")
    print(table(phrases, Units(**units), machines, cores))


if __name__ == "__main__":
    main()
