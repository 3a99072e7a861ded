"""The errors that regretless raises, each with its exit code and its HTTP status.

If the input, the storage or an extra is at fault, the error is a `RegretlessError`.  Its message
names the parameter and the value.  Any other exception that the library raises is a bug.
"""

from __future__ import annotations

from typing import ClassVar


class RegretlessError(Exception):
    """The base class of the errors that regretless raises.

    Attributes:
        exit_code: what the command `regretless` returns to the shell.
        http_status: the status with which the service answers.

    Example:
        >>> import regretless as rl
        >>> try:
        ...     rl.Float(1.0, 0.0)
        ... except rl.RegretlessError as error:
        ...     print(type(error).__name__, error.exit_code, error.http_status)
        SpaceError 2 422
    """

    exit_code: int = 1
    http_status: ClassVar[int] = 500


class SpaceError(RegretlessError, ValueError):
    """A parameter is not valid, or a point is not in its space.

    Parameters and `Space` raise it, and every function that takes a point, such as `observe`.
    """

    exit_code = 2
    http_status = 422


class ConfigError(RegretlessError, ValueError):
    """A setting is not valid, for example a budget, a policy or a length-scale.

    Constructors and every function with settings raise it.  `Study.open` raises it if the study has
    other settings than the given ones.
    """

    exit_code = 2
    http_status = 422


class DataError(RegretlessError, ValueError):
    """A result is not valid, for example NaN or a negative standard error.

    `tell` and `observe` raise it, and `maximize` if f returns such a value.
    """

    exit_code = 3
    http_status = 422


class NoResultsError(DataError):
    """No result was told yet, so there is no answer.

    `best`, `predict`, `landscape`, `Ledger` and pictures raise it.
    """

    exit_code = 4
    http_status = 409


class TrialError(RegretlessError):
    """The trial is not in the right state, or the key was used before for another call.

    `tell` raises it for another value and for a trial that nobody has approved, and `abandon` for a
    trial that was told.  `approve` and `reject` raise it if the other verdict came first.  `ask`
    raises it if every point is near a rejected one.  A `Study` raises it for a key that was used
    with other arguments.
    """

    exit_code = 4
    http_status = 409


class UnknownTrialError(TrialError):
    """The trial was never asked for, or belongs to another optimiser.

    `tell` and `abandon` raise it.
    """

    http_status = 404


class UnknownStudyError(RegretlessError):
    """The storage has no study of this name, and it was not to be created.

    `Study.open`, `Client.study` and the commands raise it.  Every verb of a study raises it after
    somebody else has renamed the study; the message has the new name.
    """

    exit_code = 4
    http_status = 404


class ArchivedError(RegretlessError):
    """The study is archived, so there are no new trials.

    `ask`, `adopt` and `approve` of a `Study` or a `RemoteStudy` raise it.
    """

    exit_code = 4
    http_status = 409


class BudgetError(RegretlessError):
    """The budget is spent.

    `ask` of a `Study` or a `RemoteStudy` raises it if `within_budget` is true.
    """

    exit_code = 5
    http_status = 409


class StorageError(RegretlessError):
    """The journal cannot be reached, read or written.

    Every method of a `Study` may raise it.  `Optimizer.from_json` raises it for a text that is not
    the JSON of an optimiser.  A `RemoteStudy` raises it if the service cannot be reached.
    """

    exit_code = 6
    http_status = 503


class CorruptJournalError(StorageError):
    """The journal has content that this release cannot read; the message says where.

    Every method of a `Study` may raise it.
    """

    http_status = 500


class StaleError(StorageError):
    """Another process appended an event first.  Read the new events and try again.

    `Journal.append` raises it if `expected_seq` is not the next number.
    """

    http_status = 409


class ServiceError(RegretlessError):
    """The service refused a request for a reason that no other error describes.

    `Client` and `RemoteStudy` raise it, for example if the token is wrong.

    Args:
        status: the HTTP status of the answer.
        message: the reason.

    Example:
        >>> str(ServiceError(403, "the token is read-only"))
        '403: the token is read-only'
    """

    def __init__(self, status: int, message: str) -> None:
        # Both are in args, so that the error can be pickled in a worker process.
        super().__init__(status, message)
        self.status = status
        self.message = message

    def __str__(self) -> str:
        return f"{self.status}: {self.message}"


class MissingExtraError(RegretlessError, ImportError):
    """A package of an extra is not installed; the message says how to install it.

    Modules that need an extra raise it, as `raise MissingExtraError("plot", "matplotlib") from
    error`.

    Args:
        extra: the extra of regretless.
        module: the package that is missing.

    Example:
        >>> str(MissingExtraError("plot", "matplotlib"))
        "matplotlib is not installed; run: pip install 'regretless[plot]'"
    """

    exit_code = 7
    http_status = 501

    def __init__(self, extra: str, module: str) -> None:
        # Both are in args, so that the error can be pickled in a worker process.
        super().__init__(extra, module)
        self.extra = extra
        self.module = module

    def __str__(self) -> str:
        return f"{self.module} is not installed; run: pip install 'regretless[{self.extra}]'"
