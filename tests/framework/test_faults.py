"""Which links a fault touches is checked against the links' names, which the fabric makes on its own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railweave.framework.errors import FaultError
from railweave.framework.faults import EXAMPLE, VERBS, Fault, find_link, parse, resolve
from railweave.framework.model import Fabric


def names(fabric: Fabric, text: str) -> set[str]:
    found = resolve(parse(text), fabric)
    assert list(found.links) == sorted(set(found.links.tolist()))
    return {fabric.link_name(int(link)) for link in found.links}


def test_the_default_fault_reads_as_the_manual_says() -> None:
    fault = parse(EXAMPLE)
    assert fault == Fault(EXAMPLE, None, 4, "degrade", "rail", "1", {"to": 0.2})


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
        ("iter:4 degrade rail:1 to=2%", "begin with when"),
        ("at=iter:x down rail:1", "whole number"),
        ("at=iter:-1 down rail:1", "whole number"),
        ("at=-2s down rail:1", "at= takes a time"),
        ("at=nan down rail:1", "at= takes a time"),
        ("at=1e999s down rail:1", "at= takes a time"),
        ("at=1s degrad rail:1 to=2%", "Did you mean degrade?"),
        ("at=1s down rail", "names no object"),
        ("at=1s down controller", "can only be killed"),
        ("at=1s kill controller:1", "one controller"),
        ("at=1s kill rail:1", "takes controller or switch"),
        ("at=1s degrade rail:1", "needs to="),
        ("at=1s degrade rail:1 to=0", "too small"),
        ("at=1s degrade rail:1 to=120%", "not a share"),
        ("at=1s degrade rail:1 rate=5%", "it takes: to="),
        ("at=1s loss rail:1 rate=5% rate=6%", "twice"),
        ("at=1s down rail:1 to=20%", "it takes: none"),
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
        ("at=1s down spine:0", "it has: gpu, domain, rail, link, switch"),
        ("at=1s down rial:0", "Did you mean rail?"),
        ("at=1s down ocs:X:0,0", "no optical circuit switches"),
        ("at=1s down link:g0.0->r1", "its links are g0.0->d0, g0.0->r0"),
        ("at=1s down link:g9.0->r1", "no node 'g9.0'"),
        ("at=1s down link:g0.0", "FROM->TO"),
        ("at=1s down link:g0.0->r0#1", "one link joins them; write g0.0->r0."),
        ("at=1s kill switch:r9", "no switch 'r9'"),
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
