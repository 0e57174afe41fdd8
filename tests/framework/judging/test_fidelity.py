"""Each reason of the verdict alone, and none without a reason."""

from __future__ import annotations

from typing import Any

import pytest

from railweave.framework.judging.fidelity import SizeTiming, judge

FINE: dict[str, Any] = {
    "wrong": 0, "ratios_to_bound": (0.55, 0.6), "timings": [SizeTiming(1 << 20, (1.05, 1.08), 1.0, 1.0)],
    "switch_share": 0.7, "machine_share": 0.8, "send_lag_s": 0.01, "retransmitted": 0.0, "drops": 0,
    "send_buffer_bytes": 1 << 20, "send_buffer_used_bytes": 1 << 18,
}  # fmt: skip


def test_a_clean_run_passes() -> None:
    assert judge(**FINE).verdict == "pass" and judge(**FINE).reasons == ()


@pytest.mark.parametrize(
    "change, verdict, words",
    [
        ({"wrong": 3}, "invalid", "3 elements are wrong"),
        ({"ratios_to_bound": (0.6, 1.01)}, "invalid", "0.990 of the physical limit"),
        ({"switch_share": 0.95}, "degraded", "95% of their cores"),
        ({"machine_share": 0.99}, "degraded", "99% of the machine"),
        ({"send_lag_s": 0.2}, "degraded", "200 ms late"),
        ({"drops": 5}, "degraded", "5 packets were dropped"),
        ({"retransmitted": 0.02}, "degraded", "2.0% of the packets"),
        ({"blind_s": 3.25}, "degraded", "not measured from 3.25 s on: the run went on without feedback"),
        (
            {"timings": [SizeTiming(1, (1.1, 1.2, 1.3), 1.0, 1.04)]},
            "degraded",
            "1.19 times what links",
        ),
        (
            {"timings": [SizeTiming(1, (1.1, 1.2, 1.3), 0.0, 1.0)]},
            "degraded",
            "1.20 times what links",
        ),
        ({"timings": [SizeTiming(1, (0.7, 0.8, 0.9), 0.9, 1.0)]}, "degraded", "0.89 times what links need"),
        ({"timings": [SizeTiming(1, (1.15,), 1.0, 1.2, 0.17)]}, "degraded", "makes up 17% of an iteration"),
        ({"send_buffer_used_bytes": 900 << 10}, "degraded", "900 of 1024 KiB"),
    ],
)
def test_each_fault_has_its_verdict(change: dict[str, object], verdict: str, words: str) -> None:
    found = judge(**{**FINE, **change})
    assert found.verdict == verdict and len(found.reasons) == 1 and words in found.reasons[0]


def test_a_sender_may_be_late_by_a_hundredth_of_an_iteration() -> None:
    """Of one of 60 s, as on 256 GPUs, by 0.6 s."""
    long = [SizeTiming(1 << 20, (60.0,), 58.0, 60.0)]
    assert judge(**{**FINE, "timings": long, "send_lag_s": 0.5}).verdict == "pass"
    assert judge(**{**FINE, "timings": long, "send_lag_s": 0.7}).verdict == "degraded"


def test_the_kernel_datapath_has_no_such_buffer() -> None:
    assert judge(**{**FINE, "send_buffer_bytes": 0, "send_buffer_used_bytes": 1 << 30}).verdict == "pass"


def test_every_size_is_judged_by_itself() -> None:
    small, large = SizeTiming(65536, (1.3, 1.3), 0.9, 1.0), SizeTiming(1 << 20, (10.0,) * 9, 9.9, 10.0)
    verdict = judge(**{**FINE, "timings": [small, large]})
    assert verdict.verdict == "degraded"
    assert len(verdict.reasons) == 1 and verdict.reasons[0].startswith("64K: healthy iterations took 1.41")


def test_a_pass_says_which_times_were_not_checked() -> None:
    fine, unknown = SizeTiming(4096, (1.0,), 0.95, 1.0), SizeTiming(65536, (1.0,))
    faulty = [SizeTiming(size, (), 0.9, 1.0) for size in (1 << 20, 2 << 20)]
    verdict = judge(**{**FINE, "timings": [fine, unknown, *faulty]})
    assert verdict.verdict == "pass" and verdict.reasons == (
        "timing not checked (64K): what an iteration should take is not known",
        "timing not checked (1M, 2M): no iteration ended before the first fault",
    )
