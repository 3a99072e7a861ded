"""An adversary against studies and the service: kills, outages, hostile input, load.

    python -m benchmarks.campaign            # about an hour; it goes on where it stopped
    python -m benchmarks.campaign --quick    # about a minute, in a folder of its own

A campaign has parts, and a part has batches.  A batch has a seed and leaves one record.  What has
a record is not done again, so a campaign may be stopped at any time.  The page
`docs/results/reliability.md` is written from the records.

Whoever acts keeps a ledger of what was acknowledged, apart from the journal.  At the end of a batch
the two are compared: what was acknowledged must be there, and nothing may be there twice.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))  # the service, PostgreSQL and the grammar of the tests
