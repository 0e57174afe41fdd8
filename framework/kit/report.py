"""The result of checking a plugin: the fabric, the pair and the path of everything that is wrong."""

from dataclasses import asdict, dataclass
from typing import Literal

from railweave.framework.errors import RailweaveError

Status = Literal["passed", "failed", "skipped"]


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
        """A line per check with its violations below it, and a verdict."""
        width = max((len(o.check) for o in self.outcomes), default=0)
        lines = []
        for outcome in self.outcomes:
            lines.append(f"{outcome.status:<7}  {outcome.check:<{width}}  {outcome.detail}".rstrip())
            lines += [f"  {line}" for v in outcome.violations for line in v.text().splitlines()]
        skipped = sum(o.status == "skipped" for o in self.outcomes)
        count = len(self.outcomes) - skipped
        verdict = f"passes {count} checks" if self.passed else f"fails {len(self.failed)} of {count} checks"
        verdict += f", {skipped} skipped" * bool(skipped)
        return "\n".join([*lines, f"{self.kind} {self.name} {verdict}."])

    def document(self) -> dict[str, object]:
        """The same as plain data."""
        return {
            "kind": self.kind,
            "name": self.name,
            "passed": self.passed,
            "fabrics": list(self.fabrics),
            "checks": [asdict(outcome) for outcome in self.outcomes],
        }
