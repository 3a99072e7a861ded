"""Each error knows its exit code and its HTTP status, and survives a process boundary."""

import pickle

import pytest

from regretless import errors

CODES = {
    errors.RegretlessError: (1, 500),
    errors.SpaceError: (2, 422),
    errors.ConfigError: (2, 422),
    errors.DataError: (3, 422),
    errors.NoResultsError: (4, 409),
    errors.TrialError: (4, 409),
    errors.UnknownTrialError: (4, 404),
    errors.UnknownStudyError: (4, 404),
    errors.ArchivedError: (4, 409),
    errors.BudgetError: (5, 409),
    errors.StorageError: (6, 503),
    errors.CorruptJournalError: (6, 500),
    errors.StaleError: (6, 409),
    errors.ServiceError: (1, 500),
    errors.MissingExtraError: (7, 501),
}


def test_every_error_is_listed_here() -> None:
    defined = {
        e for e in vars(errors).values() if isinstance(e, type) and e.__module__ == errors.__name__
    }
    assert defined == set(CODES)


@pytest.mark.parametrize(
    ("error", "codes"), CODES.items(), ids=lambda c: getattr(c, "__name__", "")
)
def test_codes(error: type[errors.RegretlessError], codes: tuple[int, int]) -> None:
    assert (error.exit_code, error.http_status) == codes
    assert issubclass(error, errors.RegretlessError)


@pytest.mark.parametrize("error", [errors.SpaceError, errors.ConfigError, errors.DataError])
def test_bad_values_are_value_errors(error: type[errors.RegretlessError]) -> None:
    with pytest.raises(ValueError, match="dose"):
        raise error("dose: got nan")


def test_missing_extra_prints_the_pip_line() -> None:
    error = errors.MissingExtraError("cli", "typer")
    assert str(error) == "typer is not installed; run: pip install 'regretless[cli]'"
    assert isinstance(error, ImportError)
    assert (error.extra, error.module) == ("cli", "typer")


@pytest.mark.parametrize(
    "error",
    [
        errors.SpaceError("dose: no"),
        errors.MissingExtraError("plot", "matplotlib"),
        errors.ServiceError(401, "a token is needed"),
    ],
)
def test_errors_cross_a_process_boundary(error: errors.RegretlessError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
