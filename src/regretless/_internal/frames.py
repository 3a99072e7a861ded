"""Tables of pandas, which is imported when the first one is made."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from regretless.errors import MissingExtraError


class Flat(Protocol):
    """A row of a history."""

    def flat(self) -> dict[str, Any]: ...


def dataframe_of(rows: Iterable[Flat]) -> Any:
    """A history as a pandas DataFrame.

    Numbers of trials are integers, and times are those of pandas.

    Raises:
        MissingExtraError: pandas is not installed.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingExtraError("pandas", "pandas") from error
    frame = pd.DataFrame([row.flat() for row in rows])
    if len(frame):
        frame["number"] = frame["number"].astype("Int64")  # unlike int64, it has missing values
        frame["time"] = pd.to_datetime(frame["time"], utc=True, format="ISO8601")
    return frame
