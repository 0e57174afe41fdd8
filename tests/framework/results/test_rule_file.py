"""rules.json: rules made by hand, counted by hand; and files that are none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import railweave as rw
from railweave.framework.model import Fabric, Match, Output, Rule, SetDscp
from railweave.framework.results import rule_file as kept
from railweave.framework.results.rule_file import by_switch, read_rules, rules_json


@pytest.fixture(scope="module")
def two_domains() -> Fabric:
    return rw.topology("rail-only", domains=2, rails=2)


def made(fabric: Fabric) -> list[Rule]:
    """At g0.0: one that drops, two that send out of ports 2 and 3; at the first domain one to port 1."""
    domain = fabric.node_ids["d0"]
    to = Match(in_port=1, ipv4_dst=(10 << 24 | 5, 0xFFFFFFFF))
    return [
        Rule(0, 20000, Match(in_port=1), ()),
        Rule(0, 20001, to, (SetDscp(3), Output(2))),
        Rule(0, 1000, Match(ip_dscp=3), (Output(1),)),
        Rule(domain, 1001, Match(ip_dscp=3), (Output(1),)),
    ]


def test_rules_are_listed_by_switch_from_the_highest_priority_down(two_domains: Fabric) -> None:
    switches = {one.name: one for one in by_switch(two_domains, made(two_domains))}
    assert list(switches) == [two_domains.node_name(node) for node in range(two_domains.n_nodes)]
    nic, domain, idle = switches["g0.0"], switches["d0"], switches["r0"]
    assert (nic.ingress, nic.transit, nic.drop) == (1, 1, 1)
    assert nic.flows == (
        "priority=20001,ip,in_port=1,nw_dst=10.0.0.5/255.255.255.255,actions=set_field:3->ip_dscp,output:2",
        "priority=20000,ip,in_port=1,actions=drop",
        "priority=1000,ip,nw_tos=12,actions=output:1",
    )
    assert nic.ports == {1: "its host", 2: "g0.0->d0"} and domain.ports == {1: "d0->g0.0"}
    assert (idle.ingress, idle.transit, idle.drop, idle.flows) == (0, 0, 0, ())


def test_a_switch_with_many_rules_lists_the_first(
    two_domains: Fabric, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "MOST_OF_SWITCH", 2)
    nic = by_switch(two_domains, made(two_domains))[0]
    assert (nic.ingress, nic.transit, nic.drop, len(nic.flows)) == (1, 1, 1, 2)
    assert nic.flows[1].startswith("priority=20000,")


def test_what_was_written_is_read(two_domains: Fabric, tmp_path: Path) -> None:
    path = tmp_path / "rules.json"
    assert read_rules(path, two_domains) == (None, "")
    switches = by_switch(two_domains, made(two_domains))
    path.write_text(rules_json(switches))
    assert read_rules(path, two_domains) == (switches, "")
    assert json.loads(path.read_text())["schema"] == {"name": "railweave.rules", "version": 1}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "JSONDecodeError"),
        ("[]", "TypeError"),
        ('{"rules": 3}', "KeyError: 'switches'"),
        ('{"switches": [{"name": "g0.0"}]}', "0.ingress: Field required"),
        ('{"switches": []}', "its switches are not those of this fabric"),
        ("[" * 100_000, "left out"),
    ],
)
def test_a_file_that_is_none_is_named(two_domains: Fabric, tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "rules.json").write_text(text)
    switches, words = read_rules(tmp_path / "rules.json", two_domains)
    assert switches is None and words.startswith("rules.json is left out: ") and why in words
