"""What the commands about studies use."""

from railweave.framework.studies.answers import Answer, words
from railweave.framework.studies.carrying_out import ROWS, SWEEP, Tally, status
from railweave.framework.studies.pictures import compared_picture
from railweave.framework.studies.spread import Spread
from railweave.framework.studies.sweep_file import Sweep
from railweave.framework.studies.sweeps import Ahead, SweepResult, ahead, as_parquet, found

__all__ = [
    "ROWS",
    "SWEEP",
    "Ahead",
    "Answer",
    "Spread",
    "Sweep",
    "SweepResult",
    "Tally",
    "ahead",
    "as_parquet",
    "compared_picture",
    "found",
    "status",
    "words",
]  # fmt: skip
