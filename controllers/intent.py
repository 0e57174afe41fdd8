"""The rules that every switch must hold. Pure bookkeeping: no library, no clock, no sending."""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from railweave.framework.model import Match, Rule
from railweave.framework.model.addressing import dpid

Key = tuple[int, Match]
"""Priority and match, which identify a flow on a switch."""


class Intent:
    """The `rules` of every switch, by datapath id, including those that wait for their retirement.

    A rule is recognised on a switch by its cookie, a hash of switch, priority, match and actions.
    """

    def __init__(self) -> None:
        self.rules: dict[int, dict[Key, Rule]] = {}
        self._retiring: dict[int, dict[int, Rule]] = {}

    def replace(self, rules: Iterable[Rule]) -> None:
        """From now on exactly these rules."""
        self.rules.clear()
        self._retiring.clear()
        self.add(rules)

    def add(self, rules: Iterable[Rule]) -> dict[int, list[Rule]]:
        """Add rules and return them by datapath id; one that waited for its retirement stays."""
        placed: dict[int, list[Rule]] = {}
        for rule in rules:
            switch = dpid(rule.switch)
            self.rules.setdefault(switch, {})[rule.priority, rule.match] = rule
            placed.setdefault(switch, []).append(rule)
            for retiring in self._retiring.values():
                retiring.pop(rule.cookie, None)
        return placed

    def retire_later(self, version: int, rules: Iterable[Rule]) -> None:
        """Keep these rules until `retire(version)`."""
        self._retiring[version] = {rule.cookie: rule for rule in rules}

    def retire(self, version: int) -> dict[int, list[int]]:
        """The cookies to delete, by datapath id: the retired rules that no other rule has replaced since."""
        deleted: dict[int, list[int]] = {}
        for cookie, rule in self._retiring.pop(version, {}).items():
            switch, key = dpid(rule.switch), (rule.priority, rule.match)
            current = self.rules.get(switch, {}).get(key)
            if current is not None and current.cookie == cookie:
                del self.rules[switch][key]
                deleted.setdefault(switch, []).append(cookie)
        return deleted

    def compare(self, switch: int, cookies: AbstractSet[int]) -> tuple[list[Rule], list[int]]:
        """(rules that the switch lacks, cookies that it should not hold), given the cookies that it holds."""
        wanted = self.by_cookie(switch)
        missing = [rule for cookie, rule in wanted.items() if cookie not in cookies]
        return missing, sorted(cookies - wanted.keys())

    def switches(self) -> set[int]:
        """The datapath ids that have rules."""
        return {switch for switch, rules in self.rules.items() if rules}

    def by_cookie(self, switch: int) -> dict[int, Rule]:
        """The rules of a switch by their cookies."""
        return {rule.cookie: rule for rule in self.rules.get(switch, {}).values()}
