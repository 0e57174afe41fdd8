"""What every switch must hold. Plain bookkeeping: no library, no clock, no sending."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from railweave.framework.addressing import dpid
from railweave.framework.model import Match, Rule

Key = tuple[int, Match]
"""Priority and match: what a switch tells flows apart by. A second rule with the same key replaces the first."""


class Intent:
    """The rules of every switch, by datapath id; rules to be retired stay until they are.

    A rule is recognised in a switch by its cookie, which names switch, priority, match and actions at once.
    """

    def __init__(self) -> None:
        self._rules: dict[int, dict[Key, tuple[int, Rule]]] = {}
        self._leaving: dict[int, dict[int, Rule]] = {}

    def replace(self, rules: Iterable[Rule]) -> None:
        """Nothing but these rules."""
        self._rules = {}
        self._leaving = {}
        self.add(rules)

    def add(self, rules: Iterable[Rule]) -> dict[int, list[Rule]]:
        """These rules too; the same, by datapath id. One that was to be retired is wanted again, and stays."""
        placed: dict[int, list[Rule]] = {}
        for rule in rules:
            switch = dpid(rule.switch)
            cookie = rule.cookie
            self._rules.setdefault(switch, {})[rule.priority, rule.match] = (cookie, rule)
            placed.setdefault(switch, []).append(rule)
            for leaving in self._leaving.values():
                leaving.pop(cookie, None)
        return placed

    def leave(self, version: int, rules: Iterable[Rule]) -> None:
        """Keep these until `retire(version)`."""
        self._leaving[version] = {rule.cookie: rule for rule in rules}

    def retire(self, version: int) -> dict[int, list[int]]:
        """The cookies to delete, by datapath id: what `version` left behind and nothing has replaced since."""
        gone: dict[int, list[int]] = {}
        for cookie, rule in self._leaving.pop(version, {}).items():
            switch = dpid(rule.switch)
            key = (rule.priority, rule.match)
            if self._rules.get(switch, {}).get(key) == (cookie, rule):
                del self._rules[switch][key]
                gone.setdefault(switch, []).append(cookie)
        return gone

    def compare(self, switch: int, cookies: AbstractSet[int]) -> tuple[list[Rule], list[int]]:
        """(rules the switch lacks, cookies it holds and should not), given the cookies it holds."""
        wanted = dict(self._rules.get(switch, {}).values())
        missing = [rule for cookie, rule in wanted.items() if cookie not in cookies]
        return missing, sorted(cookies - wanted.keys())

    def switches(self) -> set[int]:
        """The datapath ids that some rule names."""
        return {switch for switch, rules in self._rules.items() if rules}

    def count(self, switch: int) -> int:
        return len(self._rules.get(switch, {}))

    def find(self, switch: int, cookie: int) -> Rule | None:
        """The rule a switch means when it names a cookie."""
        return dict(self._rules.get(switch, {}).values()).get(cookie)
