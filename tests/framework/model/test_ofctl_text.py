"""Rules as ovs-ofctl would have them. That it takes them is checked with real switches in test_app.py."""

from __future__ import annotations

from railweave.framework.model import CONTROLLER_PORT, Match, Output, Rule, SetDscp
from railweave.framework.model.ofctl_text import flow_text


def test_every_field_has_its_word() -> None:
    match = Match(1, (10 << 24 | 0xFF, 0xFF000000), (10 << 24 | 5, 0xFFFFFFFF), 3, 0xC001)
    rule = Rule(0, 30, match, (SetDscp(4), Output(1), Output(2)))
    assert flow_text(rule) == (
        f"cookie={rule.cookie:#x},priority=30,udp,in_port=1,nw_src=10.0.0.0/255.0.0.0,"
        "nw_dst=10.0.0.5/255.255.255.255,nw_tos=12,tp_src=49153,"
        "actions=set_field:4->ip_dscp,in_port,output:2"
    )


def test_no_actions_are_a_drop() -> None:
    assert flow_text(Rule(0, 1, Match(), ())).endswith("priority=1,ip,actions=drop")


def test_the_controller_is_a_port_by_name() -> None:
    assert flow_text(Rule(0, 1, Match(), (Output(CONTROLLER_PORT),))).endswith("actions=controller")
