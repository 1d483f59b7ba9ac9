"""Small files of a table are put together without its rows changing places.

A row's place in the table says which sentence or phrase it is. Lance orders a table by the numbers of its files, and
its own compaction gives what it rewrites new numbers, so rows go behind files that are left as they are (its issue
3465). So here everything behind the first file that is rewritten is rewritten too, in order; mostly that is the few
small files at the end.
"""

from __future__ import annotations

from collections.abc import Sequence

from phrasemate.index.lance.tables import Tables, translate_errors

ROWS = 1 << 20  # of a file that is made here
_SMALL = ROWS // 2  # rows from which a file is left as it is
_LOOSE = 100  # small files before large ones that are put up with: all behind them would have to be rewritten


def first_rewritten(sizes: Sequence[int], small: int, loose: int) -> int | None:
    """Which file, of so many rows each, is the first to be rewritten with all behind it; None: none is.

    The one behind the last file of ``small`` rows or more, if two or more follow; the first smaller one, if there are
    more than ``loose`` of them.
    """
    few = [at for at, size in enumerate(sizes) if size < small]
    if len(few) > loose:
        return few[0]
    last = max((at for at, size in enumerate(sizes) if size >= small), default=-1)
    return last + 1 if len(sizes) - last > 2 else None


def compact(tables: Tables, name: str) -> int:
    """Put small files together and leave out their deleted rows; the version of the table now.

    Lance's indexes know nothing of the rewritten rows until they are brought up to date. Raises IndexError_.
    """
    table = tables.open(name)
    with translate_errors(tables.place):
        files = sorted(table.get_fragments(), key=lambda file: file.fragment_id)
        first = first_rewritten([file.count_rows() for file in files], _SMALL, _LOOSE)
        if first is None:
            return int(table.version)
        chosen = files[first:]
        rows = table.scanner(fragments=chosen, scan_in_order=True, batch_size=8192).to_reader()
    return tables.replace(name, [file.fragment_id for file in chosen], tables.write(name, rows, ROWS), table.version)
