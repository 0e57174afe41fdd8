"""Rules on the channel."""

from __future__ import annotations

import msgpack
from hypothesis import given
from hypothesis import strategies as st

from railweave.controllers import wire
from railweave.framework.model import Match, Output, Rule, RuleUpdate, SetDscp

word = st.integers(0, 2**32 - 1)
pair = st.none() | st.tuples(word, word)
matches = st.builds(
    Match,
    in_port=st.none() | word,
    ipv4_src=pair,
    ipv4_dst=pair,
    ip_dscp=st.none() | st.integers(0, 63),
    udp_src=st.none() | st.integers(0, 65535),
)
actions = st.lists(st.builds(Output, word) | st.builds(SetDscp, st.integers(0, 63)), max_size=3).map(tuple)
rules = st.builds(Rule, st.integers(0, 10**6), st.integers(0, 65535), matches, actions)


def plain(rule: Rule) -> Rule:
    return Rule(rule.switch, rule.priority, rule.match, rule.actions)


@given(st.lists(rules, max_size=5))
def test_rules_come_back_equal_with_equal_cookies(given_rules: list[Rule]) -> None:
    back = wire.rules(msgpack.unpackb(msgpack.packb(wire.rows(given_rules))))
    assert list(map(plain, back)) == given_rules
    assert [rule.cookie for rule in back] == [rule.cookie for rule in given_rules]


def test_an_update_keeps_its_phases() -> None:
    first, second, third = (Rule(0, 1, Match(), (Output(port),)) for port in (1, 2, 3))
    phases = wire.phases(RuleUpdate(4, (first,), (second,), (third,)))
    update = wire.update(4, msgpack.unpackb(msgpack.packb(phases)))
    assert update.version == 4
    received = (update.install, update.switch_over, update.remove)
    assert [list(map(plain, phase)) for phase in received] == [[first], [second], [third]]
