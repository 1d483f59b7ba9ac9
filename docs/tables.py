"""Write each table of figures in results/log as CSV into results/tables, and the list of them into results/README.md.

The reports are the source: a table is taken if more than half of its cells beside the first column hold a number.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

RESULTS = Path(__file__).resolve().parents[1] / "results"
README = RESULTS / "README.md"
HEADING = "## Tables\n"


class Table(NamedTuple):
    """A table of a report: the report's name, the heading that it stands under, its rows with the header first."""

    report: str
    heading: str
    rows: list[list[str]]

    def csv(self) -> str:
        """The table as CSV."""
        stream = io.StringIO()
        csv.writer(stream, lineterminator="\n").writerows(self.rows)
        return stream.getvalue()


def tables(report: str, text: str) -> Iterator[Table]:
    """The tables of figures of a report, in order: those of the page, and those that a program printed into a block."""
    heading, rows, is_block = "", list[list[str]](), False
    for line in [*text.splitlines(), ""]:
        row = cells(line) if line.startswith("|") else columns(line) if is_block else []
        if rows and len(rows) == 1 and len(row) == len(rows[0]) + 1 and not line.startswith("|"):
            rows[0].insert(0, "")  # a header without a word above the first column
        if rows and len(row) != len(rows[0]):
            if len(rows) > 1 and holds_figures(rows) and not any(map(is_number, rows[0])):
                yield Table(report, heading, rows)
            rows = []
        if row and not all(re.fullmatch("[: -]*", cell) for cell in row):
            rows.append(row)
        if line.startswith("#") and not is_block:
            heading = line.lstrip("# ").replace("`", "")
        is_block ^= line.startswith("```")


def columns(line: str) -> list[str]:
    """The columns of a line that a program printed, two spaces or more apart; none for text."""
    parts = [with_zeros(part) for part in re.split(r" {2,}", line.strip())]
    return parts if len(parts) > 2 and not line.startswith(("signature", "$")) else []


def is_number(cell: str) -> bool:
    """Whether a cell is a figure, which none of a header is."""
    return re.match(r"[-+]?\d+(\.\d+)?( \[|$)", cell) is not None


def with_zeros(text: str) -> str:
    """Text with a zero before each decimal that lacks it."""
    return re.sub(r"(?<![\w.])\.(?=\d)", "0.", text)


def cells(line: str) -> list[str]:
    """The cells of a row: without marks of Markdown, decimals with their zero."""
    parts = re.split(r"(?<!\\)\|", line.strip().strip("|"))
    plain = [re.sub(r"\*\*|`", "", part).replace("\\|", "|").strip() for part in parts]
    return [with_zeros(part) for part in plain]


def holds_figures(rows: list[list[str]]) -> bool:
    """Whether more than half of the cells beside the first column hold a number."""
    body = [cell for row in rows[1:] for cell in row[1:]]
    return 2 * sum(bool(re.search(r"\d", cell)) for cell in body) > len(body)


def files() -> dict[Path, str]:
    """Every file that is written, with its text."""
    written, listed = {}, ["| table | report | about |", "|---|---|---|"]
    for report in sorted((RESULTS / "log").glob("*.md")):
        for number, table in enumerate(tables(report.stem, report.read_text("utf-8")), 1):
            name = f"{report.stem}-{number}.csv"
            written[RESULTS / "tables" / name] = table.csv()
            listed.append(f"| [{name}](tables/{name}) | [{report.stem}](log/{report.name}) | {table.heading} |")
    before = README.read_text("utf-8").partition(HEADING)[0]
    return written | {README: f"{before}{HEADING}\n" + "\n".join(listed) + "\n"}


def stale() -> list[Path]:
    """Files that are not as they would be written, and tables that no report has any more."""
    due = files()
    old = [path for path, text in due.items() if not path.exists() or path.read_text("utf-8") != text]
    return old + [path for path in sorted((RESULTS / "tables").glob("*.csv")) if path not in due]


def write() -> None:
    """Write all tables, and remove those that no report has any more."""
    due = files()
    for path in (RESULTS / "tables").glob("*.csv"):
        if path not in due:
            path.unlink()
    for path, text in due.items():
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    write()
