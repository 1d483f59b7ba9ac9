"""Users of the server: a file of hashed tokens, with the rights for each index and a rate limit."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from phrasemate.errors import ReadError
from phrasemate.server.errors import Refusal

RIGHTS = ("read", "write", "admin")  # each right includes the rights before it
EVERY = "*"  # in the rights of a user: every index


@dataclass(frozen=True, slots=True)
class User:
    """The owner of a token. ``rights``: index name or `EVERY` -> right; ``rate``: requests a minute, 0 for no limit."""

    name: str
    rights: Mapping[str, str] = field(default_factory=lambda: {EVERY: "admin"})
    rate: int = 0

    def may(self, right: str, index: str = EVERY) -> bool:
        """Tell whether the user has this right, or a higher one, for an index (default: for the whole server)."""
        role = self.rights.get(index, self.rights.get(EVERY, ""))
        return role in RIGHTS[RIGHTS.index(right) :]


class Tokens:
    """The users of a TOML file, by the SHA-256 of their tokens::

        [[token]]
        name = "anna"
        sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
        rights = { "*" = "write" }
        rate = 120

    A token is long and random (`secrets.token_urlsafe`), so a plain hash cannot be reversed. Raises ReadError for any
    other file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._users = _read(path)

    def reload(self) -> None:
        """Read the file again. Raises ReadError, and then keeps the old users."""
        self._users = _read(self._path)

    def index_rights(self) -> list[tuple[str, str]]:
        """Return the name of a user and the name of an index for each right that is for one index only."""
        return [(user.name, index) for user in self._users.values() for index in user.rights if index != EVERY]

    def user(self, token: bytes) -> User | None:
        """Return the owner of a token, or None. Only hashes are compared, so the time reveals nothing about tokens."""
        return self._users.get(sha256(token).hexdigest())


def _read(path: Path) -> dict[str, User]:
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ReadError(str(path), 0, f"cannot be read ({error})", "expected a TOML file of tokens") from error
    entries = content.get("token")
    if content.keys() != {"token"} or not isinstance(entries, list) or not entries:
        raise ReadError(str(path), 0, "has no tokens", "expected tables [[token]] and nothing else")
    users: dict[str, User] = {}
    for number, entry in enumerate(entries, 1):
        digest, user = _user(path, number, entry)
        if digest in users or any(user.name == known_user.name for known_user in users.values()):
            raise ReadError(str(path), 0, f"token {number}: name or sha256 occurs twice", "expected one token per user")
        users[digest] = user
    return users


def _user(path: Path, number: int, entry: Any) -> tuple[str, User]:
    def refuse(what: str, expected: str) -> ReadError:
        return ReadError(str(path), 0, f"token {number}: {what}", expected)

    if not isinstance(entry, dict) or not {"name", "sha256", "rights"} <= entry.keys() <= _FIELDS:
        raise refuse("has other entries", f"expected name, sha256, rights and perhaps rate, not {sorted(entry)}")
    name, digest, rights, rate = entry["name"], entry["sha256"], entry["rights"], entry.get("rate", 0)
    if not isinstance(name, str) or not name.isprintable() or not 1 <= len(name) <= 100:
        raise refuse(f"name {name!r}", "expected 1 to 100 printable characters")
    if not isinstance(digest, str) or len(digest) != 64 or set(digest) - set("0123456789abcdef"):
        raise refuse("sha256", "expected 64 digits of lower-case hexadecimal: printf %s TOKEN | sha256sum")
    if not isinstance(rights, dict) or not rights or not set(rights.values()) <= set(RIGHTS):
        raise refuse(f"rights {rights!r}", f"expected {', '.join(RIGHTS)} for names of indexes, or for {EVERY!r}")
    if type(rate) is not int or rate < 0:
        raise refuse(f"rate {rate!r}", "expected a number of requests a minute, or 0 for any")
    return digest, User(name, rights, rate)


_FIELDS = {"name", "sha256", "rights", "rate"}


_user_of_request: ContextVar[User | None] = ContextVar("user", default=None)


@contextmanager
def acting(user: User | None) -> Iterator[None]:
    """Set the user for whom this task or thread works within the block; None may do everything."""
    before = _user_of_request.set(user)
    try:
        yield
    finally:
        _user_of_request.reset(before)


def allowed(right: str, index: str = EVERY) -> bool:
    """Tell whether the user of the request has a right for an index (default: for the whole server)."""
    user = _user_of_request.get()
    return user is None or user.may(right, index)


def demand(right: str, index: str = EVERY) -> None:
    """Raise Refusal unless the right is `allowed`."""
    if not allowed(right, index):
        where = f"{EVERY!r}, all of this server" if index == EVERY else f"the index {index!r}"
        raise Refusal("forbidden", f"this needs the right {right!r} for {where}; your token does not have it")
