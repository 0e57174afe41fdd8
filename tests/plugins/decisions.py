"""What `explain` says of one pair of a rail fabric, read back into numbers; the paths are from the table."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from railweave.framework.hookspecs import Explanation
from railweave.framework.model import Fabric, HealthSnapshot, Path
from railweave.plugins.hscore.router import HScore
from railweave.plugins.spray.router import Spray


@dataclass(frozen=True)
class Decision:
    """`m` and `bar` are +inf where no remote rail is considered; `path` is None for an unreachable pair."""

    kind: str
    rail: int | None
    score: float
    gamma_src: float
    gamma_dst: float
    m: float
    bar: float
    routable: tuple[int, ...]
    direct_scores: Mapping[str, float]
    why: str
    path: Path | None


@dataclass(frozen=True)
class Sprayed:
    """One path of a pair: `kind` d, r, rd, dr or drd, `rail` the remote rail of a drd-path."""

    kind: str
    rail: int | None
    score: float
    path: Path


@dataclass(frozen=True)
class SprayDecision:
    """`m` as above; `window` worst rail first; `sprayed` empty where the pair is unreachable."""

    m: float
    window: tuple[int, ...]
    sprayed: tuple[Sprayed, ...]
    why: str


def decided(router: HScore, fabric: Fabric, health: HealthSnapshot, src: int, dst: int) -> Decision:
    found, facts = _explained(router, fabric, health, src, dst)
    paths, m = router.routes(fabric, health).path(src, dst) if src != dst else (), _m(facts)
    return Decision(
        facts["kind"],
        _rail(facts.get("remote_rail")),
        facts["score"],
        facts["gamma_src"],
        facts["gamma_dst"],
        m,
        facts.get("bar", m),
        tuple(map(_number, facts["routable_rails"])),
        {name[6:]: score for name, score in facts.items() if name.startswith("score_")},
        found.why,
        paths[0] if paths else None,
    )


def spray_decided(router: Spray, fabric: Fabric, health: HealthSnapshot, src: int, dst: int) -> SprayDecision:
    found, facts = _explained(router, fabric, health, src, dst)
    paths = router.routes(fabric, health).path(src, dst) if src != dst else ()
    sprayed = []
    for text, path in zip(facts["paths"], paths, strict=True):
        ((kind, rail, score),) = re.findall(r"^(\w+)(?: via (rail \d+))?: score (.+)$", text)
        sprayed.append(Sprayed(kind, _rail(rail or None), float(score), path))
    return SprayDecision(_m(facts), tuple(map(_number, facts["window"])), tuple(sprayed), found.why)


def _explained(
    router: HScore | Spray, fabric: Fabric, health: HealthSnapshot, src: int, dst: int
) -> tuple[Explanation, Mapping[str, Any]]:
    rails = fabric.group("rail")
    assert rails is not None
    found = router.explain(fabric, health, src, dst, lambda node: f"rail {node - rails.first}")
    return found, found.facts


def _m(facts: Mapping[str, Any]) -> float:
    return math.inf if facts["m"] == "no remote rail is considered" else float(facts["m"])


def _number(rail: str) -> int:
    return int(rail.removeprefix("rail "))


def _rail(name: str | None) -> int | None:
    return None if name is None else _number(name)
