"""What a share of many times, bandwidths or lengths of queues does not exceed; docs/results.md.

Percentiles are of nearest rank. One that too few values allow is None.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BusbwFigures:
    """Bus bandwidth over the `iterations` of one size: that which 5, 50, 95 and 99 % of them do not exceed
    (`p99_gbs` None of less than 100 independent ones); `cv`: standard deviation over mean."""

    iterations: int
    p5_gbs: float
    p50_gbs: float
    p95_gbs: float
    p99_gbs: float | None
    cv: float


@dataclass(frozen=True, slots=True)
class TimeFigures:
    """Declared time of the `iterations` of one size, in microseconds: that which 50, 95 and 99 % of them do
    not exceed; `cv`: standard deviation over mean. `independent`: how many of the times differ, since a model
    repeats what it has computed; `p99_us` is None of less than 100."""

    iterations: int
    independent: int
    p50_us: float
    p95_us: float
    p99_us: float | None
    cv: float


@dataclass(frozen=True, slots=True)
class MessageFigures:
    """From the start of their iteration until `messages` had landed, in declared microseconds: within it 50,
    95 and 99 % of them had (`p99_us` None of less than 100 different times, `p999_us` of less than 1,000),
    and all."""

    messages: int
    p50_us: float
    p95_us: float
    p99_us: float | None
    max_us: float
    p999_us: float | None = None


@dataclass(frozen=True, slots=True)
class SlowdownFigures:
    """Completion times of `messages` of one size class, in declared microseconds from when nothing that a
    message waits for was missing until it had landed, and their slowdown: such a time over that of the
    message alone on idle links. Sizes lie above half of `up_to_bytes`; None: all sizes. 99 and 99.9 %: None
    of less than 100 and 1,000 different values."""

    up_to_bytes: int | None
    messages: int
    p50_us: float
    p95_us: float
    p99_us: float | None
    p999_us: float | None
    max_us: float
    p50: float
    p95: float
    p99: float | None
    p999: float | None
    max: float


@dataclass(frozen=True, slots=True)
class ResponseFigures:
    """How long `faults` of a run took to be seen or answered: median and longest, and P99 of 100 or more
    (else None), in seconds on the run's clock and in declared microseconds."""

    faults: int
    median_s: float
    max_s: float
    p99_s: float | None
    median_declared_us: float
    max_declared_us: float
    p99_declared_us: float | None


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """What the fullest queue of the links of one kind did not exceed in 50, 95 and 99 % of the time that was
    sampled, and ever, in bytes; 99 %: None of less than 100 samples."""

    p50_bytes: float
    p95_bytes: float
    p99_bytes: float | None
    max_bytes: float
