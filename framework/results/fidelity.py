"""Whether the figures of a run are those of the fabric: pass, degraded or invalid, with the reasons."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median_high
from typing import Literal

Verdict = Literal["pass", "degraded", "invalid"]

BUSY_SWITCHES = 0.9
BUSY_MACHINE = 0.97
LATE_SENDER_S = 0.1
RETRANSMITTED = 0.01
SLOWER_THAN_MODEL = 1.15
FULL_BUFFER = 0.8
EARLY = 1.0


@dataclass(frozen=True, slots=True)
class Fidelity:
    """The verdict of a run. `reasons` is empty for `pass`."""

    verdict: Verdict
    reasons: tuple[str, ...] = ()


def judge(
    *,
    wrong: int,
    ratios_to_bound: Sequence[float],
    healthy_ratios_to_model: Sequence[float],
    switch_share: float,
    machine_share: float,
    send_lag_s: float,
    retransmitted: float,
    drops: int,
    send_buffer_bytes: int,
    send_buffer_used_bytes: int,
    blind_s: float | None = None,
) -> Fidelity:
    """Invalid: results are wrong, or faster than physics allows. Degraded: the emulator, not the fabric,
    shaped some figure.

    Shares in 0..1; `ratios_to_bound` and `healthy_ratios_to_model` per iteration (bound / time,
    time / model); healthy iterations are those before the first fault.
    """
    invalid, degraded = [], []
    if wrong:
        invalid.append(f"{wrong} elements are wrong")
    if (best := max(ratios_to_bound, default=0.0)) > EARLY:
        invalid.append(
            f"an iteration took {1 / best:.3f} of the physical limit's time: "
            "links ran faster than their rates"
        )
    if switch_share > BUSY_SWITCHES:
        degraded.append(
            f"the switches used {switch_share:.0%} of their cores: lower rate_scale or use fewer GPUs"
        )
    if machine_share > BUSY_MACHINE:
        degraded.append(f"the run used {machine_share:.0%} of the machine: lower rate_scale")
    if send_lag_s > LATE_SENDER_S:
        degraded.append(
            f"a sender was {send_lag_s * 1e3:.0f} ms late: the machine was busy; lower rate_scale"
        )
    if blind_s is not None:
        degraded.append(f"health was not measured from {blind_s:.2f} s on: the run went on without feedback")
    if drops:
        degraded.append(f"{drops} packets were dropped because a link's queue was full")
    if retransmitted > RETRANSMITTED:
        degraded.append(f"{retransmitted:.1%} of the packets were sent again")
    if (median := median_high(healthy_ratios_to_model or [0.0])) > SLOWER_THAN_MODEL:
        degraded.append(f"healthy iterations took {median:.2f} times the algorithm's closed form")
    if 0 < FULL_BUFFER * send_buffer_bytes < send_buffer_used_bytes:
        used, size = send_buffer_used_bytes >> 10, send_buffer_bytes >> 10
        degraded.append(
            f"queued packets filled {used} of {size} KiB of a switch's send buffer, and what exceeds it is "
            "dropped: raise net.core.wmem_max or run as root"
        )
    verdict: Verdict = "invalid" if invalid else "degraded" if degraded else "pass"
    return Fidelity(verdict, (*invalid, *degraded))
