"""Choose the database for a path or URL."""

from __future__ import annotations

import os
import re
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError

from regretless.errors import ConfigError
from regretless.studies.database import Backend
from regretless.studies.postgres import Postgres
from regretless.studies.sqlite import SQLite


def backend_of(url: str | Path) -> Backend:
    """The database of a path or URL.  No message contains the URL, because it may have a password.

    Raises:
        ConfigError: it is neither a path nor the URL of a database that can store a journal.
    """
    if not isinstance(url, str | os.PathLike):
        raise ConfigError(f"storage: need a path or a database URL, got {type(url)}")
    text = str(url)
    if text == ":memory:":  # SQLite's own word for it, which would be a file of that name
        raise ConfigError("storage: need a file or a database, because a journal in memory is lost")
    if isinstance(url, os.PathLike) or not re.match(r"[A-Za-z][\w+.-]+:", text):
        return SQLite(Path(text).expanduser())
    try:
        parsed = sa.make_url(text)
    except (ArgumentError, ValueError):
        raise ConfigError("storage: need a path or a database URL") from None
    if parsed.drivername == "sqlite":
        if parsed.database in (None, "", ":memory:") or parsed.query:
            raise ConfigError("storage: need sqlite:///path, because a journal in memory is lost")
        return SQLite(Path(str(parsed.database)))
    if parsed.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
        if "@" in f"{parsed.host}{parsed.database}":
            raise ConfigError(
                "storage: the database URL has an '@' too many; in a password write %40"
            )
        return Postgres(parsed)
    raise ConfigError(
        f"storage: need SQLite or PostgreSQL (with psycopg), got {parsed.drivername!r}"
    )
