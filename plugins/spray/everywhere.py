"""Spraying where there are no rails to choose from: over all paths of least cost."""

from railweave.framework.hookspecs import Explanation, Fact
from railweave.framework.model import Fabric, HealthSnapshot, RouteTable
from railweave.framework.routing.equal_cost import ShortestPaths


def all_paths(fabric: Fabric, health: HealthSnapshot, most: int, *, by_health: bool) -> RouteTable:
    """A table of all least-cost paths of the pairs requested, at most `most` of each, over links that carry
    anything. Weights are equal, or `by_health` as `ShortestPaths` has them.

    Raises HealthError for a snapshot of another fabric.
    """
    health.check_fits(fabric)
    down = health.down | (health.link_score <= 0)
    paths = ShortestPaths(fabric, down, most, health.link_score if by_health else None)
    return RouteTable("spray", health.version, fabric.n_gpus, paths.batch)


def explanation(fabric: Fabric, health: HealthSnapshot, src: int, dst: int, table: RouteTable) -> Explanation:
    """How many paths there are, and the share of each with its worst link."""
    if src == dst:
        return Explanation("same GPU")
    if not (paths := table.path(src, dst)):
        return Explanation("unreachable: no path over links that are up")
    shares, score = [], health.link_score
    for path in paths:
        worst = min(path.links, key=lambda link: float(score[link]))
        worst_text = f": {fabric.link_name(worst)} scores {score[worst]:.2f}" if score[worst] < 1 else ""
        shares.append(f"{path.weight:.3f}{worst_text}")
    facts: dict[str, Fact] = {"paths": len(paths), "shares": shares}
    return Explanation(f"packets in shares over {len(paths)} of the paths of least cost", facts)
