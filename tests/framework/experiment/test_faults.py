"""Which links a fault touches is checked against the links' names, which the fabric makes on its own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railweave.framework.errors import ExperimentError, FaultError
from railweave.framework.experiment.fault_targets import find_link
from railweave.framework.experiment.faults import EXAMPLE, VERBS, Fault, parse, resolve, steps
from railweave.framework.experiment.plan import from_document, load_plan
from railweave.framework.model import Fabric
from railweave.framework.registry import Registers


def names(fabric: Fabric, text: str) -> set[str]:
    found = resolve(parse(text), fabric)
    assert list(found.links) == sorted(set(found.links.tolist()))
    return {fabric.link_name(int(link)) for link in found.links}


def test_the_default_fault_reads_as_the_manual_says() -> None:
    fault = parse(EXAMPLE)
    assert fault == Fault(EXAMPLE, None, 4, "degrade", "rail", "1", {"to": 0.2, "way": "both"})


@pytest.mark.parametrize(("when", "seconds"), [("2.5s", 2.5), ("300ms", 0.3), ("0", 0.0), ("1min", 60.0)])
def test_times_take_units(when: str, seconds: float) -> None:
    fault = parse(f"at={when} down rail:0")
    assert (fault.at_s, fault.at_iteration) == (seconds, None)


@given(st.integers(0, 10**6), st.integers(1, 100), st.integers(0, 99))
def test_every_well_formed_fault_reads_back(iteration: int, share: int, rail: int) -> None:
    fault = parse(f"at=iter:{iteration}   degrade rail:{rail}  to={share}%")
    assert fault.at_iteration == iteration
    assert fault.options["to"] == pytest.approx(share / 100)
    assert parse(fault.text) == fault


@pytest.mark.parametrize("kind", ["rail", "domain"])
@pytest.mark.parametrize("which", range(4))
def test_a_rail_or_domain_is_all_links_of_its_switch_both_ways(fabric: Fabric, kind: str, which: int) -> None:
    switch = f"{kind[0]}{which}"
    expected = {n for link in range(64) if switch in (n := fabric.link_name(link)).split("->")}
    assert len(expected) == 8
    assert names(fabric, f"at=0s down {kind}:{which}") == expected


def test_a_gpu_is_its_links_both_ways(fabric: Fabric) -> None:
    assert names(fabric, "at=0s down gpu:1.2") == {"g1.2->d1", "d1->g1.2", "g1.2->r2", "r2->g1.2"}


def test_a_link_is_one_direction(fabric: Fabric) -> None:
    assert names(fabric, "at=0s loss link:g0.0->r0 rate=1%") == {"g0.0->r0"}
    assert names(fabric, "at=0s loss link:r0->g0.0 rate=1%") == {"r0->g0.0"}


def test_a_switch_by_name_is_its_links_or_its_process(fabric: Fabric) -> None:
    assert names(fabric, "at=0s down switch:r1") == names(fabric, "at=0s down rail:1")
    killed = resolve(parse("at=0s kill switch:r1"), fabric)
    assert (killed.process, killed.node, killed.links.size) == ("switch", fabric.node_ids["r1"], 0)


def test_the_controller_is_a_process(fabric: Fabric) -> None:
    killed = resolve(parse("at=1s kill controller"), fabric)
    assert (killed.process, killed.node, killed.links.size) == ("controller", -1, 0)


def test_a_nic_is_the_cable_onto_the_rail(fabric: Fabric, registers: Registers) -> None:
    assert names(fabric, "at=0s down nic:1.2") == {"g1.2->r2", "r2->g1.2"}
    optimised = registers["topology"]["rail-optimised"].build({"domains": 2, "rails": 2})
    assert names(optimised, "at=0s down nic:0.1") == {"g0.1->r1", "r1->g0.1"}


def test_where_there_are_no_rails_there_is_no_nic(loop: Fabric) -> None:
    with pytest.raises(
        FaultError, match=r"a loop fabric has no nic; it has: gpu, link, switch, ocs.*write gpu:1"
    ):
        resolve(parse("at=1s down nic:1"), loop)


WAYS = [
    ("gpu:1.2", {"g1.2->d1", "g1.2->r2"}, {"d1->g1.2", "r2->g1.2"}),
    ("nic:1.2", {"g1.2->r2"}, {"r2->g1.2"}),
    ("rail:1", {f"r1->g{d}.1" for d in range(4)}, {f"g{d}.1->r1" for d in range(4)}),
    ("domain:3", {f"d3->g3.{r}" for r in range(4)}, {f"g3.{r}->d3" for r in range(4)}),
    ("switch:g0.0", {"g0.0->d0", "g0.0->r0"}, {"d0->g0.0", "r0->g0.0"}),
]


@pytest.mark.parametrize("fault", ["degrade {} to=20%", "loss {} rate=1%"])
@pytest.mark.parametrize(("target", "out", "back"), WAYS)
def test_out_leaves_the_object_and_in_reaches_it(
    fabric: Fabric, fault: str, target: str, out: set[str], back: set[str]
) -> None:
    text = f"at=0s {fault.format(target)}"
    assert names(fabric, f"{text} way=out") == out
    assert names(fabric, f"{text} way=in") == back
    assert names(fabric, f"{text} way=both") == names(fabric, text) == out | back


def test_the_spines_of_a_rail_optimised_fabric_have_two_ways(registers: Registers) -> None:
    built = registers["topology"]["rail-optimised"].build({"domains": 2, "rails": 2})
    spine = next(g for g in built.groups if g.kind == "spine").name(built.n_nodes - 1)
    target = f"spine:{spine[1:]}"
    assert names(built, f"at=0s degrade {target} to=20% way=out") == {f"{spine}->r0", f"{spine}->r1"}


def test_a_flap_is_downs_and_ups_half_a_period_apart() -> None:
    made = steps(parse("at=iter:2 flap rail:1 period=600ms times=2"))
    assert [step.text for step in made] == [
        "at=iter:2 down rail:1",
        "at=iter:2+0.3s up rail:1",
        "at=iter:2+0.6s down rail:1",
        "at=iter:2+0.9s up rail:1",
    ]
    assert [(step.at_iteration, step.after_s) for step in made] == [(2, 0.0), (2, 0.3), (2, 0.6), (2, 0.9)]
    by_the_clock = steps(parse("at=1.5s flap link:g0.0->r0"))  # the defaults: 1 s, three times
    assert [(step.verb, step.at_s) for step in by_the_clock] == [
        ("down", 1.5), ("up", 2.0), ("down", 2.5), ("up", 3.0), ("down", 3.5), ("up", 4.0),
    ]  # fmt: skip
    assert {step.target for step in by_the_clock} == {"link:g0.0->r0"}


@given(st.integers(1, 100), st.floats(0.1, 3600), st.one_of(st.none(), st.integers(0, 99)), st.floats(0, 100))
def test_a_flap_of_any_length_ends_up(times: int, period: float, iteration: int | None, later: float) -> None:
    when = f"{later}s" if iteration is None else f"iter:{iteration}+{later}s"
    made = steps(parse(f"at={when} flap rail:1 period={period}s times={times}"))
    assert [step.verb for step in made] == ["down", "up"] * times
    times_s = [step.after_s if step.at_s is None else step.at_s for step in made]
    assert times_s == pytest.approx([later + i * period / 2 for i in range(2 * times)])
    assert all(steps(step) == (step,) for step in made)


def test_a_switch_killed_for_a_while_is_a_kill_and_a_start() -> None:
    kill, start = steps(parse("at=iter:1+200ms kill switch:r1 back=500ms"))
    assert (kill.verb, kill.after_s, kill.options) == ("kill", 0.2, {"back": 0.5})
    assert (start.text, start.after_s) == ("at=iter:1+0.7s start switch:r1", 0.7)
    assert [step.text for step in steps(parse("at=2s kill switch:r1 back=1s"))][1] == "at=3s start switch:r1"
    assert [step.verb for step in steps(parse("at=2s kill switch:r1"))] == ["kill"]


def test_a_stored_experiment_has_the_same_faults_again(registers: Registers) -> None:
    texts = ["at=1s flap rail:1 times=2", "at=iter:2 kill switch:r0 back=500ms",
             "at=5s loss gpu:0.1 rate=1% way=out",
             "at=6s down rail:0", "at=7s up rail:0", "at=8s down rail:0"]  # fmt: skip
    plan = load_plan(None, {"faults": texts}, registers)
    assert [fault.verb for fault in plan.faults] == [
        "down", "up", "down", "up", "kill", "start", "loss", "down", "up", "down",
    ]  # fmt: skip
    assert from_document(plan.document(), registers).faults == plan.faults


def test_a_step_of_an_iteration_that_never_comes_is_refused(registers: Registers) -> None:
    with pytest.raises(ExperimentError, match="iteration 12 never comes"):
        load_plan(None, {"faults": ["at=iter:12+1s flap rail:1"]}, registers)


def test_an_ocs_is_every_link_over_it(loop: Fabric) -> None:
    found = resolve(parse("at=0s down ocs:X:0,1"), loop)
    assert np.array_equal(found.links, np.arange(8, 16))


def test_of_parallel_links_one_is_chosen_by_number(loop: Fabric) -> None:
    ids = [find_link(loop, f"n0->n1#{i}") for i in (0, 1)]
    assert [loop.link_name(i) for i in ids] == ["n0->n1#0", "n0->n1#1"]
    with pytest.raises(FaultError, match=r"2 parallel links.*n0->n1#0 or n0->n1#1"):
        find_link(loop, "n0->n1")


def test_every_link_is_found_by_its_name(fabric: Fabric, loop: Fabric) -> None:
    for any_fabric in (fabric, loop):
        assert [find_link(any_fabric, any_fabric.link_name(i)) for i in range(any_fabric.n_links)] == list(
            range(any_fabric.n_links)
        )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("degrade rail:1", "at=TIME"),
        ("iter:4 degrade rail:1 to=2%", "begin with when it fires"),
        ("at=iter:x down rail:1", "whole number"),
        ("at=iter:-1 down rail:1", "whole number"),
        ("at=-2s down rail:1", "at: '-2s' is too small; it takes a time"),
        ("at=nan down rail:1", "is not a time"),
        ("at=1e999s down rail:1", "is not a time"),
        ("at=1s degrad rail:1 to=2%", "Did you mean degrade?"),
        ("at=1s down rail", "names no object"),
        ("at=1s down controller", "can only be killed"),
        ("at=1s kill controller:1", "one controller"),
        ("at=1s kill rail:1", "takes controller or switch"),
        ("at=1s degrade rail:1", "needs to="),
        ("at=1s degrade rail:1 to=0", "too small"),
        ("at=1s degrade rail:1 to=120%", "not a share"),
        ("at=1s degrade rail:1 rate=5%", "it takes: to, way"),
        ("at=1s loss rail:1 rate=5% rate=6%", "twice"),
        ("at=1s down rail:1 to=20%", "it takes: none"),
        ("at=iter:1+ down rail:1", "the time behind the +: '' is not a time such as"),
        ("at=iter:1+-1s down rail:1", "behind the +: '-1s' is too small"),
        ("at=1s loss rail:1 rate=5% way=up", "one of out, in, both"),
        ("at=1s degrade rail:1 to=20% way=outt", "Did you mean out?"),
        ("at=1s loss link:g0.0->r0 rate=5% way=out", "one direction as it is. Leave way= out"),
        ("at=1s degrade ocs:X:0,0 to=20% way=in", "Name the links of one direction"),
        ("at=1s down rail:1 way=out", "it takes: none"),
        ("at=1s loss rail:1 rate=0", "too small"),
        ("at=1s reorder rail:1", "needs rate= (share of packets that overtake), such as rate=5%."),
        ("at=1s reorder rail:1 rate=2", "not a share"),
        ("at=1s reorder rail:1 rate=5% way=out", "it takes: rate"),
        ("at=1s duplicate rail:1", "needs rate= (share of packets sent twice), such as rate=1%."),
        ("at=1s duplicate rail:1 rate=-1%", "not a share"),
        ("at=1s reorder controller rate=1%", "can only be killed"),
        ("at=1s flap rail:1 times=0", "too small; it takes a whole number, 1 or more, 100 or less"),
        ("at=1s flap rail:1 times=many", "not a whole number"),
        ("at=1s flap rail:1 period=10ms", "too small; it takes a time"),
        ("at=1s flap rail:1 period=nan", "not a time"),
        ("at=1s flap rail:1 to=20%", "it takes: period, times"),
        ("at=1s flap switch", "names no object"),
        ("at=1s kill switch:r0 back=0", "too small; it takes a time"),
        ("at=1s kill switch:r0 back=soon", "not a time"),
        ("at=1s kill switch:r0 after=1s", "it takes: back"),
        ("at=1s kill controller back=1s", "started again at once. Leave back= out"),
        ("at=1s start controller", "start takes switch:NAME"),
        ("at=1s start rail:1", "start takes switch:NAME"),
    ],
)
def test_what_cannot_be_read_is_refused(text: str, words: str) -> None:
    with pytest.raises(FaultError) as caught:
        parse(text)
    assert words in str(caught.value)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("at=1s down rail:4", "rail:0..3"),
        ("at=1s down rail:x", "rail:0"),
        ("at=1s down rail:1.1", "such as rail:0"),
        ("at=1s down gpu:3", "gpu:0..3.0..3"),
        ("at=1s down spine:0", "it has: gpu, nic, domain, rail, link, switch"),
        ("at=1s down rial:0", "Did you mean rail?"),
        ("at=1s down ocs:X:0,0", "no optical circuit switches"),
        ("at=1s down link:g0.0->r1", "its links are g0.0->d0, g0.0->r0"),
        ("at=1s down link:g9.0->r1", "no node 'g9.0'"),
        ("at=1s down link:g0.0", "FROM->TO"),
        ("at=1s down link:g0.0->r0#1", "one link joins them; write g0.0->r0."),
        ("at=1s kill switch:r9", "no switch 'r9'"),
        ("at=1s down nic:4.0", "there is no nic:4.0; this fabric has nic:0..3.0..3"),
        ("at=1s down nic:1", "'nic:1' is not a nic; here they are nic:0..3.0..3, such as nic:0.0"),
        ("at=1s flap rail:9", "rail:0..3"),
        ("at=1s reorder raill:0 rate=5%", "Did you mean rail?"),
        ("at=1s duplicate link:g0.0 rate=5%", "FROM->TO"),
        ("at=1s start switch:r9", "no switch 'r9'"),
    ],
)
def test_what_is_not_in_the_fabric_is_refused(fabric: Fabric, text: str, words: str) -> None:
    with pytest.raises(FaultError) as caught:
        resolve(parse(text), fabric)
    assert words in str(caught.value)


def test_an_unknown_ocs_names_those_there_are(loop: Fabric) -> None:
    with pytest.raises(FaultError, match=r"there are X:0,0, X:0,1"):
        resolve(parse("at=1s down ocs:X:9,9"), loop)


def test_resolved_faults_compare_by_value(fabric: Fabric) -> None:
    fault = parse("at=1s down rail:1")
    assert resolve(fault, fabric) == resolve(fault, fabric)
    assert resolve(fault, fabric) != resolve(parse("at=1s down rail:2"), fabric)


@given(st.text(max_size=60))
def test_no_text_raises_anything_else(text: str) -> None:
    try:
        parse(text)
    except FaultError:
        return
    assert text.split()[1] in VERBS
