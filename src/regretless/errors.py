"""One base error and a handful of children; each knows its exit code and its HTTP status.

Whatever goes wrong through the caller's input or surroundings is a `RegretlessError`, with a
message that names the parameter and the value. Anything else that escapes is a bug.
"""

from __future__ import annotations

from typing import ClassVar


class RegretlessError(Exception):
    """The base of every error that regretless raises on purpose."""

    exit_code: int = 1
    http_status: ClassVar[int] = 500


class SpaceError(RegretlessError, ValueError):
    """A parameter that cannot exist, or a point outside its space."""

    exit_code = 2
    http_status = 422


class ConfigError(RegretlessError, ValueError):
    """A setting (a budget, a policy, a kernel's length-scale) that cannot be right."""

    exit_code = 2
    http_status = 422


class DataError(RegretlessError, ValueError):
    """An observed value that cannot be right: NaN, infinite, a negative variance."""

    exit_code = 3
    http_status = 422


class NoResultsError(DataError):
    """There is nothing to answer from: no result was told yet."""

    exit_code = 4
    http_status = 409


class TrialError(RegretlessError):
    """A trial that cannot take this verb: it was already told, or abandoned."""

    exit_code = 4
    http_status = 409


class UnknownTrialError(TrialError):
    """A trial that was never asked for, or that belongs to another optimiser."""

    http_status = 404


class UnknownStudyError(RegretlessError):
    """There is no study of this name in the storage."""

    exit_code = 4
    http_status = 404


class BudgetError(RegretlessError):
    """The budget is spent: there is nothing left to ask."""

    exit_code = 5
    http_status = 409


class StorageError(RegretlessError):
    """The journal cannot be reached, read or written."""

    exit_code = 6
    http_status = 503


class CorruptJournalError(StorageError):
    """The storage holds something that this release cannot read; the message says where."""

    http_status = 500


class StaleError(StorageError):
    """Somebody else wrote in the meantime: read the new events and decide again."""

    http_status = 409


class ServiceError(RegretlessError):
    """The service refused for a reason that is not the library's: a wrong token, for example."""

    def __init__(self, status: int, message: str) -> None:
        # Both go to args, so that the error survives pickling on its way out of a worker.
        super().__init__(status, message)
        self.status = status
        self.message = message

    def __str__(self) -> str:
        return f"{self.status}: {self.message}"


class MissingExtraError(RegretlessError, ImportError):
    """An optional dependency is not installed; the message is the line that installs it.

    Raise it as `raise MissingExtraError("plot", "matplotlib") from error`.
    """

    exit_code = 7
    http_status = 501

    def __init__(self, extra: str, module: str) -> None:
        # Both go to args, so that the error survives pickling on its way out of a worker.
        super().__init__(extra, module)
        self.extra = extra
        self.module = module

    def __str__(self) -> str:
        return f"{self.module} is not installed; run: pip install 'regretless[{self.extra}]'"
