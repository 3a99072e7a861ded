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

    Example:
        >>> import regretless as rl
        >>> space = rl.Space({"x": rl.Float(0.0, 1.0)})
        >>> try:
        ...     space.validate({"x": 2.0})
        ... except rl.SpaceError as error:
        ...     print(error)
        x: must be a number in [0.0, 1.0], got 2.0
    """

    exit_code = 2
    http_status = 422


class ConfigError(RegretlessError, ValueError):
    """A setting is not valid, for example a budget, a policy or a length-scale.

    Constructors and every function with settings raise it.  `Study.open` raises it if the study has
    other settings than the given ones.

    Example:
        >>> import regretless as rl
        >>> space = rl.Space({"x": rl.Float(0.0, 1.0)})
        >>> try:
        ...     rl.Optimizer(space, budget=0)
        ... except rl.ConfigError as error:
        ...     print(error)
        budget: need at least 1, got 0
    """

    exit_code = 2
    http_status = 422


class DataError(RegretlessError, ValueError):
    """A result is not valid, for example NaN or a negative standard error.

    `tell` and `observe` raise it, and `maximize` if f returns such a value.

    Example:
        >>> import regretless as rl
        >>> space = rl.Space({"x": rl.Float(0.0, 1.0)})
        >>> optimizer = rl.Optimizer(space, budget=10)
        >>> try:
        ...     optimizer.observe({"x": 0.5}, float("nan"))
        ... except rl.DataError as error:
        ...     print(error)
        value: need a number that is finite, got nan
    """

    exit_code = 3
    http_status = 422


class NoResultsError(DataError):
    """No result was told yet, so there is no answer.

    `best`, `predict`, `landscape`, `Ledger` and pictures raise it.

    Example:
        >>> import regretless as rl
        >>> space = rl.Space({"x": rl.Float(0.0, 1.0)})
        >>> try:
        ...     rl.Optimizer(space, budget=10).best()
        ... except rl.NoResultsError as error:
        ...     print(error)
        no result was told yet; call tell() or observe() first
    """

    exit_code = 4
    http_status = 409


class TrialError(RegretlessError):
    """The trial is not in the right state, or the key was used before for another call.

    `tell` raises it for another value and for a trial that nobody has approved, and `abandon` for a
    trial that was told.  `approve` and `reject` raise it if the other verdict came first.  `ask`
    raises it if every point is near a rejected one.  A `Study` raises it for a key that was used
    with other arguments.

    Example:
        >>> import regretless as rl
        >>> space = rl.Space({"x": rl.Float(0.0, 1.0)})
        >>> optimizer = rl.Optimizer(space, budget=10)
        >>> trial = optimizer.ask()
        >>> optimizer.tell(trial, 1.0)
        >>> try:
        ...     optimizer.tell(trial, 2.0)
        ... except rl.TrialError as error:
        ...     print(error)
        trial 0 was told 1.0, now 2.0: a result can't be changed; if it is wrong, retract it first
    """

    exit_code = 4
    http_status = 409


class UnknownTrialError(TrialError):
    """The trial was never asked for, or belongs to another optimiser.

    `tell` and `abandon` raise it.

    Example:
        >>> import regretless as rl
        >>> space = rl.Space({"x": rl.Float(0.0, 1.0)})
        >>> try:
        ...     rl.Optimizer(space, budget=10).tell(3, 1.0)
        ... except rl.UnknownTrialError as error:
        ...     print(error)
        trial 3 was never asked (0 were)
    """

    http_status = 404


class UnknownStudyError(RegretlessError):
    """The storage has no study of this name, and it was not to be created.

    `Study.open`, `Client.study` and the commands raise it.  Every verb of a study raises it after
    somebody else has renamed the study; the message has the new name.

    Example:
        >>> import regretless as rl
        >>> space = rl.Space({"x": rl.Float(0.0, 1.0)})
        >>> rl.Study.open("prices.sqlite", "prices", space=space, budget=10).close()
        >>> try:
        ...     rl.Study.open("prices.sqlite", "price")
        ... except rl.UnknownStudyError as error:
        ...     print(str(error).partition(";")[0])
        prices.sqlite: there is no study 'price' (studies: prices)
    """

    exit_code = 4
    http_status = 404


class ArchivedError(RegretlessError):
    """The study is archived, so there are no new trials.

    `ask`, `adopt` and `approve` of a `Study` or a `RemoteStudy` raise it.

    Example:
        >>> import regretless as rl
        >>> space = rl.Space({"x": rl.Float(0.0, 1.0)})
        >>> study = rl.Study.open("errors.sqlite", "old", space=space, budget=1)
        >>> study.archive()
        >>> try:
        ...     study.ask()
        ... except rl.ArchivedError as error:
        ...     print(error)
        study 'old' is archived: unarchive it first
        >>> study.close()
    """

    exit_code = 4
    http_status = 409


class BudgetError(RegretlessError):
    """The budget is spent.

    `ask` of a `Study` or a `RemoteStudy` raises it if `within_budget` is true.

    Example:
        >>> import regretless as rl
        >>> space = rl.Space({"x": rl.Float(0.0, 1.0)})
        >>> study = rl.Study.open("errors.sqlite", "short", space=space, budget=1)
        >>> trial = study.ask(within_budget=True)
        >>> try:
        ...     study.ask(within_budget=True)
        ... except rl.BudgetError as error:
        ...     print(error)
        the budget of 1 is spent; extend it to go on
        >>> study.close()
    """

    exit_code = 5
    http_status = 409


class StorageError(RegretlessError):
    """The journal cannot be reached, read or written.

    Every method of a `Study` may raise it.  `Optimizer.from_json` raises it for a text that is not
    the JSON of an optimiser.  A `RemoteStudy` raises it if the service cannot be reached.

    Example:
        >>> import regretless as rl
        >>> try:
        ...     rl.Optimizer.from_json("{}")
        ... except rl.StorageError as error:
        ...     print(error)
        not the JSON of an Optimizer: 'events'
    """

    exit_code = 6
    http_status = 503


class CorruptJournalError(StorageError):
    """The journal has content that this release cannot read; the message says where.

    Every method of a `Study` may raise it.

    Example:
        >>> import sqlite3
        >>> import regretless as rl
        >>> space = rl.Space({"x": rl.Float(0.0, 1.0)})
        >>> study = rl.Study.open("damaged.sqlite", "damaged", space=space, budget=1)
        >>> study.close()
        >>> with sqlite3.connect("damaged.sqlite") as database:
        ...     _ = database.execute("UPDATE regretless_events SET body = 'x'")
        >>> database.close()
        >>> try:
        ...     rl.Study.open("damaged.sqlite", "damaged")
        ... except rl.CorruptJournalError as error:
        ...     print(str(error).rpartition(": ")[0])
        damaged.sqlite: study 'damaged', event 1: 'created' is not valid: Expecting value
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
