"""What jobs on one fabric do to each other: interference, fairness, whose bytes a link carries."""

from collections.abc import Sequence
from statistics import median

import numpy as np

from railweave.framework.model.arrays import Float
from railweave.framework.model.findings import IterationRecord

COMPANY = 0.5
"""Part of an iteration during which another job's must be under way."""


def median_s(records: Sequence[IterationRecord]) -> float | None:
    return median(record.result.seconds for record in records) if records else None


def in_company(
    records: Sequence[IterationRecord], others: Sequence[IterationRecord], first_fault_s: float
) -> list[IterationRecord]:
    """The iterations of a job that ran in the company of others, before the first fault if there are any."""
    begin, end = (np.array([getattr(record, name) for record in others]) for name in ("begin_s", "end_s"))
    chosen = [
        record
        for record in records
        if _shared_s(record, begin, end) >= COMPANY * (record.end_s - record.begin_s)
    ]
    return [record for record in chosen if record.end_s <= first_fault_s] or chosen


def _shared_s(record: IterationRecord, begin: Float, end: Float) -> float:
    """How long during an iteration any of these spans lasted."""
    shared, until = 0.0, record.begin_s
    for i in np.argsort(begin).tolist():
        low, high = max(until, float(begin[i])), min(record.end_s, float(end[i]))
        if high > low:
            shared, until = shared + high - low, high
    return shared


def jain(shares: Sequence[float]) -> float:
    """(sum x)^2 / (n sum x^2): 1 where all have equal shares, 1 / n where one has everything.

    Source: Jain, Chiu and Hawe, "A quantitative measure of fairness and discrimination for resource
    allocation in shared computer systems", DEC-TR-301, 1984.
    """
    return sum(shares) ** 2 / (len(shares) * sum(x * x for x in shares))
