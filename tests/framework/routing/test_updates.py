"""Every packet at every moment of an update takes its old or its new path whole (Reitblatt et al., 2012)."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.model import EntropyTable, Fabric, RouteTable, Rule, RuleUpdate
from railweave.framework.model.addressing import ipv4
from railweave.framework.model.arrays import Int64
from railweave.framework.routing import updates
from railweave.framework.routing.batches import all_paths, same_paths, table_from_batch
from railweave.framework.routing.updates import BLOAT, Installed, counted, migrate
from tests.fakes.fake_switch import FakeFabric, Packet, Trip, compile_rules
from tests.fakes.random_routes import FABRICS, random_table
from tests.fakes.small_fabrics import rail_only, rail_path, table_of

Pair = tuple[int, int]


def initial(fabric: Fabric, table: RouteTable) -> tuple[Installed, tuple[Rule, ...], EntropyTable]:
    """The first state for every pair, its rules and what senders need."""
    state, entropies = updates.initial(fabric, all_paths(table), table.version)
    return state, state.rules, entropies


def plan(
    fabric: Fabric, state: Installed, table: RouteTable
) -> tuple[Installed, RuleUpdate, EntropyTable, Int64]:
    """As `updates.plan` for every pair, and (M, 2) the pairs that differ."""
    batch = all_paths(table)
    changed = ~same_paths(state.batch, batch)
    pairs = np.stack((batch.src, batch.dst), axis=1)[changed]
    return *updates.plan(fabric, state, batch, changed, table.version), pairs


@dataclass
class Side:
    """What a state promises: which links each (pair, udp_src) takes, and the tag it has on the way."""

    ways: dict[Pair, dict[int, tuple[int, ...]]]
    tags: dict[Pair, int]


def side(installed: Installed, entropies: EntropyTable) -> Side:
    batch = installed.batch
    ways: dict[Pair, dict[int, tuple[int, ...]]] = {}
    tags: dict[Pair, int] = {}
    for i, pair in enumerate(zip(batch.src.tolist(), batch.dst.tolist(), strict=True)):
        ports = {0xC000 + int(c) for c in installed.classes[batch.pair_start[i] : batch.pair_start[i + 1]]}
        assert ports == set(entropies.udp_src[entropies.start[i] : entropies.start[i + 1]].tolist())
        ways[pair] = {
            0xC000 + int(installed.classes[batch.pair_start[i] + k]): path.links
            for k, path in enumerate(batch.paths(i))
        }
        tags[pair] = int(installed.tag[i])
    return Side(ways, tags)


def assert_old_or_new(fake: FakeFabric, old: Side, new: Side, *, switched: bool) -> None:
    """Packets with an old entropy (and, once all is switched,
    with a new one) take a whole old or new path."""
    for (src, dst), before in old.ways.items():
        after = new.ways[src, dst]
        for udp_src in sorted(before.keys() | (after.keys() if switched else set())):
            trip = fake.send(src, dst, udp_src)
            late = after.get(udp_src, after.get(0xC000))
            allowed = {late} if switched else {before[udp_src], late}
            if trip.delivered is None:
                assert None in allowed, f"{src}->{dst}:{udp_src} lost after {trip.links}"
                assert trip.links == ()
            else:
                assert trip.delivered == dst
                assert trip.links in allowed
        if before == after:
            for udp_src in before:
                assert fake.send(src, dst, udp_src) == Trip(before[udp_src], dst)


def assert_under_way_arrives(fake: FakeFabric, old: Side) -> None:
    """A packet that passed its ingress before the update still follows its old path from any hop on."""
    fabric = fake.fabric
    for (src, dst), ways in old.ways.items():
        for udp_src, links in ways.items():
            packet = Packet(ipv4(fabric, src), ipv4(fabric, dst), old.tags[src, dst], udp_src)
            for hop, link in enumerate(links):
                trip = fake.carry(int(fabric.link_dst[link]), int(fabric.link_port[link ^ 1]), packet)
                assert trip == Trip(links[hop + 1 :], dst)


def prefixes(rules: Sequence[Rule], rng: random.Random) -> Iterator[tuple[list[Rule], bool]]:
    """The rules one by one in an order that keeps each switch's own; a few points are worth a look."""
    queues: dict[int, list[Rule]] = {}
    for rule in rules:
        queues.setdefault(rule.switch, []).append(rule)
    order = [rule.switch for rule in rules]
    rng.shuffle(order)
    look = set(rng.sample(range(len(order)), min(len(order), 5)))
    for i, switch in enumerate(order):
        yield [queues[switch].pop(0)], i in look


def walk(fake: FakeFabric, update: RuleUpdate, old: Side, new: Side, rng: random.Random) -> None:
    """Carry out an update step by step and look at the packets at points of every phase."""
    for step, look in prefixes(update.install, rng):
        fake.add(step)
        if look:
            assert_old_or_new(fake, old, old, switched=True)
    for step, look in prefixes(update.switch_over, rng):
        fake.add(step)
        if look:
            assert_old_or_new(fake, old, new, switched=False)
    assert_old_or_new(fake, old, new, switched=True)
    assert_under_way_arrives(fake, old)
    contents = fake.contents()
    fake.add(update.install)
    fake.add(update.switch_over)
    assert fake.contents() == contents, "applied twice, the rules change nothing"
    for step, look in prefixes(update.remove, rng):
        fake.remove(step)
        if look:
            assert_old_or_new(fake, new, new, switched=True)
    assert_old_or_new(fake, new, new, switched=True)
    assert_under_way_arrives(fake, new)


@settings(max_examples=25)
@given(
    st.sampled_from(sorted(FABRICS)),
    st.integers(0, 2**32),
    st.lists(st.sampled_from([0.05, 0.2, 1.0]), min_size=1, max_size=4),
    st.sampled_from([0.0, 0.4]),
)
def test_every_packet_takes_one_version_of_its_path(
    kind: str, seed: int, changes: list[float], several: float
) -> None:
    fabric, rng = FABRICS[kind](), random.Random(seed)
    table = random_table(fabric, rng, several=several)
    state, rules, entropies = initial(fabric, table)
    fake = FakeFabric(fabric, rules)
    now = side(state, entropies)
    assert_old_or_new(fake, now, now, switched=True)
    for version, change in enumerate(changes, 1):
        new_table = random_table(fabric, rng, old=table, change=change, several=several, version=version)
        after, update, entropies, pairs = plan(fabric, state, new_table)
        new = side(after, entropies)
        assert {tuple(p) for p in pairs.tolist()} == {
            pair for pair in now.ways if table.path(*pair) != new_table.path(*pair)
        }
        assert {tuple(p) for p in after.unreachable.tolist()} == {
            p for p, ways in new.ways.items() if not ways
        }
        walk(fake, update, now, new, rng)
        assert fake.contents() == set(after.rules)
        assert after.rules == tuple(dict.fromkeys(after.rules))
        assert update.version == after.version == entropies.version == version
        table, now = new_table, new
        state = counted(fabric, after) if rng.random() < 0.5 else after


@settings(max_examples=6)
@given(st.sampled_from(sorted(FABRICS)), st.integers(0, 2**32))
def test_a_nic_that_runs_out_of_priorities_is_written_anew_further_down(kind: str, seed: int) -> None:
    """With the limit just above the first rules, soon every update takes the detour over the copies."""
    fabric, rng = FABRICS[kind](), random.Random(seed)
    table = random_table(fabric, rng)
    state, rules, _ = initial(fabric, table)
    fake = FakeFabric(fabric, rules)
    detours = 0
    for version in range(1, 7):
        table = random_table(fabric, rng, old=table, change=0.5, version=version)
        batch = all_paths(table)
        moved = ~same_paths(state.batch, batch)
        now = side(state, updates.entropy_table(fabric, 0, state.batch, state.classes))
        after, update = migrate(fabric, state, batch, moved, version, version, priority_limit=20003)
        new = side(after, updates.entropy_table(fabric, 0, batch, after.classes))
        # Removal counts on its order here: from the old rules to the copies, lowest first.
        walk(fake, update, now, new, rng)
        assert fake.contents() == set(after.rules)
        assert max(rule.priority for rule in after.rules) < 20030
        detours += bool(set(update.switch_over) & set(update.remove))
        state = after
    assert detours


def test_the_first_rules_are_those_of_a_compile() -> None:
    fabric = rail_only(3, 3)
    table = table_of(fabric, lambda src, dst: [rail_path(fabric, src, dst)])
    _, rules, entropies = initial(fabric, table)
    assert list(rules) == compile_rules(fabric, table)
    assert len(entropies.udp_src) == 72


def test_unchanged_pairs_and_their_rules_are_left_alone() -> None:
    """One pair of 4x4 moves from dr to rd. By hand: three switches behind the first carry it (rail 0, g1.0,
    domain 1, then g1.1: four), each by one rule, and one ingress rule switches it over."""
    fabric = rail_only(4, 4)

    def table(version: int) -> RouteTable:
        return table_of(
            fabric,
            lambda src, dst: [
                rail_path(fabric, src, dst, "rd" if version and (src, dst) == (0, 5) else "dr")
            ],
            version=version,
        )

    state, rules, _ = initial(fabric, table(0))
    after, update, _, pairs = plan(fabric, state, table(1))
    assert pairs.tolist() == [[0, 5]]
    assert len(update.install) == 4
    assert len(update.switch_over) == 1
    assert update.remove == ()
    assert set(rules) <= set(after.rules)
    assert (after.tag == 1).sum() == 1


def test_the_old_table_comes_back() -> None:
    """There and back again: the same paths, and with a rest in between never more than BLOAT times the rules
    of a compile before a change."""
    fabric = rail_only(4, 4)
    ways = [
        table_of(fabric, lambda src, dst, by=by: [rail_path(fabric, src, dst, by)], version=i)
        for i, by in enumerate(["dr", "rd", 2, "dr"])
    ]
    state, _, first = initial(fabric, ways[0])
    counts = [len(compile_rules(fabric, table)) for table in ways]
    for i, table in enumerate(ways[1:], 1):
        state, _, last, _ = plan(fabric, state, table)
        state = counted(fabric, state)
        assert state.fresh in counts[: i + 1]
        assert state.bloated == (len(state.rules) > BLOAT * state.fresh)
    assert state.batch == all_paths(ways[0])
    assert np.array_equal(last.udp_src, first.udp_src)


def test_no_change_takes_no_tag_and_no_rule() -> None:
    fabric = rail_only(2, 2)
    table = table_of(fabric, lambda src, dst: [rail_path(fabric, src, dst)])
    state, rules, _ = initial(fabric, table)
    again = table_of(fabric, lambda src, dst: [rail_path(fabric, src, dst)], version=7)
    after, update, entropies, pairs = plan(fabric, state, again)
    assert (after.version, update.version, entropies.version) == (7, 7, 7)
    assert (update.install, update.switch_over, update.remove) == ((), (), ())
    assert (len(pairs), after.rules, after.last_tag) == (0, rules, 0)


def test_tags_go_round_and_the_next_ones_are_always_free() -> None:
    """200 reroutes, of one pair but for two: tags 1..62 in turn, never 63; the next eight are used by no
    pair, so that the pair that rests is moved along when its tag's turn comes."""
    fabric = rail_only(2, 2)
    by: dict[Pair, str] = {}

    def table(version: int) -> RouteTable:
        return table_of(
            fabric, lambda src, dst: [rail_path(fabric, src, dst, by.get((src, dst), "dr"))], version=version
        )

    state, rules, _ = initial(fabric, table(0))
    fake = FakeFabric(fabric, rules)
    for version in range(1, 201):
        pair = (2, 1) if version in (5, 150) else (0, 3)
        by[pair] = "rd" if by.get(pair) != "rd" else "dr"
        new = table(version)
        state, update, _, _ = plan(fabric, state, new)
        assert state.last_tag == (version - 1) % 62 + 1
        assert not {(state.last_tag + i - 1) % 62 + 1 for i in range(1, 9)} & set(state.tag.tolist())
        fake.add(update.install)
        fake.add(update.switch_over)
        fake.remove(update.remove)
        for src, dst in ((0, 3), (2, 1), (1, 2)):
            assert fake.send(src, dst) == Trip(new.path(src, dst)[0].links, dst)
        assert len(state.rules) <= 2 * len(rules)


def test_what_many_changes_left_goes_with_the_next_one_after_a_rest() -> None:
    """Pairs that change alone have rules of their own, until there are BLOAT times those that a compile of
    all pairs would give; how many that would be is only found out when there is time."""
    fabric, rng = rail_only(4, 4), random.Random(3)
    pairs = [(s, d) for s in range(16) for d in range(16) if s % 4 != d % 4 and s // 4 != d // 4]
    by: dict[Pair, str] = {}

    def table(version: int) -> RouteTable:
        return table_of(
            fabric, lambda src, dst: [rail_path(fabric, src, dst, by.get((src, dst), "dr"))], version=version
        )

    state, _, _ = initial(fabric, table(0))
    assert counted(fabric, state) is state
    version = 0
    while not state.bloated:
        version += 1
        by.update((pair, "rd") for pair in rng.sample(pairs, 3))
        state = counted(fabric, plan(fabric, state, table(version))[0])
        assert version < 100, len(state.rules)
    needed = len(compile_rules(fabric, table(version)))
    assert state.fresh == needed and len(state.rules) > BLOAT * needed
    assert counted(fabric, state) is state  # counts once
    by[pairs[0]] = "rd" if by.get(pairs[0]) != "rd" else "dr"
    last, _, _, changed = plan(fabric, state, table(version + 1))
    assert len(changed) == 1 and not last.bloated
    assert len(last.rules) == last.fresh <= BLOAT * len(compile_rules(fabric, table(version + 1)))


def test_a_pair_that_is_cut_off_is_dropped_where_it_enters_and_comes_back() -> None:
    fabric = rail_only(2, 2)
    whole = table_of(fabric, lambda src, dst: [rail_path(fabric, src, dst)])
    without = table_of(
        fabric, lambda src, dst: [] if (src, dst) == (0, 3) else [rail_path(fabric, src, dst)], version=1
    )
    state, rules, _ = initial(fabric, whole)
    fake = FakeFabric(fabric, rules)
    for table, way in (
        (without, Trip((), None)),
        (replace(whole, version=2), Trip(whole.path(0, 3)[0].links, 3)),
    ):
        state, update, entropies, pairs = plan(fabric, state, table)
        fake.add(update.install)
        fake.add(update.switch_over)
        fake.remove(update.remove)
        assert pairs.tolist() == [[0, 3]]
        assert state.unreachable.tolist() == ([[0, 3]] if way.delivered is None else [])
        assert fake.send(0, 3) == way
        assert entropies.start[3] - entropies.start[2] == (way.delivered is not None)


@pytest.mark.parametrize("late", [1, 8])
def test_updates_may_be_retired_late(late: int) -> None:
    """Rules of up to eight updates may linger: nothing overlaps, and packets take the newest paths."""
    fabric = FABRICS["rail-only 3x3"]()
    rng = random.Random(late)
    table = random_table(fabric, rng)
    state, rules, _ = initial(fabric, table)
    fake = FakeFabric(fabric, rules)
    waiting: list[RuleUpdate] = []
    for version in range(1, 30):
        table = random_table(fabric, rng, old=table, change=0.1, cut=0.0, version=version)
        state, update, entropies, _ = plan(fabric, state, table)
        fake.add(update.install)
        fake.add(update.switch_over)
        waiting.append(update)
        if len(waiting) > late:
            fake.remove(waiting.pop(0).remove)
        now = side(state, entropies)
        assert_old_or_new(fake, now, now, switched=True)
    for update in waiting:
        fake.remove(update.remove)
    assert fake.contents() == set(state.rules)


def test_equal_arguments_give_equal_plans() -> None:
    fabric = FABRICS["torus 3x3"]()
    tables = [random_table(fabric, random.Random(seed), version=seed) for seed in (0, 1)]
    copies = [table_from_batch("copy", t.version, t.n_gpus, all_paths(t)) for t in tables]
    for a, b in zip(
        plan(fabric, initial(fabric, tables[0])[0], tables[1]),
        plan(fabric, initial(fabric, copies[0])[0], copies[1]),
        strict=True,
    ):
        assert np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b
