"""What a check of a router found: the fabric, the pair and the path of everything that is wrong."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

Status = Literal["passed", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. `pair` as `g0.0 -> g1.1`, `path` as nodes or as the links that join no nodes;
    either is empty where it means nothing."""

    fabric: str
    why: str
    pair: str = ""
    path: str = ""

    def text(self) -> str:
        where = ", ".join(part for part in (self.fabric, self.pair) if part)
        line = f"{where}: {self.why}" if where else self.why
        return f"{line}\n    path: {self.path}" if self.path else line


@dataclass(frozen=True, slots=True)
class Outcome:
    """One check. `detail`: what it looked at, or why it was skipped. `findings`: the first of each fabric."""

    check: str
    status: Status
    detail: str
    findings: tuple[Finding, ...] = ()

    @classmethod
    def of(cls, check: str, findings: list[Finding], detail: str) -> Outcome:
        return cls(check, "failed" if findings else "passed", detail, tuple(findings))


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that was checked of one router."""

    router: str
    fabrics: tuple[str, ...]
    outcomes: tuple[Outcome, ...]

    @property
    def passed(self) -> bool:
        return not self.failed

    @property
    def failed(self) -> tuple[Outcome, ...]:
        return tuple(o for o in self.outcomes if o.status == "failed")

    def text(self) -> str:
        """A line per check, what was found below it, and a verdict."""
        width = max((len(o.check) for o in self.outcomes), default=0)
        lines = []
        for outcome in self.outcomes:
            lines.append(f"{outcome.status:<7}  {outcome.check:<{width}}  {outcome.detail}".rstrip())
            lines += [f"  {line}" for finding in outcome.findings for line in finding.text().splitlines()]
        count = len(self.outcomes)
        verdict = f"passes {count} checks" if self.passed else f"fails {len(self.failed)} of {count} checks"
        return "\n".join([*lines, f"router {self.router} {verdict}."])

    def document(self) -> dict[str, object]:
        """The same as plain data."""
        return {
            "router": self.router,
            "passed": self.passed,
            "fabrics": list(self.fabrics),
            "checks": [asdict(outcome) for outcome in self.outcomes],
        }
