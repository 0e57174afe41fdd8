"""Ports and spares while faults are resolved. Counts are those of Zu et al., NSDI'24: a cube has 6 faces of
16 optical links, 96 in all, two at each of 48 OCSes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import railweave as rw
from railweave.framework.errors import ExperimentError, FaultError
from railweave.framework.experiment.circuit_board import CircuitBoard
from railweave.framework.experiment.faults import parse, resolve
from railweave.framework.model import Fabric

LARGE, WRAP = "4x4x8", "g3.0.0->g0.0.0"


def torus(**keys: Any) -> Fabric:
    return rw.topology("torus", **{"shape": LARGE, "spare_cubes": 2, "spare_ports": 3, **keys})


def rails(**keys: Any) -> Fabric:
    return rw.topology("rail-only", **{"domains": 3, "rails": 4, **keys})


def why(fabric: Fabric, *faults: str) -> str:
    """The refusal of the last of these faults."""
    board = CircuitBoard(fabric)
    for text in faults[:-1]:
        resolve(parse(f"at=0s {text}"), fabric, board=board)
    with pytest.raises(FaultError) as refused:
        resolve(parse(f"at=0s {faults[-1]}"), fabric, board=board)
    return str(refused.value)


def test_a_cube_has_two_ports_at_every_switch() -> None:
    """4 x 4 x 8 has two cubes, so an OCS of X has two circuits, from each to itself, one of Z two between."""
    fabric, ports = torus(), dict[str, list[int]]()
    board = CircuitBoard(fabric)
    for link in np.flatnonzero(fabric.ocs >= 0).tolist():
        switch, port = board.port(link)
        ports.setdefault(switch, []).append(port)
    assert len(ports) == 48 and all(sorted(taken) == [0, 1, 2, 3] for taken in ports.values())


@pytest.mark.parametrize("shape, circuits", [("4x4x4", 48), ("4x4x8", 64), ("4x8x8", 80), ("8x8x8", 96)])
def test_a_cube_is_replaced_with_all_its_circuits(shape: str, circuits: int) -> None:
    """96 ends; along an axis of one cube both ends of a circuit are its own: 16 circuits less for each."""
    fabric = torus(shape=shape)
    made = CircuitBoard(fabric).replace("cube", "0.0.0")
    assert (len(made.dark) // 2, made.switches) == (circuits, 48)
    inside = 3 * 4 * 4 * 3  # cables along each axis: 3 in each of 16 rows
    assert len(made.links) // 2 == circuits + inside
    assert made.summary == "spare cube 0 in the place of cube:0.0.0" and made.connect_s == 25e-6


def test_the_ports_of_a_spare_are_its_own() -> None:
    """Ports 0 to 3 are in use; the two spare cubes have 4 and 5, 6 and 7; 8 to 10 are free."""
    fabric = torus()
    board, wrap = CircuitBoard(fabric), fabric.node_ids["g3.0.0"]
    (link,) = (n for n in fabric.out_links(wrap).tolist() if fabric.link_name(n) == WRAP)
    first = board.port(link), board.port(link ^ 1)
    assert board.replace("cube", "0.0.1").summary.startswith("spare cube 0 ")
    assert (board.port(link), board.port(link ^ 1)) == first  # of the other cube
    assert board.replace("cube", "0.0.0").summary.startswith("spare cube 1 ")
    assert {board.port(link), board.port(link ^ 1)} == {("X:0,0", 6), ("X:0,0", 7)}
    assert board.reconnect(link, None).summary == f"{WRAP} at port 8 of ocs X:0,0"
    assert board.port(link) == ("X:0,0", 8)


def test_a_spare_gpu_serves_its_domain() -> None:
    fabric = rails(spares=1)
    made = CircuitBoard(fabric).replace("gpu", "1.2")
    assert [fabric.link_name(n) for n in made.dark.tolist()] == ["g1.2->r2", "r2->g1.2"]
    assert {fabric.link_name(n) for n in made.links.tolist()} == {
        "g1.2->d1", "d1->g1.2", "g1.2->r2", "r2->g1.2"
    }  # fmt: skip
    assert "no spare is left for gpu:1.3: 1 can take its place, and earlier faults use 1" in why(
        fabric, "replace gpu:0.0", "replace gpu:1.2", "replace gpu:1.3"
    )


def test_a_spare_domain_moves_as_a_whole() -> None:
    """Its GPUs are behind an OCS of their own, which has spare ports too."""
    fabric = rails(spare_domains=1, spare_ports=2)
    board = CircuitBoard(fabric)
    made = board.replace("domain", "2")
    assert (len(made.dark), made.switches, len(made.links)) == (2 * 4, 1, 2 * 8)
    link = fabric.out_links(fabric.node_ids["g2.3"])[1]
    assert board.port(int(link)) == ("o2 of spare domain 0", 6)
    assert board.reconnect(int(link), 9).summary.endswith("at port 9 of ocs o2 of spare domain 0")


@pytest.mark.parametrize(
    "faults, words",
    [
        (["replace cube:0.0.0", "replace cube:0.0.1", "replace cube:0.0.0"],
         ["no spare is left for cube:0.0.0", "earlier faults use 2", "topology.spare_cubes"]),
        (["replace cube:0.0.2"], ["there is no cube:0.0.2", "cube:0..0.0..0.0..1"]),
        (["replace cube:0"], ["there is no cube:0;"]),
        (["replace gpu:0.0.0"], ["replace takes cube:0.0.0, not 'gpu'"]),
        (["reconnect ocs:X:0,0"], ["reconnect takes link:FROM->TO"]),
        (["reconnect link:g0.0.0->g1.0.0"], ["passes no OCS", "link:g3.0.0->g0.0.0"]),
        ([f"reconnect link:{WRAP} port=1"], ["port 1 of ocs X:0,0", "connected to itself", "8, 9, 10"]),
        ([f"reconnect link:{WRAP} port=0"], ["is at port 0 of ocs X:0,0 already"]),
        ([f"reconnect link:{WRAP} port=2"], ["carries g3.0.4->g0.0.4", "connected twice", "8, 9, 10"]),
        ([f"reconnect link:{WRAP} port=8", "reconnect link:g3.0.4->g0.0.4 port=8"],
         [f"port 8 of ocs X:0,0 carries {WRAP}", "connected twice", "9, 10"]),
        ([f"reconnect link:{WRAP} port=5"], ["that of a spare"]),
        ([f"reconnect link:{WRAP} port=11"], ["has no port 11, its ports are 0 to 10"]),
        ([f"reconnect link:{WRAP}"] * 4, ["no free port", "topology.spare_ports"]),
    ],
)  # fmt: skip
def test_what_cannot_be_connected_is_refused_with_the_fix(faults: list[str], words: list[str]) -> None:
    message = why(torus(), *faults)
    assert faults[-1] in message and all(word in message for word in words), message


@pytest.mark.parametrize("fabric", [rails(), rw.topology("torus", shape="3x3")])
def test_fabrics_without_circuits_say_which_have_some(fabric: Fabric) -> None:
    with pytest.raises(FaultError, match="no optical circuit switches that can be set"):
        resolve(parse("at=0s replace gpu:0.0"), fabric)


def test_spare_cubes_need_cubes() -> None:
    with pytest.raises(ExperimentError, match="4x4 with 1 spare cubes: it is not made of cubes"):
        rw.topology("torus", shape="4x4", spare_cubes=1)


def test_a_run_lists_every_fault_that_has_no_spare() -> None:
    """Before anything starts, each by its own key."""
    faults = [f"at=iter:{i} replace gpu:0.{i}" for i in (1, 2, 3)]
    with pytest.raises(ExperimentError) as refused:
        rw.run(engine="fluid", domains=2, rails=4, spares=1, faults=faults)
    assert "gpu:0.1" not in str(refused.value)
    assert "gpu:0.2" in str(refused.value) and "gpu:0.3" in str(refused.value)


def test_units_are_objects_of_other_faults() -> None:
    fabric = torus()
    fault = resolve(parse("at=0s down cube:0.0.1"), fabric)
    assert np.array_equal(fault.links, CircuitBoard(fabric).replace("cube", "0.0.1").links)


@pytest.mark.parametrize("form", ["railweave", "graphml"])
def test_files_keep_what_circuits_can_do(form: str, tmp_path: Any) -> None:
    fabric, path = rails(spares=1, spare_domains=2), tmp_path / "fabric"
    from railweave.framework.fabric_files.loading import load
    from railweave.framework.fabric_files.writing import text_of

    path.write_text(text_of(fabric, form)[0])
    assert load(path).fabric.circuits == fabric.circuits


def test_a_file_with_broken_circuits_is_refused(tmp_path: Any) -> None:
    from railweave.framework.fabric_files.loading import load
    from railweave.framework.fabric_files.writing import text_of

    path = tmp_path / "fabric"
    path.write_text(text_of(torus(shape="4x4x4"))[0].replace('"spare_ports": 3, ', ""))
    with pytest.raises(ExperimentError, match=r"circuits: .*spare_ports"):
        load(path)
