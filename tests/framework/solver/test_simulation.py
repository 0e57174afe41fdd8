"""Ends of transfers against exact max-min fairness, closed forms and a linear programme."""

from __future__ import annotations

from importlib.util import find_spec
from math import inf

import numpy as np
import pytest

from railweave.framework.errors import FabricError, MachineError
from railweave.framework.model.routes import all_pairs, starts
from railweave.framework.solver import plain
from railweave.framework.solver.network import Network
from railweave.framework.solver.plain import fair_rates
from railweave.framework.solver.simulation import COUNTED, FlowSimulation, SolverProgress
from railweave.framework.solver.tasks import Tasks
from tests.framework.solver.exact import exact_ends

needs_numba = pytest.mark.skipif(find_spec("numba") is None, reason="needs the extra `fluid`")
CODES = [pytest.param(False, id="plain"), pytest.param(True, id="compiled", marks=needs_numba)]


def ends(network: Network, tasks: Tasks, accelerated: bool, batch: float = 0.0) -> np.ndarray:
    simulation = FlowSimulation(network, accelerated, batch=batch)
    job = simulation.add(tasks)
    assert simulation.advance() == (job,)
    assert simulation.advance(simulation.now_s + 1) == ()
    return simulation.end_s(job)


def line(*capacity: float, delay: float = 0.0, uses: tuple[tuple[int, ...], ...] = ((0,),)) -> Network:
    """Pairs over the links that `uses` lists."""
    start = starts(np.array([len(use) for use in uses]))
    link = np.array([x for use in uses for x in use], np.int32)
    return Network(np.array(capacity), start, link, np.ones(len(link)), np.full(len(uses), delay))


def random_network(rng: np.random.Generator) -> Network:
    n_links, n_pairs = int(rng.integers(1, 7)), int(rng.integers(1, 9))
    chosen = [
        rng.choice(n_links, int(rng.integers(1, min(n_links, 4) + 1)), replace=False) for _ in range(n_pairs)
    ]
    count = np.array([len(links) for links in chosen])
    use = rng.choice([1.0, 1.0, 0.5, 0.25, 3.0], int(count.sum()))
    return Network(
        rng.choice([1.0, 2.0, 10.0, 7.0], n_links), starts(count), np.concatenate(chosen), use,
        rng.choice([0.0, 0.5, 0.125], n_pairs),
    )  # fmt: skip


def random_tasks(rng: np.random.Generator, n_pairs: int, *, repeated: bool) -> Tasks:
    n = int(rng.integers(1, 10))
    pair = rng.integers(-1, n_pairs, n)
    before = [
        sorted({int(k) for k in rng.integers(0, i + 1, int(rng.integers(0, 3)))} - {i}) for i in range(n)
    ]
    after = [[k for k in earlier if not repeated or rng.random() < 0.5] for earlier in before]
    repeat = rng.integers(1, 4, n) if repeated else np.ones(n, np.int64)
    lag = rng.choice([0, 1, 1, 2], n) if repeated else np.ones(n, np.int64)
    chained: list[list[int]] = [
        [k for k in before[i] if repeat[k] >= repeat[i] - lag[i]]
        + ([i] if lag[i] and rng.random() < 0.5 else [])
        for i in range(n)
    ]
    return Tasks(
        pair, np.where(pair >= 0, rng.integers(1, 9, n), 0), np.where(pair < 0, rng.integers(0, 4, n), 0),
        repeat, rng.choice([0.0, 0.0, 1.0, 2.5], n),
        starts(np.array([len(x) for x in after])), np.array([k for x in after for k in x], np.int64),
        starts(np.array([len(x) for x in chained])) if repeated else np.empty(0, np.int64),
        np.array([k for x in chained for k in x] if repeated else [], np.int64),
        lag, *own_sizes(rng, np.where((pair >= 0) & repeated, repeat, 0)),
    )  # fmt: skip


def own_sizes(rng: np.random.Generator, repeat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sizes of every repetition of half of the transfers."""
    count = np.where(rng.random(len(repeat)) < 0.5, repeat, 0)
    return starts(count), rng.integers(1, 9, int(count.sum())).astype(np.float64)


@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("accelerated", CODES)
def test_ends_are_those_of_water_filling_in_fractions(
    accelerated: bool, repeated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """500 random fabrics and sets of entries; in plain code, every other one goes in whole arrays."""
    for seed in range(250):
        monkeypatch.setattr(plain, "TOGETHER", 1 + 100 * (seed % 2))
        rng = np.random.default_rng(seed)
        network = random_network(rng)
        tasks = random_tasks(rng, network.n_pairs, repeated=repeated)
        expected = exact_ends(network, tasks)
        np.testing.assert_allclose(ends(network, tasks, accelerated), expected, rtol=1e-9, err_msg=f"{seed=}")
        batched = ends(network, tasks, accelerated, batch=1e-4)
        np.testing.assert_allclose(batched, expected, rtol=1e-3, err_msg=f"{seed=}")


def test_rates_are_those_of_linear_programmes() -> None:
    """Max-min by its definition: raise the least rate as far as a programme allows, fix those that no other
    programme raises further, repeat."""
    highspy = pytest.importorskip("highspy")

    def highest(capacity: np.ndarray, use: np.ndarray, fixed: dict[int, float], raised: int | None) -> float:
        """The largest common rate of the flows that are not fixed, or of one where the others keep it."""
        lp = highspy.Highs()
        lp.silent()
        rate = [lp.addVariable(lb=fixed.get(f, 0.0), ub=fixed.get(f, inf)) for f in range(use.shape[1])]
        least = lp.addVariable(lb=0.0)
        for f in range(use.shape[1]):
            if f not in fixed and (raised is None or f == raised):
                lp.addConstr(rate[f] >= least)
        for row, limit in zip(use, capacity, strict=True):
            lp.addConstr(sum(float(u) * rate[f] for f, u in enumerate(row) if u) <= float(limit))
        lp.maximize(least)
        return float(lp.getObjectiveValue())

    for seed in range(12):
        rng = np.random.default_rng(seed)
        network = random_network(rng)
        use = np.zeros((network.n_links, network.n_pairs))
        use[network.link, np.repeat(np.arange(network.n_pairs), np.diff(network.start))] = network.use
        keep = use.sum(axis=1) > 0
        capacity, use = network.capacity_bps[keep], use[keep]
        rates: dict[int, float] = {}
        while len(rates) < network.n_pairs:
            level = highest(capacity, use, rates, None)
            floor = rates | {f: level for f in range(network.n_pairs) if f not in rates}
            for f in range(network.n_pairs):
                others = {k: r for k, r in floor.items() if k != f}
                if f not in rates and highest(capacity, use, others, f) <= level * (1 + 1e-6):
                    rates[f] = level
        ours = fair_rates(network.capacity_bps, network.start, network.link, network.use)
        np.testing.assert_allclose(ours, [rates[f] for f in range(network.n_pairs)], rtol=1e-5)


def torus(size: int, one_sided: bool) -> Network:
    """All pairs of a size^3 torus, axis after axis. The pairs half-way round take both directions, half each,
    or the positive one. Links: by node, axis and direction."""
    src, dst = all_pairs(size**3)
    hops: list[list[tuple[int, float]]] = []
    for a, b in zip(src.tolist(), dst.tolist(), strict=True):
        place, goal = (np.unravel_index(x, (size,) * 3) for x in (a, b))
        at, links = [int(x) for x in place], []
        for axis in range(3):
            ahead = (int(goal[axis]) - at[axis]) % size
            tie = 2 * ahead == size
            for direction in (0, 1):
                steps = ahead if direction == 0 else size - ahead
                if not ahead or (steps > size - steps) or (tie and one_sided and direction):
                    continue
                for step in range(steps):
                    node = list(at)
                    node[axis] = (at[axis] + (step if direction == 0 else -step)) % size
                    link = int(np.ravel_multi_index(tuple(node), (size,) * 3)) * 6 + 2 * axis + direction
                    links.append((link, 0.5 if tie and not one_sided else 1.0))
            at[axis] = int(goal[axis])
        hops.append(links)
    delay = [1e-6 * sum(use for _, use in links) for links in hops]
    flat = [hop for links in hops for hop in links]
    return Network(
        np.full(size**3 * 6, 1e11), starts(np.array([len(links) for links in hops])),
        np.array([link for link, _ in flat], np.int32), np.array([use for _, use in flat]), np.array(delay),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("network", "expected_us"),
    [
        # 63 messages of 8e6 bit leave every rank over one link
        (
            lambda: line(
                *[1e11] * 128,
                delay=2e-6,
                uses=tuple((a, 64 + b) for a, b in zip(*all_pairs(64), strict=True)),
            ),
            5042,
        ),
        # 16 x (1 + 1 + 2) hops of every rank and axis over two links; over the positive one 16 x (1 + 2)
        (lambda: torus(4, one_sided=False), 2561),
        (lambda: torus(4, one_sided=True), 3841),
        # 9 x (1 + 1) over two
        (lambda: torus(3, one_sided=False), 721),
    ],
    ids=["star", "torus 4x4x4", "one-sided ties", "torus 3x3x3"],
)
@pytest.mark.parametrize("accelerated", CODES)
def test_all_to_all_takes_what_its_busiest_link_needs(accelerated: bool, network, expected_us: float) -> None:
    """1e6 B per pair, 100 Gb/s, 1 us a link; a link's first flows start when those of one hop arrive."""
    made = network()
    n = made.n_pairs
    simulation = FlowSimulation(made, accelerated, batch=0.0)
    simulation.add(Tasks(np.arange(n), np.full(n, 8e6)))
    simulation.advance()
    assert simulation.now_s * 1e6 == pytest.approx(expected_us, rel=1e-9)
    expected = np.bincount(made.link, made.use, made.n_links) * 8e6
    np.testing.assert_allclose(simulation.carried_bits(), expected, rtol=1e-9)


@needs_numba
def test_compiled_code_gives_the_same_events_and_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the start, and from some moment of the run on, which is the same each time."""
    monkeypatch.setattr("railweave.framework.solver.simulation.LARGE", 400_000)
    monkeypatch.setattr("railweave.framework.solver.simulation.WORK", 100_000)
    for seed in range(8):
        rng = np.random.default_rng(seed)
        n_links, n_pairs = 60, 400
        link = np.stack([rng.permutation(n_links)[:4] for _ in range(n_pairs)])
        network = Network(
            rng.uniform(1, 3, n_links), np.arange(n_pairs + 1) * 4, link.ravel(), np.ones(link.size),
            rng.uniform(0, 0.1, n_pairs),
        )  # fmt: skip
        after = np.sort(rng.integers(0, 300, 300))
        tasks = Tasks(
            rng.permutation(n_pairs), rng.exponential(1, n_pairs), repeat=rng.integers(1, 3, n_pairs),
            after_start=np.concatenate((np.zeros(100, np.int64), np.arange(301))),
            after=np.minimum(after, np.arange(100, 400) - 1),
        )  # fmt: skip
        runs = []
        for accelerated in (False, True, None, None):
            simulation = FlowSimulation(network, accelerated)
            job = simulation.add(tasks)
            simulation.advance()
            runs.append(
                (int(simulation.tally[COUNTED["events"]]), simulation.end_s(job), simulation.carried_bits())
            )
        assert len({events for events, _, _ in runs}) == 1
        for _, end, carried in runs[1:]:
            np.testing.assert_allclose(end, runs[0][1], rtol=1e-9)
            np.testing.assert_allclose(carried, runs[0][2], rtol=1e-9)
        np.testing.assert_array_equal(runs[2][1], runs[3][1])


def many_flows(rng: np.random.Generator) -> tuple[Network, Tasks]:
    """Two transfers of each of 500 pairs, one after the other, over 40 links."""
    link = np.array([np.sort(rng.choice(40, 3, replace=False)) for _ in range(500)], np.int32).ravel()
    network = Network(
        rng.uniform(1, 4, 40), np.arange(0, 1501, 3), link, np.ones(1500), rng.choice([0.0, 1e-3], 500)
    )
    return network, Tasks(np.tile(np.arange(500, dtype=np.int32), 2), rng.choice([1.0, 1.5, 9.0], 1000))


@needs_numba
def test_a_horizon_hides_no_end_from_an_event() -> None:
    """Compiled code looks at the flows alone that end before a horizon; plain code at all. Of 500 flows few
    end before one; rates change with every event, and once a link fails and returns."""
    rng = np.random.default_rng(5)
    for batch in (0.0, 1e-4, 1e-2):
        network, tasks = many_flows(rng)
        broken = Network(
            np.where(np.arange(40) == 7, 0.0, network.capacity_bps), network.start, network.link,
            network.use, network.delay_s,
        )  # fmt: skip
        outcomes = []
        for accelerated in (False, True):
            simulation = FlowSimulation(network, accelerated, batch=batch)
            job = simulation.add(tasks)
            for until_s, then in ((20.0, broken), (60.0, network)):
                simulation.advance(until_s)
                simulation.change(then)
            assert simulation.advance() == (job,)
            outcomes.append((simulation.end_s(job), simulation.carried_bits()))
            assert simulation.tally[COUNTED["tasks"]] == 1000
        for plain_values, compiled_values in zip(*outcomes, strict=True):
            np.testing.assert_allclose(plain_values, compiled_values, rtol=1e-9)


@pytest.mark.parametrize("accelerated", CODES)
def test_a_change_keeps_what_flows_have_left(accelerated: bool) -> None:
    """100 bits at 10 bit/s: 4 s, then 60 bits at 5, in all 16 s; none at rate 0 for 3 s."""
    simulation = FlowSimulation(line(10.0), accelerated)
    job = simulation.add(Tasks(np.array([0]), np.array([100.0])))
    assert simulation.advance(4.0) == ()
    assert simulation.now_s == 4.0
    assert simulation.carried_bits() == pytest.approx([40.0])
    simulation.change(line(0.0))
    assert simulation.standing().tolist() == [0]
    assert simulation.advance(7.0) == ()
    simulation.change(line(5.0))
    assert simulation.standing().tolist() == []
    assert simulation.advance() == (job,)
    assert simulation.end_s(job) == pytest.approx([19.0])
    assert simulation.carried_bits() == pytest.approx([100.0])


@pytest.mark.parametrize("accelerated", CODES)
def test_a_job_that_is_dropped_gives_its_links_back(accelerated: bool) -> None:
    """80 bits next to another flow at 10 bit/s: 2 s at half the rate, then 70 alone."""
    simulation = FlowSimulation(line(10.0, uses=((0,), (0,))), accelerated)
    kept = simulation.add(Tasks(np.array([0]), np.array([80.0])))
    dropped = simulation.add(Tasks(np.array([1, 1]), np.array([100.0, 1.0])))
    assert simulation.advance(2.0) == ()
    simulation.drop(dropped)
    assert simulation.rates_bps().tolist() == [10.0, 0.0]
    assert simulation.advance() == (kept,)
    assert simulation.now_s == pytest.approx(9.0)
    assert simulation.carried_bits() == pytest.approx([90.0])


def test_rates_stay_as_they_are_while_the_moment_does() -> None:
    rng, same, other = np.random.default_rng(5), 0, 0
    for _ in range(20):
        network = random_network(rng)
        simulation = FlowSimulation(network, accelerated=False)
        job, until_s = simulation.add(random_tasks(rng, network.n_pairs, repeated=True)), 0.0
        before = simulation.moment, simulation.rates_bps()
        step_s = ends(network, simulation._jobs[job].tasks, accelerated=False).max() / 200
        while not simulation.ended(job):
            simulation.advance(until_s := until_s + step_s)
            now = simulation.moment, simulation.rates_bps()
            if now[0] == before[0]:
                assert np.array_equal(now[1], before[1])
            same, other = same + (now[0] == before[0]), other + (now[0] != before[0])
            before = now
    assert same > 100 and other > 100


@pytest.mark.parametrize("accelerated", CODES)
def test_jobs_share_and_end_one_by_one(accelerated: bool) -> None:
    """Two pairs over one link of 10 bit/s: 40 bits alone until 2 s, then half the rate each."""
    simulation = FlowSimulation(line(10.0, uses=((0,), (0,))), accelerated)
    first = simulation.add(Tasks(np.array([0]), np.array([40.0])))
    second = simulation.add(Tasks(np.array([1]), np.array([100.0])), at_s=2.0)
    empty = simulation.add(Tasks(np.empty(0, np.int32), np.empty(0)))
    assert simulation.advance() == (empty,)
    assert simulation.advance() == (first,)
    assert simulation.now_s == pytest.approx(6.0)  # 20 bits, then 20 at half the rate
    assert np.isnan(simulation.end_s(second)).all()
    third = simulation.add(Tasks(np.array([0, -1]), np.array([10.0, 0]), np.array([0, 0.5])))
    assert simulation.advance() == (third,)
    assert simulation.end_s(third) == pytest.approx([8.0, 6.5])
    assert simulation.advance() == (second,)
    assert simulation.end_s(second) == pytest.approx([15.0])
    assert simulation.end_s(first) == pytest.approx([6.0])
    simulation.drop(first)


def test_pairs_without_links_or_capacity_stand() -> None:
    simulation = FlowSimulation(line(1.0, 0.0, uses=((), (1,), (0,))), False)
    simulation.add(Tasks(np.array([0, 1, 2]), np.array([5.0, 5.0, 5.0])))
    assert simulation.advance() == ()
    assert simulation.now_s == 5.0
    assert simulation.standing().tolist() == [0, 1]


def test_progress_is_reported_and_may_end_the_run() -> None:
    def stop(progress: SolverProgress) -> None:
        assert progress.done <= progress.total == 100_000
        raise KeyboardInterrupt

    simulation = FlowSimulation(line(1.0), False, progress=stop)
    simulation.add(Tasks(np.array([0]), np.array([1.0]), repeat=np.array([100_000])))
    with pytest.raises(KeyboardInterrupt):
        simulation.advance()


def test_bad_networks_and_what_cannot_start_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FabricError, match="capacity"):
        line(-1.0)
    simulation = FlowSimulation(line(1.0), False)
    circle = Tasks(np.array([-1, -1]), np.zeros(2), after_start=np.array([0, 1, 2]), after=np.array([1, 0]))
    simulation.add(circle)
    with pytest.raises(FabricError, match="2 tasks wait for each other"):
        simulation.advance()
    monkeypatch.setattr("railweave.framework.solver.simulation.find_spec", lambda name: None)
    with pytest.raises(MachineError, match=r"railweave\[fluid\]"):
        FlowSimulation(line(1.0), True)
