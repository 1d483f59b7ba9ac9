"""Which elements of markup part words or lines, for web pages and for the inline codes of translators' formats."""

from __future__ import annotations

# "display: block", "table", "list-item" and their kin (WHATWG HTML, section 15.3)
CELLS = frozenset({"td", "th"})
BLOCKS = CELLS | frozenset(
    {"address", "article", "aside", "blockquote", "body", "caption", "center", "col", "colgroup", "dd"}
    | {"details", "dialog", "dir", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form"}
    | {"frameset", "h1", "h2", "h3", "h4", "h5", "h6", "head", "header", "hgroup", "hr", "html", "legend", "li"}
    | {"listing", "main", "menu", "nav", "noembed", "noframes", "ol", "optgroup", "option", "p", "plaintext"}
    | {"pre", "search", "section", "summary", "table", "tbody", "tfoot", "thead", "title", "tr", "ul", "xmp"}
)
BREAKS = frozenset({"br", "cr", "hardreturn", "lb", "lf", "linebreak", "newline", "softreturn"})
SPACES = frozenset({"nbsp", "ptab", "space", "tab"})
