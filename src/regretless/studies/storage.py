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
        raise ConfigError(f"the storage is neither a path nor a database URL, but {type(url)}")
    text = str(url)
    if text == ":memory:":  # SQLite's own word for it, which would be a file of that name
        raise ConfigError("the storage is a file or a database: a journal in memory would not last")
    if isinstance(url, os.PathLike) or not re.match(r"[A-Za-z][\w+.-]+:", text):
        return SQLite(Path(text).expanduser())
    try:
        parsed = sa.make_url(text)
    except (ArgumentError, ValueError):
        raise ConfigError("the storage is neither a path nor a database URL") from None
    if parsed.drivername == "sqlite":
        if parsed.database in (None, "", ":memory:") or parsed.query:
            raise ConfigError("a SQLite URL is sqlite:///path: a journal in memory would not last")
        return SQLite(Path(str(parsed.database)))
    if parsed.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
        if "@" in f"{parsed.host}{parsed.database}":
            raise ConfigError("the database URL has an '@' too many: in a password write %40")
        return Postgres(parsed)
    raise ConfigError(
        f"a journal is kept in SQLite or PostgreSQL (through psycopg), not {parsed.drivername!r}"
    )
