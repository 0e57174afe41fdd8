"""Commands between the lab and the controller process: rules as plain rows, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from railweave.framework.model import Action, Match, Output, Rule, RuleUpdate, SetDscp

Row = Sequence[Any]
"""switch, priority, in_port, ipv4_src, ipv4_dst, ip_dscp, udp_src, then a port (>= 0) or a tag (~value) per action."""


@dataclass(frozen=True)
class ReceivedRule(Rule):
    """A rule that works out its cookie once: it is asked for when the rule is kept, compared and sent."""

    @cached_property
    def cookie(self) -> int:
        return super().cookie


def rows(rules: Iterable[Rule]) -> list[Row]:
    """One flat row per rule: they are many, and a row costs a fifth of a nested map."""
    found: list[Row] = []
    for rule in rules:
        match = rule.match
        actions = [~act.value if isinstance(act, SetDscp) else act.port for act in rule.actions]
        found.append(
            (rule.switch, rule.priority, match.in_port, match.ipv4_src, match.ipv4_dst, match.ip_dscp,
             match.udp_src, *actions)
        )  # fmt: skip
    return found


def rules(given: Iterable[Row]) -> list[Rule]:
    """The rules that `rows` wrote."""
    found: list[Rule] = []
    for switch, priority, in_port, source, destination, dscp, udp_src, *actions in given:
        match = Match(in_port, _pair(source), _pair(destination), dscp, udp_src)
        found.append(ReceivedRule(switch, priority, match, tuple(map(_action, actions))))
    return found


def set_rules(given: Iterable[Rule]) -> dict[str, Any]:
    return {"kind": "set_rules", "rules": rows(given)}


def apply(update: RuleUpdate) -> dict[str, Any]:
    return {
        "kind": "apply",
        "version": update.version,
        "install": rows(update.install),
        "switch_over": rows(update.switch_over),
        "remove": rows(update.remove),
    }


def update_of(message: dict[str, Any]) -> RuleUpdate:
    """The update that `apply` wrote."""
    phases = (tuple(rules(message[phase])) for phase in ("install", "switch_over", "remove"))
    return RuleUpdate(message["version"], *phases)


def retire(version: int) -> dict[str, Any]:
    return {"kind": "retire", "version": version}


def train(dpid: int, port: int, packets: int, size_bytes: int, timed: int) -> dict[str, Any]:
    return {
        "kind": "train",
        "dpid": dpid,
        "port": port,
        "packets": packets,
        "size_bytes": size_bytes,
        "timed": timed,
    }


def poll(number: int) -> dict[str, Any]:
    return {"kind": "poll", "number": number}


def _pair(given: Sequence[int] | None) -> tuple[int, int] | None:
    return None if given is None else (given[0], given[1])


def _action(code: int) -> Action:
    return Output(code) if code >= 0 else SetDscp(~code)
