"""Iteration times: the paper's table 4, single terms by hand, the search against brute force."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.errors import ExperimentError
from railweave.framework.papers.training.clusters import GPUS, Cluster, gpu_named
from railweave.framework.papers.training.iteration import TABLE_4, Calibration, iteration_time
from railweave.framework.papers.training.models import MODELS, LanguageModel
from railweave.framework.papers.training.strategies import (
    FixedDegrees,
    Strategy,
    StrategyTable,
    candidates,
    divisors,
)
from railweave.framework.papers.training.strategy_search import memory_bytes, search

A100 = GPUS["a100"]
BOTH_DIRECTIONS = gpu_named("a100", domain_bps=8 * 600e9)
"""NVLink as vendors quote it, both directions together; with CALIBRATED found by fitting."""
CALIBRATED = Calibration(gemm_factor=1.5, attention=16.0)
SMALL = LanguageModel("small", 4, 16, 12, 64, 24)


@pytest.mark.parametrize(("row", "seconds"), list(enumerate([0.784, 11.885, 35.286, 35.550, 70.679])))
def test_calibrated_times_are_the_papers(row: int, seconds: float) -> None:
    """R-O6, and table 4's own column to 0.012 s."""
    found = TABLE_4[row].time(CALIBRATED, BOTH_DIRECTIONS).total_s
    assert found == pytest.approx(seconds, rel=0.002)
    assert found == pytest.approx(TABLE_4[row].computed_s, abs=0.012)


@pytest.mark.parametrize(("row", "seconds"), list(enumerate([0.666, 9.11, 25.88, 26.15, 50.66])))
def test_literal_times(row: int, seconds: float) -> None:
    """The equations as printed, uncalibrated, NVLink per direction."""
    assert TABLE_4[row].time(Calibration()).total_s == pytest.approx(seconds, abs=0.005)


def test_data_parallelism_alone() -> None:
    """Table 4: 530B on 2240 GPUs takes 0.27 s (0.264) longer than on 280, all of it equation 7."""
    few, many = (case.time(CALIBRATED, BOTH_DIRECTIONS) for case in TABLE_4[2:4])
    assert many.total_s - few.total_s == pytest.approx(0.264, abs=0.0005)
    assert many.sync_s == pytest.approx(many.total_s - few.total_s)
    assert few.sync_s == 0


def test_terms_by_hand() -> None:
    """Equations 3 to 7 and 10 with round numbers: t 2, p 2, d 2; pipeline across domains, the rest inside."""
    gpu = replace(A100, flops_per_s=1e9, domain_bytes_per_s=1e6, rail_bytes_per_s=1e5)
    found = iteration_time(
        SMALL,
        Cluster(8, 4, gpu),
        8,
        Strategy(2, 2, 2, 1, 3, 2, 1, 2),
        Calibration(gemm_factor=1.0, attention=24, gamma=1),
    )
    flops = 72 * 8 * 12 * 24 * 16**2 + 6 * 8 * 24 * 16 * 64 + 24 * 8 * 12 * 24**2 * 16
    once = flops / (1e9 * 8 * 2 * 2)
    tensor, edge = 2 * 1 * 16 * 24, 2 * 1 * 16 * 24 / 2
    assert found.bubble_compute_s == pytest.approx(once / 3)
    assert found.bubble_network_s == pytest.approx(2 * edge / 1e5)
    assert found.steady_compute_s == pytest.approx(4 * once)
    assert found.steady_network_s == pytest.approx(
        8 * 12 * 4 / 2 * (tensor / (2 * 1e6)) + 2 * 4 * 3 * edge / 1e5
    )
    gradients = 2 * 12 * (12 * 256 + 13 * 16) / 4
    assert found.sync_s == pytest.approx(2 * gradients / (2 * 1e6))
    parts = (found.bubble_compute_s, found.bubble_network_s, found.steady_compute_s, found.steady_network_s)
    assert found.total_s == pytest.approx(sum(parts) + found.sync_s)


def test_pipeline_inside_a_domain_uses_its_rate() -> None:
    """Equation 4 with pl = 1, and C* of equation 6 is then C_F."""
    gpu = replace(A100, flops_per_s=1e18, domain_bytes_per_s=1e6, rail_bytes_per_s=1.0)
    found = iteration_time(SMALL, Cluster(2, 2, gpu), 2, Strategy(1, 2, 1, 1, 1, 1, 2, 1), Calibration())
    edge = 2 * 16 * 24
    assert found.bubble_network_s == pytest.approx(2 * edge / 1e6)
    assert found.steady_network_s == pytest.approx(2 * 2 * edge / 1e6)
    assert found.sync_s == 0


def _brute(model: LanguageModel, cluster: Cluster, batch: int) -> list[Strategy]:
    """All whole numbers, then constraints 11 to 18 as they stand."""
    n, k = cluster.gpus, cluster.domain
    found = []
    for t, p, d in product(range(1, n + 1), repeat=3):
        if t * p * d != n or batch % d or model.sequence % t or model.hidden % t:
            continue
        for b, v in product(range(1, batch + 1), range(1, model.layers + 1)):
            if (batch // d) % b or model.layers % (p * v):
                continue
            for th, ph, dh in product(range(1, t + 1), range(1, p + 1), range(1, d + 1)):
                if th * ph * dh == k and not (t % th or p % ph or d % dh):
                    found.append(Strategy(t, p, d, b, v, th, ph, dh))
    return found


@pytest.mark.parametrize(("gpus", "domain", "batch"), [(1, 1, 4), (8, 4, 8), (12, 6, 4), (6, 2, 6)])
def test_search_is_brute_force(gpus: int, domain: int, batch: int) -> None:
    """Every strategy is found, and the first is the least by time, t, p and b."""
    cluster = Cluster(gpus, domain, replace(A100, memory_bytes=0))
    every = _brute(SMALL, cluster, batch)
    columns = candidates(SMALL, cluster, batch, FixedDegrees())
    assert {columns.at(i) for i in range(len(columns))} == set(every) and len(columns) == len(every)
    times = {s: iteration_time(SMALL, cluster, batch, s, Calibration()).total_s for s in every}
    ranked = sorted(every, key=lambda s: (float(f"{times[s]:.9e}"), s.t, s.p, s.b))
    found = search(SMALL, cluster, batch, most=len(every))
    assert (found.tried, found.fitting) == (len(every), len(every))
    keys = [(one.strategy.t, one.strategy.p, one.strategy.b) for one in found.best]
    assert keys == [(s.t, s.p, s.b) for s in ranked]


def test_ties_go_to_the_smallest() -> None:
    """On one GPU all microbatches and chunks take the same time."""
    found = search(SMALL, Cluster(1, 1, A100), 4, most=99)
    assert len(found.best) == 3 * 6
    first = found.best[0].strategy
    assert (first.t, first.p, first.b, first.v) == (1, 1, 1, 1)


def test_memory_excludes() -> None:
    """Constraint 19: 22B parameters at 18 bytes are 398 GB, so one A100 of 80 GiB cannot hold them, eight
    can."""
    model = MODELS["gpt-22b"]
    found = search(model, Cluster(8, 8, A100), 4, most=1000)
    assert 0 < found.fitting < found.tried
    assert all(one.memory_bytes <= A100.memory_bytes for one in found.best)
    with pytest.raises(ExperimentError, match="does not fit"):
        search(model, Cluster(1, 1, A100), 4)
    free = search(model, Cluster(1, 1, replace(A100, memory_bytes=0)), 4)
    assert free.best[0].memory_bytes > A100.memory_bytes


def test_memory_by_hand() -> None:
    """34 s b h l / t, times 1 + (p-1)/(p v) when interleaved; 18 P / (p t)."""
    states = 18 * SMALL.parameters / 4
    for v, more in ((2, 1.25), (1, 1.0)):
        needed = memory_bytes(SMALL, StrategyTable.of(Strategy(2, 2, 1, 3, v, 2, 2, 1)))
        assert needed[0] == pytest.approx(states + 34 * 24 * 3 * 16 * 12 / 2 * more)


def test_published_strategies_are_candidates_and_fit() -> None:
    """The measured runs existed, so the model of memory must let them exist."""
    for case in TABLE_4:
        s = case.strategy
        found = search(
            MODELS[case.model],
            Cluster(case.gpus, 8, A100),
            case.batch,
            fixed=FixedDegrees(s.t, s.p, s.d, s.b, s.v),
            most=99,
        )
        assert s in [one.strategy for one in found.best]


@pytest.mark.parametrize(
    ("gpus", "domain", "batch", "fixed", "says"),
    [
        (9, 8, 8, FixedDegrees(), "fill HB domains"),
        (0, 1, 8, FixedDegrees(), "1 or more"),
        (8, 8, 0, FixedDegrees(), "batch of 0"),
        (8, 8, 8, FixedDegrees(t=3), "t = 3"),
        (7, 7, 8, FixedDegrees(), "no strategy"),
    ],
)
def test_bad_jobs_are_refused(gpus: int, domain: int, batch: int, fixed: FixedDegrees, says: str) -> None:
    with pytest.raises(ExperimentError, match=says):
        search(SMALL, Cluster(gpus, domain, A100), batch, fixed=fixed)


@pytest.mark.parametrize("factor", [0.0, -1.0, inf, float("nan")])
def test_bad_calibration(factor: float) -> None:
    with pytest.raises(ExperimentError):
        Calibration(gemm_factor=factor)


@settings(max_examples=30)
@given(st.sampled_from([1, 2, 4, 8, 16]), st.sampled_from([8, 16, 24]))
def test_faster_networks_never_take_longer(gpus: int, batch: int) -> None:
    fast = replace(
        A100, domain_bytes_per_s=A100.domain_bytes_per_s * 2, rail_bytes_per_s=A100.rail_bytes_per_s * 2
    )
    slow_s, fast_s = (
        search(SMALL, Cluster(gpus, 1, gpu), batch).best[0].time.total_s for gpu in (A100, fast)
    )
    assert fast_s <= slow_s


@given(st.integers(1, 5000))
def test_divisors(n: int) -> None:
    assert divisors(n) == [i for i in range(1, n + 1) if n % i == 0]
