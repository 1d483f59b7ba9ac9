"""Where an index of Lance tables stands: a folder or object storage, and how to get in there."""

from __future__ import annotations

import os
import re
from pathlib import Path

from phrasemate.errors import InputError

SCHEMES = {"s3": ("AWS_",), "gs": ("GOOGLE_",), "az": ("AZURE_",), "abfss": ("AZURE_",)}  # and whose variables count
_URI = re.compile(r"^([a-z][a-z0-9+]+):/+(?=[^/])")
_SETTINGS = re.compile(r"^(AWS_(ACCESS_KEY_ID|SECRET_ACCESS_KEY|SESSION_TOKEN|REGION|DEFAULT_REGION|ENDPOINT|"
                       r"ENDPOINT_URL|ALLOW_HTTP|VIRTUAL_HOSTED_STYLE_REQUEST)|GOOGLE_\w+|AZURE_\w+)$")  # fmt: skip


def place_of(path: str | os.PathLike[str]) -> str:
    """A URI as it was meant (a ``Path`` has made ``s3:/bucket`` of ``s3://bucket``), or the absolute path of a folder.

    Raises InputError for a kind of place that is unknown.
    """
    given = os.fspath(path)
    found = _URI.match(given)
    if found is None:
        return str(Path(given).absolute())
    scheme, rest = found[1], given[found.end() :].rstrip("/")
    if scheme == "file":
        return f"/{rest}"
    if scheme not in SCHEMES:
        known = ", ".join(f"{name}://" for name in SCHEMES)
        raise InputError(f"{given}: no place for an index; expected a folder, or one of {known}")
    return f"{scheme}://{rest}"


def is_remote(place: str) -> bool:
    """Whether a place is object storage, not a folder."""
    return "://" in place


def is_tables(path: str | os.PathLike[str]) -> bool:
    """Whether an index of Lance tables stands there, or can only be one; asks no network."""
    found = _URI.match(os.fspath(path))
    if found is not None:
        return found[1] in SCHEMES or found[1] == "file"
    return (Path(path) / "state.lance").is_dir()


def options_for(place: str) -> dict[str, str]:
    """Lance's storage options from the usual environment variables (AWS_…, GOOGLE_…, AZURE_…); none for a folder.

    The driver hands them to its workers, whose own environment may lack them.
    """
    if not is_remote(place):
        return {}
    wanted = SCHEMES[place.split(":")[0]]
    options = {
        name.lower(): value
        for name, value in os.environ.items()
        if value and name.startswith(wanted) and _SETTINGS.match(name)
    }
    if options.get("aws_endpoint_url", options.get("aws_endpoint", "")).startswith("http://"):
        options.setdefault("aws_allow_http", "true")
    return options
