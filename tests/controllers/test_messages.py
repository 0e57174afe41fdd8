"""Flow-mods, written by us and read back by each library."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.controllers import wire
from railweave.framework.model import Match, Output, Rule, SetDscp
from railweave.framework.model.addressing import ipv4_text

WORKER = Path(__file__).with_name("message_worker.py")
OFPP_IN_PORT = 0xFFFFFFF8  # OpenFlow 1.3.5, 7.2.1
OFPFC_ADD, OFPFC_DELETE, OFPTT_ALL = 0, 3, 0xFF  # 7.3.4.1, 7.3.4.1, 7.3.4.1

word = st.integers(0, 2**32 - 1)
pair = st.none() | st.tuples(word, word)
port = st.integers(1, 12)
matches = st.builds(
    Match,
    in_port=st.none() | port,
    ipv4_src=pair,
    ipv4_dst=pair,
    ip_dscp=st.none() | st.integers(0, 63),
    udp_src=st.none() | st.integers(0, 65535),
)
actions = st.lists(st.builds(Output, port) | st.builds(SetDscp, st.integers(0, 63)), max_size=3).map(tuple)
rules = st.builds(Rule, st.integers(0, 10**6), st.integers(0, 65535), matches, actions)

Ask = Callable[[Rule], dict[str, Any]]


@pytest.fixture(scope="module", params=["ryu", "os-ken", "c65of"])
def ask(request: pytest.FixtureRequest) -> Iterator[Ask]:
    command = [sys.executable, "-W", "ignore", str(WORKER), request.param]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        source, sink = worker.stdin, worker.stdout

        def ask_worker(rule: Rule) -> dict[str, Any]:
            source.write(json.dumps(wire.rows([rule])[0]) + "\n")
            source.flush()
            answer: dict[str, Any] = json.loads(sink.readline())
            return answer

        yield ask_worker
        source.close()


def expected_match(match: Match) -> dict[str, Any]:
    """What OpenFlow 1.3.5, 7.2.3.7 asks for: fields, and their prerequisites."""
    fields: dict[str, Any] = {"eth_type": 0x0800}
    for name, value in (("in_port", match.in_port), ("ip_dscp", match.ip_dscp), ("udp_src", match.udp_src)):
        if value is not None:
            fields[name] = value
    if match.udp_src is not None:
        fields["ip_proto"] = 17
    for name, masked in (("ipv4_src", match.ipv4_src), ("ipv4_dst", match.ipv4_dst)):
        if masked is not None:
            fields[name] = [ipv4_text(masked[0] & masked[1]), ipv4_text(masked[1])]
    return fields


def expected_actions(rule: Rule) -> list[list[Any]]:
    found: list[list[Any]] = []
    for action in rule.actions:
        if isinstance(action, SetDscp):
            found.append(["ip_dscp", action.value])
        else:
            found.append(["output", OFPP_IN_PORT if action.port == rule.match.in_port else action.port])
    return found


@given(rule=rules)
@settings(max_examples=150)
def test_a_rule_survives_the_wire(ask: Ask, rule: Rule) -> None:
    answer = ask(rule)
    assert answer["flow_mod"] == {
        "command": OFPFC_ADD,
        "cookie": rule.cookie,
        "cookie_mask": 0,
        "priority": rule.priority,
        "table": 0,
        "match": expected_match(rule.match),
        "actions": expected_actions(rule),
        "length_is_right": True,
    }
    assert answer["same_as_library"]
    assert answer["same_again"]


def test_removal_names_one_cookie_in_every_table(ask: Ask) -> None:
    rule = Rule(3, 7, Match(in_port=1), (Output(2),))
    removal = ask(rule)["removal"]
    assert removal["command"] == OFPFC_DELETE
    assert (removal["cookie"], removal["cookie_mask"]) == (rule.cookie, 2**64 - 1)
    assert removal["table"] == OFPTT_ALL
    assert removal["match"] == {}
    assert removal["actions"] == []
