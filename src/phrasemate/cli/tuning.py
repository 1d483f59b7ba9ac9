"""What ``phrasemate index optimize --target-recall`` says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from phrasemate.index import TuneReport

Target = Annotated[
    float | None,
    typer.Option(
        "--target-recall",
        metavar="R",
        help="Choose lists, codes and candidates for this recall@1, e.g. 0.95, by measuring; kept in the index.",
    ),
]
At = Annotated[
    int,
    typer.Option(
        "--at", metavar="N", help="With --target-recall: of recall@1, or of recall@10 (10), which costs more."
    ),
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="With --target-recall: which phrases are asked for.")]


def said(report: TuneReport) -> str:
    """Lines for people."""
    if report.engine == "exact":
        return f"{report.phrases:,} phrases are searched exactly; there is nothing to choose"
    lists = f"at most {report.probes} lists read, within {report.slack:.2f} of the best; " if report.probes else ""
    found = f"recall@1 {report.recall_at_1:.3f}, recall@10 {report.recall_at_10:.3f} ({report.queries:,} phrases)"
    times = f"{report.single_ms:.2f} ms for one query, {report.batch_ms:.3f} ms each in a batch of {report.queries:,}"
    missed = (
        ""
        if report.reached
        else f"\nrecall@{report.at} {report.target:g} was not reached: this is the most thorough way"
    )
    return (
        f"{report.engine}: {lists}{report.candidates} candidates\n{found}\n{times}\n"
        f"chosen among {len(report.trials)} layouts in {report.seconds:.0f} s{missed}"
    )
