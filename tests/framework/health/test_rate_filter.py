"""The filter against its own model: drawn observations, the joint density of all errors, every history of
changes."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.health import rate_filter
from railweave.framework.health.rate_filter import ALIKE, CHANGE, DELAY_S, DELAYED, STEPS, RateFilter

LINE_BPS = 4e6


def add(rates: RateFilter, t_s: float, bits: float, took_s: float, begin_s2: float, end_s2: float) -> None:
    """One observation of the only link, that ended at `t_s`; no sample came late."""
    columns = (t_s - took_s, t_s, bits, took_s, 0.0, begin_s2, end_s2)
    rates.add(np.array([0]), *(np.array([value]) for value in columns))


def drawn(share: float, count: int, took_s: float, error_s: float, rng: np.random.Generator) -> np.ndarray:
    """(count, 2): bits and seconds of observations by the model, at this share of the line rate."""
    late_s = rng.exponential(DELAY_S, count) * (rng.random(count) < DELAYED)
    return np.stack((
        np.full(count, took_s * share * LINE_BPS),
        np.maximum(took_s + late_s + rng.normal(0, error_s, count), 1e-4),
    ), axis=1)  # fmt: skip


@settings(max_examples=40)
@given(st.sampled_from([0.1, 0.2, 0.35, 0.5, 0.7]), st.sampled_from([0.02, 0.1, 1.0]), st.integers(0, 2**32))
def test_what_is_drawn_from_the_model_is_found(share: float, took_s: float, seed: int) -> None:
    """A link that was healthy becomes slow, and healthy again: 0.5 s of work and ten observations later the
    rate is right to a tenth, and it says so of what came since."""
    rng, rates, t_s = np.random.default_rng(seed), RateFilter(np.array([LINE_BPS])), 0.0
    for part in (1.0, share, 1.0):
        began_s = t_s
        for bits, seconds in drawn(part, max(10, int(0.5 / took_s)), took_s, 0.02 * took_s, rng):
            t_s += seconds
            add(rates, t_s, bits, seconds, (0.02 * took_s) ** 2, 0.0)
        assert rates.rate_bps[0] / LINE_BPS == pytest.approx(part, abs=0.1)
        assert rates.stated_s[0] > began_s and (part == 1.0 or rates.since_s[0] >= began_s - 1e-9)


def test_healthy_links_that_are_late_now_and_then_are_not_called_slow() -> None:
    """As often as the model says: 200 links for 20 s. Less than one observation in a thousand says otherwise,
    where a delay was as long as one in ten thousand is."""
    rng, n = np.random.default_rng(1), 200
    rates, links, none = RateFilter(np.full(n, LINE_BPS)), np.arange(n), np.zeros(n)
    slow = 0
    for t_s in range(800):
        took_s = 0.025 + rng.exponential(DELAY_S, n) * (rng.random(n) < DELAYED)
        bits = np.full(n, 0.025 * LINE_BPS)
        rates.add(links, none + t_s, none + t_s, bits, took_s, none, none + 1e-6, none)
        slow += np.count_nonzero(rates.rate_bps < 0.9 * LINE_BPS)
    assert slow < 0.001 * 800 * n


@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_posterior_is_the_sum_over_all_histories_of_changes(count: int) -> None:
    """By brute force: for every set of moments at which the rate changed, what was observed since the last
    one is of one rate, drawn evenly; before the first one it is the line rate."""
    rng = np.random.default_rng(count)
    observed = drawn(0.5, count, 0.05, 0.002, rng)
    likelihood = np.zeros((count, STEPS))
    for i, (bits, seconds) in enumerate(observed):
        alone = RateFilter(np.array([LINE_BPS]))
        columns = (np.array([value]) for value in (bits, seconds, 0.0, 0.002**2, 0.0))
        likelihood[i] = alone._likelihood(np.array([0]), *columns)[0]
    total = np.zeros(STEPS)
    for changes in product((False, True), repeat=count):
        state = np.eye(STEPS)[-1]
        for changed, density in zip(changes, likelihood, strict=True):
            state = (CHANGE * state.sum() / STEPS if changed else (1 - CHANGE) * state) * density
        total += state
    rates = RateFilter(np.array([LINE_BPS]))
    for t_s, (bits, seconds) in enumerate(observed):
        add(rates, t_s, bits, seconds, 0.002**2, 0.0)
    assert rates._posterior[0] == pytest.approx(total / total.sum(), rel=1e-3, abs=1e-6)


def test_errors_of_shared_moments_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without delays the densities of all observations multiply to that of one normal vector. Neighbours
    share the error of a moment: its covariance matrix has -s2 next to the diagonal."""
    for name, value in (("DELAYED", 1e-9), ("EARLY", 1e-9), ("CHANGE", 0.0)):
        monkeypatch.setattr(rate_filter, name, value)
    rng, n, s2 = np.random.default_rng(4), 6, 0.006**2
    moments = np.arange(n + 1) * 0.025 + rng.normal(0, 0.006, n + 1)
    took, bits = np.diff(moments), 0.025 * LINE_BPS * 0.7
    rates = RateFilter(np.array([LINE_BPS]))
    rates._posterior[:] = 1 / STEPS
    for t_s, seconds in enumerate(took):
        add(rates, t_s, bits, seconds, s2 if t_s == 0 else 0.0, s2)
    due = bits / LINE_BPS / np.geomspace(rate_filter.LEAST, 1.0, STEPS)
    steps_s2 = (due * (rate_filter.LEAST ** (-1 / (STEPS - 1)) - 1)) ** 2 / 12
    shared = s2 * (2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1))
    logs = np.array([
        -0.5 * (took - d) @ np.linalg.solve(cov := shared + more * np.eye(n), took - d)
        - 0.5 * np.linalg.slogdet(cov)[1]
        for d, more in zip(due, steps_s2, strict=True)
    ])  # fmt: skip
    expected = np.exp(logs - logs.max())
    assert rates._posterior[0] == pytest.approx(expected / expected.sum(), abs=0.01)


def test_what_no_rate_explains_leaves_what_is_known() -> None:
    rates = RateFilter(np.array([LINE_BPS]))
    add(rates, 1.0, 1.0, 1000.0, 1e-6, 0.0)
    add(rates, 2.0, 1e9, 1e-4, 1e-6, 0.0)
    for took_s in (0.0, -0.01):  # the errors of its ends are longer than it is
        add(rates, 3.0, 1e4, took_s, 1e-4, 0.0)
    assert (rates._posterior >= 0).all()
    assert np.isfinite(rates.rate_bps).all() and np.isfinite(rates._posterior).all()


def test_one_observation_of_a_rate_leaves_doubt_and_the_next_says_it() -> None:
    rates = RateFilter(np.array([LINE_BPS]), delay_s=0.03)
    said = []
    for t_s in range(4):
        add(rates, t_s, 0.05 * LINE_BPS, 0.1, 5e-5, 0.0)
        said.append((bool(rates.doubtful[0]), rates.rate_bps[0] / LINE_BPS))
    assert said[0] == (True, 1.0)
    assert not said[-1][0] and ALIKE * 0.5 < said[-1][1] < 0.5 / ALIKE


def test_links_do_not_see_each_other() -> None:
    """The same observations, together and one link after the other."""
    rng, n = np.random.default_rng(1), 3
    together, alone = RateFilter(np.full(n, LINE_BPS)), [RateFilter(np.array([LINE_BPS])) for _ in range(n)]
    for t_s in range(1, 20):
        took = 0.025 + rng.exponential(DELAY_S, n)
        bits = np.array([1.0, 0.5, 0.2]) * 0.025 * LINE_BPS
        now, small = np.full(n, float(t_s)), np.full(n, 1e-6)
        together.add(np.arange(n), now - took, now, bits, took, 0 * now, small, small)
        for i, rates in enumerate(alone):
            add(rates, t_s, bits[i], took[i], 1e-6, 1e-6)
    assert together.rate_bps == pytest.approx([rates.rate_bps[0] for rates in alone])


def slowed(shares: np.ndarray, rounds: int) -> RateFilter:
    """Links of four switches, eight each, at `shares` (32,) of the line rate, observed every 25 ms, after a
    second at all of it."""
    n, switch = 32, np.repeat(np.arange(4, dtype=np.int32), 8)
    rates, links, none = RateFilter(np.full(n, LINE_BPS), switch), np.arange(n), np.zeros(n)
    for step in range(-40, rounds):
        bits = 0.025 * LINE_BPS * (shares if step >= 0 else np.ones(n))
        now_s = none + 0.025 * step
        rates.add(links, now_s - 0.025, now_s, bits, none + 0.025, none, none + 1e-7, none)
    return rates


@pytest.mark.parametrize("share", [0.7, 0.8, 0.9])
def test_a_machine_that_makes_all_links_late_makes_none_slow(share: float) -> None:
    """For a quarter of a second, as a lab of 16 GPUs next to other work: each served 0.8 of its rate."""
    rates = slowed(np.full(32, share), 10)
    assert (rates.rate_bps == LINE_BPS).all()


def test_a_switch_too_slow_to_show_how_late_it_is_does_not_contradict_the_others() -> None:
    """Packets of a rail at a tenth take four intervals between samples, so that a machine that stands still
    for a part of one delays none, or one; no sample says which."""
    n, slow = 32, np.arange(8, 16)
    rates = RateFilter(np.full(n, LINE_BPS), np.repeat(np.arange(4, dtype=np.int32), 8))
    took_s, begin_s2 = np.full(n, 0.025), np.full(n, 1e-7)
    took_s[slow], begin_s2[slow] = 0.1, 0.025**2 / 12
    bits = 0.025 * LINE_BPS * np.ones(n)
    bits[slow] = 0.1 * LINE_BPS * 0.1
    for step in range(44):
        part = np.where((step >= 40) & (took_s < 0.1), 0.7, 1.0)
        now_s = np.full(n, 0.1 * step)
        none = np.zeros(n)
        rates.add(np.arange(n), now_s - took_s, now_s, bits * part, took_s, none, begin_s2, none)
    assert (np.delete(rates.rate_bps, slow) == LINE_BPS).all()
    assert rates.rate_bps[slow] == pytest.approx(0.1 * LINE_BPS, rel=0.2)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.7])
def test_the_links_of_one_switch_are_no_machine(share: float) -> None:
    shares = np.ones(32)
    shares[8:16] = share
    said = slowed(shares, 16).rate_bps / LINE_BPS
    assert said[8:16] == pytest.approx([share] * 8, abs=0.1)
    assert (np.delete(said, np.s_[8:16]) == 1.0).all()


@pytest.mark.parametrize("share", [0.2, 0.5, 0.7])
def test_links_of_all_switches_that_stay_slow_are_found(share: float) -> None:
    """The machine gets a tenth of a second, and half as much of every further one."""
    assert slowed(np.full(32, share), 60).rate_bps / LINE_BPS == pytest.approx([share] * 32, abs=0.1)


def test_evidence_that_changes_nothing_and_proves_nothing_states_nothing() -> None:
    """Of a link that is known as slow: an observation too short to tell its rate from any other."""
    rates = RateFilter(np.array([7e6 / 3]))
    for t_s in range(5):
        add(rates, t_s, 0.1 * 7e6 / 3 * 0.3, 0.1, 1e-6, 0.0)
    stated_s, part = rates.stated_s[0], rates.rate_bps[0]
    add(rates, 9.0, 700.0, 0.0011, 1e-4, 0.0)
    assert rates.rate_bps[0] == part and rates.stated_s[0] == stated_s < 9.0
