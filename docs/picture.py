"""Draw docs/search.svg, the picture of the README, from real answers.

python docs/picture.py
"""

from __future__ import annotations

import html
import re
import tempfile
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI

from phrasemate import Searcher, demo
from phrasemate.cli.render import print_results

QUERIES = (
    "La [[batterie]] de mon téléphone est presque vide.",
    "Los diputados guardaron un [[minuto de silencio]] por las víctimas del incendio.",
    "如果[[利率]]继续上升，很多家庭将无法偿还房贷。",
)
CELL = 12.2  # the width that rich gives a character
PLAIN = """<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" xml:space="preserve">
<style>.{unique_id}-matrix {{ font: {char_height}px/{line_height}px monospace; white-space: pre; }}
{styles}</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>{lines}</defs>
<rect fill="#1e1e1e" width="{width}" height="{height}" rx="8"/>
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g></svg>
"""


def main() -> None:
    """Index the sample, ask, and draw what the terminal shows."""
    console = Console(record=True, width=112, force_terminal=True, file=Path("/dev/null").open("w"))  # noqa: SIM115
    with tempfile.TemporaryDirectory() as folder, demo.build(Path(folder) / "index") as index:
        print_results(console, Searcher(index).search_all(QUERIES, k=2, contexts=2))
    drawn = console.export_svg(theme=DIMMED_MONOKAI, code_format=PLAIN, unique_id="phrasemate")
    out = Path(__file__).parent / "search.svg"
    out.write_text(re.sub(r'textLength="[^"]*"([^>]*>)([^<]*)', _widened, drawn), encoding="utf-8")


def _widened(match: re.Match[str]) -> str:
    """Two cells for a wide character, where rich counts one."""
    return f'textLength="{cell_len(html.unescape(match[2])) * CELL:.1f}"{match[1]}{match[2]}'


if __name__ == "__main__":
    main()
