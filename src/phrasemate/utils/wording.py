"""Plain words for what pydantic and typer say of a value."""

from __future__ import annotations

import re

_EXPECTED = {
    r"greater than or equal to (\S+)": r"\1 or more",
    r"less than or equal to (\S+)": r"\1 or less",
    r"greater than (\S+)": r"more than \1",
    r"less than (\S+)": r"less than \1",
    r"a valid integer.*": "a whole number",
    r"a valid number.*": "a number",
    r"a valid (.+)": r"a \1",
}


def plain_reason(message: str) -> str:
    """What is wrong with a value, in the words of all other errors.

    >>> plain_reason("Input should be greater than or equal to 1")
    'expected 1 or more'
    """
    start, value, expected = message.partition("Input should be ")
    for pattern, wording in _EXPECTED.items():
        if value and (match := re.fullmatch(pattern, expected)):
            return f"{start}expected {match.expand(wording)}"
    return f"{start}expected {expected}" if value else message.removeprefix("Value error, ")
