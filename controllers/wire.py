"""Rules on the channel from the lab to the controller process, as plain rows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any

from railweave.framework.model import Match, Output, Rule, RuleUpdate, SetDscp

Row = Sequence[Any]
"""switch, priority, the five fields of its match, then a port (>= 0) or a tag (~value) per action."""
_FIELDS = attrgetter(
    *("switch", "priority", "match.in_port"),
    *("match.ipv4_src", "match.ipv4_dst", "match.ip_dscp", "match.udp_src"),
)


@dataclass(frozen=True)
class ReceivedRule(Rule):
    """A rule that computes its cookie once: it is needed when the rule is stored, compared and sent."""

    @cached_property
    def cookie(self) -> int:
        return super().cookie


def rows(rules: Iterable[Rule]) -> list[Row]:
    """One flat row per rule, at a fifth of a nested map's cost."""
    return [
        (*_FIELDS(rule), *(~act.value if isinstance(act, SetDscp) else act.port for act in rule.actions))
        for rule in rules
    ]


def rules(rows: Iterable[Row]) -> list[Rule]:
    """The rules of these rows."""
    return [
        ReceivedRule(
            switch,
            priority,
            Match(in_port, source and tuple(source), destination and tuple(destination), dscp, udp_src),
            tuple(Output(code) if code >= 0 else SetDscp(~code) for code in actions),
        )
        for switch, priority, in_port, source, destination, dscp, udp_src, *actions in rows
    ]


def phases(update: RuleUpdate) -> list[list[Row]]:
    """The rows of an update's phases: install, switch over, remove."""
    return [rows(update.install), rows(update.switch_over), rows(update.remove)]


def update(version: int, phases: Iterable[Iterable[Row]]) -> RuleUpdate:
    """The update of these phases."""
    return RuleUpdate(version, *(tuple(rules(phase)) for phase in phases))
