"""Studies that last: an Optimizer over a journal.

The journal (`studies.journal`) needs SQLAlchemy, and is imported when a study is opened.
"""

from regretless.studies.actor import acting_as
from regretless.studies.as_json import (
    allocation_json,
    counts,
    csv_cell,
    decision_json,
    drift_json,
    study_json,
    trial_json,
    write_csv,
)
from regretless.studies.asking import Wish
from regretless.studies.study import (
    Snapshot,
    Study,
    known_before,
    observe_nth,
    rename_study,
    until_spent,
)

__all__ = [
    "Snapshot",
    "Study",
    "Wish",
    "acting_as",
    "allocation_json",
    "counts",
    "csv_cell",
    "decision_json",
    "drift_json",
    "known_before",
    "observe_nth",
    "rename_study",
    "study_json",
    "trial_json",
    "until_spent",
    "write_csv",
]
