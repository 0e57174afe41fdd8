"""What switches must hold."""

from __future__ import annotations

from railweave.controllers.intent import Intent
from railweave.framework.model import Match, Output, Rule
from railweave.framework.model.addressing import dpid

A, B = dpid(0), dpid(1)


def rule(switch: int, dst: int, port: int) -> Rule:
    return Rule(switch, 100, Match(ipv4_dst=(dst, 0xFFFFFFFF)), (Output(port),))


def test_a_rule_with_the_same_match_replaces() -> None:
    intent = Intent()
    old, new = rule(0, 1, 2), rule(0, 1, 3)
    intent.add([old])
    assert intent.add([new]) == {A: [new]}
    assert intent.compare(A, {old.cookie}) == ([new], [old.cookie])
    assert len(intent.rules[A]) == 1


def test_comparing_finds_what_lacks_and_what_is_foreign() -> None:
    intent = Intent()
    one, two = rule(0, 1, 2), rule(0, 2, 2)
    intent.replace([one, two, rule(1, 1, 2)])
    assert intent.compare(A, {one.cookie, 77, 5}) == ([two], [5, 77])
    assert intent.compare(9, {4}) == ([], [4])
    assert intent.switches() == {A, B}


def test_rules_leave_only_when_retired() -> None:
    intent = Intent()
    going, staying = rule(0, 1, 2), rule(1, 1, 2)
    intent.replace([going, staying])
    intent.retire_later(3, [going])
    assert intent.compare(A, set()) == ([going], [])
    assert intent.retire(3) == {A: [going.cookie]}
    assert intent.compare(A, set()) == ([], [])
    assert intent.retire(3) == {}


def test_what_was_replaced_is_not_deleted_again() -> None:
    intent = Intent()
    old, new = rule(0, 1, 2), rule(0, 1, 3)
    intent.replace([old])
    intent.add([new])
    intent.retire_later(1, [old])
    assert intent.retire(1) == {}
    assert intent.compare(A, set()) == ([new], [])


def test_a_leaving_rule_that_is_wanted_again_stays() -> None:
    """Routes went away and came back before the first change was retired."""
    intent = Intent()
    there, detour = rule(0, 1, 2), rule(0, 2, 3)
    intent.replace([there])
    intent.add([detour])
    intent.retire_later(1, [there])
    intent.add([there])
    intent.retire_later(2, [detour])
    assert intent.retire(1) == {}
    assert intent.retire(2) == {A: [detour.cookie]}
    assert intent.compare(A, set()) == ([there], [])


def test_a_new_whole_intent_forgets_what_was_leaving() -> None:
    intent = Intent()
    going = rule(0, 1, 2)
    intent.replace([going])
    intent.retire_later(1, [going])
    intent.replace([going])
    assert intent.retire(1) == {}


def test_a_cookie_finds_its_rule() -> None:
    intent = Intent()
    one = rule(0, 1, 2)
    intent.add([one])
    assert intent.by_cookie(A) == {one.cookie: one}
    assert intent.by_cookie(B) == {}
