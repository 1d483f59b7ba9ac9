"""COMET in its own environment, by its own command: it needs torch and weights that phrasemate does not carry."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from tempfile import TemporaryDirectory

from phrasemate.errors import InputError

_SEGMENT = re.compile(r"\bsegment\s+\d", re.IGNORECASE)
SHOWN = 300  # characters of the command's complaint that are repeated


def comet_scores(
    command: str, sources: Sequence[str], outputs: Sequence[str], references: Sequence[str]
) -> list[float]:
    """The scores of each sentence by ``command -s SRC -t OUTPUT -r REFERENCE`` (``comet-score``, with its options).

    Raises InputError for a command that fails or prints something else.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InputError(f"--comet {command}: {error}; expected a command as a shell takes it") from None
    if not words:
        raise InputError("--comet: no command; expected COMET's comet-score")
    with TemporaryDirectory() as folder:
        for flag, lines in (("-s", sources), ("-t", outputs), ("-r", references)):
            path = Path(folder) / f"{flag[1:]}.txt"
            path.write_text(
                "".join(f"{' '.join(line.split())}\n" for line in lines), encoding="utf-8", errors="replace"
            )
            words += [flag, str(path)]
        try:
            done = subprocess.run(words, capture_output=True, encoding="utf-8", errors="replace", check=True)
        except FileNotFoundError:
            raise InputError(
                f"{words[0]}: no such command; expected COMET's comet-score, e.g. --comet 'env/bin/...'"
            ) from None
        except OSError as error:
            raise InputError(f"{words[0]}: cannot be run ({error.strerror}); expected COMET's comet-score") from None
        except subprocess.CalledProcessError as error:
            said = " ".join((error.stderr or error.stdout or "").split())[-SHOWN:]
            raise InputError(f"{command}: left with code {error.returncode} ({said})") from None
    return numbers(done.stdout.splitlines(), len(outputs), command)


def numbers(lines: Sequence[str], wanted: int, name: str) -> list[float]:
    """One score a line, in order; of a line such as ``out.txt  Segment 3  score: 0.81`` the last word.

    The system's own score (``score:`` without ``Segment``) is left out. Raises InputError.
    """
    kept = [line for line in lines if line.strip()]
    segments = [line for line in kept if _SEGMENT.search(line)]
    try:
        values = [float(line.split()[-1]) for line in segments or kept]
    except ValueError:
        raise InputError(f"{name}: a line does not end in a number; expected one score a line") from None
    wrong = next((value for value in values if not isfinite(value)), None)
    if wrong is not None:
        raise InputError(f"{name}: not a number but {wrong}; expected one score a line")
    if len(values) != wanted:
        raise InputError(f"{name}: {len(values)} scores of {wanted} translations")
    return values
