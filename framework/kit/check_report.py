"""The result of checking a plugin: the fabric, the pair and the path of everything that is wrong."""

from dataclasses import asdict, dataclass
from typing import Literal

from railweave.framework.errors import RailweaveError

Status = Literal["passed", "failed", "skipped"]
WIDTH = len("equal in, equal out")
"""Columns of a check's name: lines are printed before it is known which come after them."""


class Broken(RailweaveError):
    """A rule is broken; the arguments are those of a Violation behind its fabric: why, pair, path."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule. `pair` as `g0.0 -> g1.1`, `path` as nodes or as the links that join no nodes;
    either is empty where it means nothing."""

    fabric: str
    why: str
    pair: str = ""
    path: str = ""

    @classmethod
    def of(cls, fabric: str, error: RailweaveError) -> "Violation":
        return cls(fabric, *(error.args if isinstance(error, Broken) else [str(error)]))

    def text(self) -> str:
        where = ", ".join(part for part in (self.fabric, self.pair) if part)
        line = f"{where}: {self.why}" if where else self.why
        return f"{line}\n    path: {self.path}" if self.path else line


@dataclass(frozen=True, slots=True)
class Outcome:
    """One check. `detail`: what was checked, or why not. `violations`: the first of each fabric."""

    check: str
    status: Status
    detail: str
    violations: tuple[Violation, ...] = ()

    @classmethod
    def of(cls, check: str, violations: list[Violation], detail: str) -> "Outcome":
        return cls(check, "failed" if violations else "passed", detail, tuple(violations))

    def text(self) -> str:
        """A line, and one below it for every violation."""
        first = f"{self.status:<7}  {self.check:<{WIDTH}}  {self.detail}".rstrip()
        return "\n".join([first, *(f"  {line}" for v in self.violations for line in v.text().splitlines())])


@dataclass(frozen=True, slots=True)
class CheckReport:
    """Everything that was checked of one plugin."""

    kind: str
    name: str
    fabrics: tuple[str, ...]
    outcomes: tuple[Outcome, ...]

    @property
    def passed(self) -> bool:
        return not self.failed

    @property
    def failed(self) -> tuple[Outcome, ...]:
        return tuple(o for o in self.outcomes if o.status == "failed")

    def text(self) -> str:
        """Every check, and the verdict."""
        return "\n".join([*(outcome.text() for outcome in self.outcomes), self.verdict])

    @property
    def verdict(self) -> str:
        skipped = sum(o.status == "skipped" for o in self.outcomes)
        count = len(self.outcomes) - skipped
        verdict = f"passes {count} checks" if self.passed else f"fails {len(self.failed)} of {count} checks"
        verdict += f", {skipped} skipped" * bool(skipped)
        return f"{self.kind} {self.name} {verdict}."

    def document(self) -> dict[str, object]:
        """The same as plain data."""
        return {
            "kind": self.kind,
            "name": self.name,
            "passed": self.passed,
            "fabrics": list(self.fabrics),
            "checks": [asdict(outcome) for outcome in self.outcomes],
        }
