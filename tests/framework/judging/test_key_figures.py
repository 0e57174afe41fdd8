"""Expected values: closed forms, and figures counted by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest

import railweave as rw
from railweave.framework.judging.key_figures import (
    busbw_figures,
    independent,
    jct_ratio,
    last_landed_s,
    link_fairness,
    max_mean_ratio,
    message_figures,
    p99,
    percentile,
    queue_figures,
    rank_fairness,
    response_figures,
    share_of_packets,
    time_figures,
)
from railweave.framework.model import Schedule
from railweave.framework.model.findings import HealthSamples
from railweave.framework.results.percentiles import MessageFigures, ResponseFigures, TimeFigures


@pytest.mark.parametrize(("percent", "value"), [(1, 1), (5, 5), (50, 50), (95, 95), (99, 99), (100, 100)])
def test_of_the_first_hundred_numbers_each_is_its_own_percentile(percent: float, value: float) -> None:
    assert percentile(np.arange(100, 0, -1), percent) == value


@pytest.mark.parametrize("percent", [0.1, 5, 37, 50, 95, 99, 100])
def test_percentiles_are_those_of_numpy(percent: float) -> None:
    values = np.random.default_rng(5).normal(size=37)
    assert percentile(values, percent) == np.percentile(values, percent, method="inverted_cdf")


def test_a_value_of_weight_three_counts_as_three() -> None:
    values, weights = np.array([4.0, 1.0, 7.0]), np.array([3, 5, 2])
    for percent in (10, 49, 50, 51, 79, 80, 81, 99):
        assert percentile(values, percent, weights) == percentile(np.repeat(values, weights), percent)


def test_bus_bandwidth_of_one_iteration_has_no_spread() -> None:
    assert busbw_figures([]) is busbw_figures([3.0]) is busbw_figures([0.0, 0.0]) is None
    of = busbw_figures([2.0, 4.0] * 10)
    assert of is not None
    assert (of.iterations, of.p5_gbs, of.p50_gbs, of.p95_gbs, of.p99_gbs) == (20, 2, 2, 4, None)
    assert of.cv == pytest.approx(1 / 3)


def test_p99_takes_a_hundred_values_that_differ() -> None:
    """Of 1 .. n the 99th percentile by nearest rank is the value number ceil(0.99 n); 99 of 100."""
    numbers = [float(n) for n in range(1, 101)]
    assert p99(numbers) == 99 and p99(numbers[:99]) is None
    assert p99(numbers[:99] * 5) is None and independent(numbers[:99] * 5) == 99
    assert independent([0.1 + 0.2, 0.3]) == 1  # the same sum, rounded differently


def test_times_of_iterations_have_percentiles_and_a_variation() -> None:
    """9 of 10 us and one of 60: mean 15, deviation sqrt(0.9 x 25 + 0.1 x 2025) = 15, so a CV of 1."""
    assert time_figures([10.0]) is None
    assert time_figures([60.0, *[10.0] * 9]) == TimeFigures(10, 2, 10, 60, None, pytest.approx(1))
    assert time_figures([0.0, 0.0]) == TimeFigures(2, 1, 0, 0, None, 0.0)


def test_the_most_loaded_link_is_compared_with_the_mean_of_its_kind() -> None:
    """One of n links that carries twice what the others do: 2 / ((n + 1) / n) = 2n / (n + 1)."""
    fabric = rw.topology("rail-only", domains=2, rails=2)
    rails = np.flatnonzero(fabric.link_kind == fabric.kinds.index("r"))
    sent = np.zeros(fabric.n_links)
    sent[rails], sent[rails[3]] = 100.0, 200.0
    assert max_mean_ratio(fabric, sent) == {"r": pytest.approx(2 * len(rails) / (len(rails) + 1))}


def test_completion_over_the_limit_is_one_at_best() -> None:
    assert jct_ratio(23.0, 20.0) == pytest.approx(1.15)
    assert jct_ratio(23.0, None) is None


def test_counts_of_packets_are_shares_of_what_was_sent() -> None:
    """3 + 1 of 200 packets; what one iteration did not count is not known of the run."""
    assert share_of_packets([3, 1], 200) == pytest.approx(0.02)
    assert share_of_packets([3, None], 200) is share_of_packets([], 200) is share_of_packets([3], 0) is None


def test_faults_are_answered_on_both_clocks() -> None:
    """At a rate scale of 1e-5 a second of the run is 10 declared microseconds."""
    assert response_figures([], 1e-5) is None
    assert response_figures([0.5, 3.0, 1.0], 1e-5) == ResponseFigures(
        3, 1.0, 3.0, None, pytest.approx(10), pytest.approx(30), None
    )
    many = response_figures([float(n) for n in range(1, 101)], 1.0)
    assert many is not None and many.p99_s == 99 and many.p99_declared_us == pytest.approx(99e6)


def test_key_figures_of_a_computed_run() -> None:
    """The largest size's limit over its mean time, as its row has them; an engine without packets counts
    none."""
    slow_rail = ["at=iter:2 degrade rail:1 to=20%"]
    result = rw.run(engine="fluid", domains=2, rails=4, size="1M", iterations=6, faults=slow_rail)
    found, fault = result.key_figures, result.faults[0]
    assert found.jct_ratio == pytest.approx(1 / result.summary.ratio_to_bound)
    assert found.out_of_order_rate is found.marked_rate is found.retransmission_rate is None
    assert found.detection is not None and found.detection.median_s == fault.detected_s
    assert found.convergence is not None and found.convergence.max_s == fault.recovered_s
    assert found.convergence.max_declared_us == pytest.approx(
        fault.recovered_s * result.fabric.rate_scale * 1e6
    )
    times = [row.declared_time_us for row in result.rows if row.iteration is not None]
    assert result.summary.time_figures == time_figures(times)
    rails = [link.bytes for link in result.links if link.kind == "r"]
    assert found.max_mean_ratio["r"] == pytest.approx(max(rails) * len(rails) / sum(rails))


def test_the_interference_of_a_run_is_that_of_the_job_that_lost_most() -> None:
    jobs = ["name=a ranks=rail:0-3 share=true", "name=b ranks=rail:2-5 share=true"]
    keys = {"domains": 2, "rails": 8, "size": "64K", "iterations": 2, "collective": "all-to-all"}
    result = rw.run(engine="fluid", jobs=jobs, **keys)
    assert result.key_figures.jct_ratio is None
    assert result.key_figures.interference == max(job.interference for job in result.jobs)


def test_the_fullest_queue_counts_by_the_time_it_lasts() -> None:
    """9 kB for a tenth of the time, at most 1 kB otherwise; samples of different lengths."""
    queue = np.array([[0, 1000], [9000, 10], [500, 0]], np.float32)
    t_s = np.array([0.5, 0.6, 1.0])
    none = np.zeros_like(queue)
    samples = HealthSamples(t_s, queue, none, none, none, none)
    assert queue_figures(samples, 0.5, whole=True) == (9000, 9000)
    assert queue_figures(samples, 0.5, whole=False) == (None, None)
    later = HealthSamples(t_s + np.array([0, 0, 2]), queue, none, none, none, none)  # now a thirtieth
    assert queue_figures(later, 0.5, whole=True) == (1000, 9000)
    empty = HealthSamples(np.empty(0), *[np.empty((0, 2), np.float32)] * 5)
    assert queue_figures(empty, 0.5, whole=True) == (None, None)


def test_a_queue_counts_for_no_time_in_which_nothing_was_sampled() -> None:
    """Two bursts of 100 samples, 5 s and 60 s into the run; the first of each finds 9 kB and stands for 4
    intervals: 8 of 206."""
    burst = np.arange(1, 101) * 0.025
    queue = np.full((200, 1), 100.0, np.float32)
    queue[[0, 100]] = 9000
    none = np.zeros_like(queue)
    samples = HealthSamples(np.concatenate((5 + burst, 60 + burst)), queue, none, none, none, none)
    assert queue_figures(samples, 0.025, whole=True) == (100, 9000)


def test_links_of_one_kind_are_fair_if_they_carry_the_same() -> None:
    """One of n links that carries all gives 1 / n; a kind that carries nothing has no index."""
    fabric = rw.topology("rail-only", domains=2, rails=2)
    kinds = {kind: np.flatnonzero(fabric.link_kind == i) for i, kind in enumerate(fabric.kinds)}
    sent = np.zeros(fabric.n_links)
    sent[kinds["r"][3]] = 5e6
    assert link_fairness(fabric, sent) == {"r": pytest.approx(1 / len(kinds["r"]))}
    sent[kinds["d"]] = 7.0
    assert link_fairness(fabric, sent)["d"] == pytest.approx(1)


def test_ranks_are_fair_by_what_they_send_over_the_time_it_takes() -> None:
    """Rank 0 sends 6 B in 2 s and rank 1 2 B in 2 s: (3 + 1)^2 / (2 (9 + 1)). Rank 2 sends nothing."""
    none = np.zeros(3, int)
    schedule = Schedule(
        "none", 3, 8, "float32", "sum", 8, np.array([0, 0, 1]), np.array([1, 2, 2]), none, none,
        np.array([2, 4, 2]), none, none, np.zeros(4, int), np.empty(0, int),
    )  # fmt: skip
    last_s = last_landed_s(schedule, np.array([2.0, 1.0, 2.0]))
    assert last_s.tolist() == [2, 2, 0]
    assert rank_fairness(schedule, last_s) == pytest.approx(0.8)
    assert rank_fairness(schedule, last_landed_s(schedule, np.empty(0))) is None


def test_a_healthy_run_is_fair_and_ranks_on_a_slow_rail_fall_behind() -> None:
    """In an all-to-all of four ranks those of the slow rail end last, the others once their own rails did."""
    where = {"engine": "fluid", "domains": 2, "rails": 2, "size": "64K", "iterations": 2}
    healthy = rw.run(faults=[], **where)
    assert healthy.summary.rank_fairness == pytest.approx(1)
    assert healthy.key_figures.link_fairness == {"d": pytest.approx(1), "r": pytest.approx(1)}
    assert healthy.key_figures.failover_p99_s is None
    slow_rail = ["at=iter:1 degrade rail:1 to=20%"]
    slow = rw.run(collective="all-to-all", faults=slow_rail, feedback=False, **where)
    before, after = (row.rank_fairness for row in slow.rows if row.iteration is not None)
    assert before == pytest.approx(1) and after is not None and 0.25 <= after < 0.95


def test_a_run_that_sends_nothing_has_times_of_nothing() -> None:
    keys = {"domains": 2, "rails": 2, "collective": "all-to-all", "size": 0, "iterations": 3}
    result = rw.run(engine="fluid", **keys)
    assert {row.time_us for row in result.rows} == {0.0} and result.summary.busbw_figures is None
    json.dumps(result.document(), allow_nan=False)


def test_messages_land_when_their_transfers_end() -> None:
    """Of an all-to-all of two ranks each message is the whole iteration; a ring that repeats its transfers
    has no times of single ones."""
    keys = {"engine": "fluid", "faults": [], "iterations": 2, "size": "64K", "rails": 1}
    found = rw.run(domains=2, collective="direct-all-to-all", **keys).summary
    assert found.message_figures is not None
    assert found.message_figures.messages == 4
    assert found.message_figures.max_us == pytest.approx(found.declared_time_us)
    assert message_figures(np.array([5.0])) is None
    many = message_figures(np.arange(1.0, 101.0))
    assert many == MessageFigures(100, 50, 95, 99, 100)
