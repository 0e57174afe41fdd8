"""Whether the figures of a run are those of the fabric: pass, degraded or invalid, with the reasons."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from railweave.framework.parameters.units import size as size_text
from railweave.framework.results.figures import Fidelity, Verdict

BUSY_SWITCHES = 0.9
"""Share of the switches' cores above which queues form in the switches and not in front of the links."""
BUSY_MACHINE = 0.97
"""Share of all cores above which any process may wait for one."""
LATE_SENDER_S, LATE_SENDER = 0.1, 0.01
"""Seconds that a sender may be late, or this share of the shortest healthy iteration if that is more."""
RETRANSMITTED = 0.01
"""Share of packets sent again above which repetitions, not rates, are part of the times."""
SLOWER, FASTER = 1.1, 0.95
"""Largest ratio of healthy iterations to their time at a quarter of the rates, where the latency of packets
counts a quarter as much, and least ratio to their time without that latency: declared times of runs that pass
are the same at any scale to within 10 %."""
CLOSED_FORM = 0.01
"""Share of the closed form by which healthy iterations that a model computed may differ."""
LATENCY_SHARE = 0.09
"""Share of an iteration that the latency of packets through the emulator may make up: it does not scale with
the rates."""
FULL_BUFFER = 0.8
"""Share of a switch's send buffer above which the kernel may soon drop what exceeds it."""
EARLY = 1.0
"""Physical limit over time of an iteration above which links ran faster than their rates; the limit has its
tolerances already."""


@dataclass(frozen=True, slots=True)
class SizeTiming:
    """The times of one size: `healthy_s`, of the iterations before the first fault; `low_s` and `high_s`,
    what they should take without and with the latency of a packet, None where that is not known.
    `latency_share`: the part that this latency makes up. `computed`: by a model, not measured; `high_s`
    is the closed form."""

    size_bytes: int
    healthy_s: Sequence[float]
    low_s: float | None = None
    high_s: float | None = None
    latency_share: float = 0.0
    computed: bool = False

    def unchecked(self) -> str:
        """Why the times say nothing, "" if they do."""
        if self.low_s is None or self.high_s is None:
            return "what an iteration should take is not known"
        return "" if self.healthy_s else "no iteration ended before the first fault"

    def wrong(self) -> list[str]:
        """What is wrong with the times."""
        reasons = []
        if self.latency_share > LATENCY_SHARE:
            reasons.append(
                f"the latency of packets through the emulator makes up {self.latency_share:.0%} of an "
                "iteration: lower rate_scale"
            )
        if not self.unchecked() and self.low_s is not None and self.high_s is not None:
            seconds = median(self.healthy_s)
            if self.computed:
                ratio = seconds / self.high_s
                differs = abs(ratio - 1) > CLOSED_FORM
                return [f"healthy iterations took {ratio:.3f} times the closed form"] if differs else []
            # 0: the latency of a packet is not known
            quarter_s = self.low_s + (self.high_s - self.low_s) / 4 if self.low_s else self.high_s
            if seconds > SLOWER * quarter_s:
                reasons.append(
                    f"healthy iterations took {seconds / quarter_s:.2f} times what links need at a quarter "
                    "of the rates: lower rate_scale"
                )
            if seconds < FASTER * self.low_s:
                reasons.append(f"healthy iterations took {seconds / self.low_s:.2f} times what links need")
        return reasons


def together(verdicts: Sequence[tuple[str, Fidelity]]) -> Fidelity:
    """The worst verdict of jobs, with the reasons of each by its name; what holds for all is said once."""
    worst = max((fidelity.verdict for _, fidelity in verdicts), key=("pass", "degraded", "invalid").index)
    of_all = set.intersection(*({*fidelity.reasons} for _, fidelity in verdicts))
    reasons = [
        reason if reason in of_all else f"{name}: {reason}"
        for name, fidelity in verdicts
        for reason in fidelity.reasons
    ]
    return Fidelity(worst, tuple(dict.fromkeys(reasons)))


def judge(
    *,
    wrong: int,
    ratios_to_bound: Sequence[float],
    timings: Sequence[SizeTiming],
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

    Shares in 0..1; `ratios_to_bound` per iteration (bound / time); `timings`: of every size.
    """
    invalid, degraded = _impossible(wrong, ratios_to_bound), []
    if switch_share > BUSY_SWITCHES:
        degraded.append(
            f"the switches used {switch_share:.0%} of their cores: lower rate_scale or use fewer GPUs"
        )
    if machine_share > BUSY_MACHINE:
        degraded.append(f"the run used {machine_share:.0%} of the machine: lower rate_scale")
    shortest_s = min((median(timing.healthy_s) for timing in timings if timing.healthy_s), default=0.0)
    if send_lag_s > max(LATE_SENDER_S, LATE_SENDER * shortest_s):
        degraded.append(
            f"a sender was {send_lag_s * 1e3:.0f} ms late: the machine was busy; lower rate_scale"
        )
    if blind_s is not None:
        degraded.append(f"health was not measured from {blind_s:.2f} s on: the run went on without feedback")
    if drops:
        degraded.append(f"{drops} packets were dropped because a link's queue was full")
    if retransmitted > RETRANSMITTED:
        degraded.append(f"{retransmitted:.1%} of the packets were sent again")
    degraded += _wrong_times(timings)
    if 0 < FULL_BUFFER * send_buffer_bytes < send_buffer_used_bytes:
        used, size = send_buffer_used_bytes >> 10, send_buffer_bytes >> 10
        degraded.append(
            f"queued packets filled {used} of {size} KiB of a switch's send buffer, and what exceeds it is "
            "dropped: raise net.core.wmem_max or run as root"
        )
    verdict: Verdict = "invalid" if invalid else "degraded" if degraded else "pass"
    return Fidelity(verdict, (*invalid, *degraded, *_unchecked_times(timings)))


def _impossible(wrong: int, ratios_to_bound: Sequence[float]) -> list[str]:
    """What no emulation of this fabric can have given."""
    reasons = []
    if wrong:
        reasons.append(f"{wrong} elements are wrong")
    if (best := max(ratios_to_bound, default=0.0)) > EARLY:
        reasons.append(
            f"an iteration took {1 / best:.3f} of the physical limit's time: "
            "links ran faster than their rates"
        )
    return reasons


def _wrong_times(timings: Sequence[SizeTiming]) -> list[str]:
    """What is wrong with the times of every size, of several with the size that it is about."""
    return [
        f"{size_text(timing.size_bytes)}: {reason}" if len(timings) > 1 else reason
        for timing in timings
        for reason in timing.wrong()
    ]


def _unchecked_times(timings: Sequence[SizeTiming]) -> list[str]:
    """Why times were not checked, and at which of several sizes."""
    unchecked: dict[str, list[str]] = {}
    for timing in timings:
        if why := timing.unchecked():
            unchecked.setdefault(why, []).append(size_text(timing.size_bytes))
    return [
        "timing not checked" + (f" ({', '.join(sizes)})" if len(timings) > 1 else "") + f": {why}"
        for why, sizes in unchecked.items()
    ]
