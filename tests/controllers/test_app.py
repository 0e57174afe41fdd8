"""The controller against real switches, with every library. ovs-ofctl reads what the switches hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

InLab = Callable[[str, str], dict[str, Any]]

pytestmark = [
    pytest.mark.lab,
    pytest.mark.untimed,
    pytest.mark.parametrize("library", ["ryu", "os-ken", "c65of"]),
]


def flow(last_byte: int, port: int) -> str:
    """How ovs-ofctl ends the line of lab_worker's `rule`."""
    return f"priority=100,ip,nw_dst=10.0.0.{last_byte} actions=output:{port}"


def without_cookies(flows: list[str]) -> list[str]:
    return sorted(found.split(", ", 1)[1] for found in flows)


def test_rules_of_every_kind_are_what_ovs_ofctl_would_install(in_lab: InLab, library: str) -> None:
    seen = in_lab("install", library)
    assert seen["by_controller"] == seen["by_ofctl"]
    assert [len(flows) for flows in seen["by_controller"]] == [4, 2]
    assert seen["told"]["rules"] == 6
    assert seen["told"]["missing"] == []
    assert seen["kinds"] == ["ready", "switch_up", "carriers", "switch_up", "carriers", "installed"]


def test_nothing_listens_but_the_inherited_socket(in_lab: InLab, library: str) -> None:
    seen = in_lab("install", library)
    assert seen["listening"] == [["0100007F:19FD", str(seen["inode"])]]  # 127.0.0.1:6653


def test_the_source_switches_over_only_after_every_switch_has_installed(in_lab: InLab, library: str) -> None:
    seen = in_lab("phases", library)
    assert without_cookies(seen["held_up"]) == [flow(1, 2), flow(2, 3), flow(9, 2)]
    assert seen["applied"]["version"] == 7
    assert seen["applied"]["rules"] == 3
    assert without_cookies(seen["after"]["entry"]) == [flow(1, 3), flow(2, 3), flow(9, 2)]
    assert without_cookies(seen["after"]["transit"]) == [flow(1, 4)]


def test_retiring_removes_what_was_left_and_spares_what_replaced_it(in_lab: InLab, library: str) -> None:
    seen = in_lab("phases", library)
    assert seen["retired"]["rules"] == 1
    assert without_cookies(seen["left"]) == [flow(1, 3), flow(2, 3)]


def test_a_switch_lost_in_an_update_holds_nobody_up_and_catches_up(in_lab: InLab, library: str) -> None:
    seen = in_lab("lost_switch", library)
    assert seen["kinds"][-2:] == ["switch_down", "applied"]
    assert without_cookies(seen["other"]) == [flow(1, 3)]
    assert without_cookies(seen["returned"]) == [flow(1, 2), flow(3, 4)]
    assert seen["told"]["missing"] == []


def test_a_train_arrives_whole(in_lab: InLab, library: str) -> None:
    seen = in_lab("train", library)  # which received 60 frames: more might not fit a default receive buffer
    assert len(seen["frames"]) == 1
    assert len(seen["frames"][0]) == 2 * 600
    assert len(seen["last"]) == 2 * 60


def test_a_port_that_goes_down_is_reported(in_lab: InLab, library: str) -> None:
    assert in_lab("train", library)["port"] == {"dpid": 1, "port": 1, "up": False}


def test_a_timed_train_comes_back_by_its_ends_alone(in_lab: InLab, library: str) -> None:
    seen = in_lab("reports", library)
    timed = seen["timed"]
    assert timed["number"] == 77
    assert seen["began"] <= timed["sent_s"] <= timed["first_s"] <= seen["ended"]
    # ends that were read late share a time, but for what passes between the readings of two clocks
    assert timed["first_s"] - 1e-5 <= timed["last_s"] <= seen["ended"]
    assert without_cookies(seen["flows"]) == ["priority=100,ip,nw_dst=192.0.2.3 actions=CONTROLLER:64"]


def test_a_poll_tells_what_every_port_counted(in_lab: InLab, library: str) -> None:
    before, after = in_lab("reports", library)["rounds"]
    assert [before["number"], after["number"]] == [1, 2]
    grown = {}
    for old, new in zip(sorted(before["rows"]), sorted(after["rows"]), strict=True):
        assert old[:2] == new[:2]
        assert new[5] >= old[5]
        grown[tuple(new[:2])] = [b - a for a, b in zip(old[2:5], new[2:5], strict=True)]
    assert grown[1, 3] == [0, 20 * 4000, 20]  # received bytes, sent bytes, sent packets
    assert grown[2, 5] == [20 * 4000, 0, 0]


def test_a_refused_rule_is_named_and_the_next_set_installs(in_lab: InLab, library: str) -> None:
    seen = in_lab("refused", library)
    assert seen["why"]["dpid"] == 1
    assert "OFPBAC_BAD_OUT_PORT" in seen["why"]["why"]
    assert "nw_dst=10.0.0.1/255.255.255.255,actions=output:4294967056" in seen["why"]["why"]
    assert without_cookies(seen["flows"]) == [flow(1, 2)]


def test_a_large_intent_neither_blocks_the_caller_nor_starves_the_switch(in_lab: InLab, library: str) -> None:
    seen = in_lab("patient", library)
    assert seen["held"] == 30_000
    assert seen["told"]["rules"] == 30_000
    assert "switch_down" not in seen["kinds"]
