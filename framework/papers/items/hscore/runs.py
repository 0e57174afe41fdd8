"""Items that run something: latency by size, and the feedback loop."""

from collections.abc import Sequence

from railweave.framework.drawing.plots import Axis, Curve, curves
from railweave.framework.experiment.modes import MODES
from railweave.framework.papers.items.hscore.paths import ROUTER, number
from railweave.framework.papers.items.item import Claim, Claims
from railweave.framework.papers.items.workbench import Workbench
from railweave.framework.parameters.units import parse_time


def h11(
    workbench: Workbench,
    *,
    sizes: Sequence[str] = ("4K", "64K", "1M"),
    link_latency: str = "500ns",
    domain_latency: str = "100ns",
) -> Claims:
    """One pair on two rails, alone, by size, on both fabrics: the time of an iteration."""
    fabrics = {"rail-only": {}, "rail-optimised": {"spine_latency": link_latency}}
    times: dict[str, list[float]] = {}
    for name, extra in fabrics.items():
        keys = {
            "topology": {"name": name, "domains": 2, "rails": 2, "rail_latency": link_latency,
                         "domain_latency": domain_latency, **extra},
            "router": ROUTER if name == "rail-only" else {"name": "ecmp"},
            "collective": "direct-all-to-all", "ranks": "gpu:0.0,1.1", "iterations": 2,
        }  # fmt: skip
        rows = workbench.sweep({"size": list(sizes)}, **keys)
        times[name] = [float(str(row["iteration_us"])) for row in rows]
    pairs = [*zip(sizes, *times.values(), strict=True)]
    figures = [Claim(f"{size}: rail-only over rail-optimised", 1.0, only / other, bound="<")
               for size, only, other in pairs]  # fmt: skip
    figures += [Claim(f"{size}: rail-only", None, only, "us") for size, only, _ in pairs]
    drawn = [Curve(name, [*map(float, range(len(sizes)))], us) for name, us in times.items()]
    title = "a pair on two rails, by size"
    return Claims(tuple(figures), curves(title, Axis("size", sizes), Axis("us"), drawn))


def h12(workbench: Workbench, *, depth: str = "20%", rail: int = 1, iterations: int = 8) -> Claims:
    """A rail loses rate in the middle of a run; with the feedback loop and without."""
    keys = {
        "topology": {"name": "rail-only", "domains": 2, "rails": 4}, "router": ROUTER, "size": "1M",
        "iterations": iterations, "faults": [f"at=iter:2 degrade rail:{rail} to={depth}"],
    }  # fmt: skip
    after: dict[str, float] = {}
    reroutes = 0
    for mode in ("feedback", "no-feedback"):
        result = workbench.run(**keys, **MODES[mode])
        groups = result.iterations
        times = groups.after if groups.after.iterations else groups.during
        after[mode] = number(times.declared_us) / number(groups.before.declared_us)
        reroutes = reroutes or len(result.reroutes)
    return Claims(
        (
            Claim("routes change after the fault", True, reroutes > 0),
            Claim("iteration after the fault over before, feedback", None, after["feedback"]),
            Claim("iteration after the fault over before, no feedback", None, after["no-feedback"]),
            Claim("feedback over no feedback", 1.0, after["feedback"] / after["no-feedback"], bound="<"),
        )
    )


def h08(
    workbench: Workbench,
    *,
    delays: Sequence[str] = ("0s", "25us", "100us"),
    depth: str = "20%",
    iterations: int = 16,
) -> Claims:
    """A rail loses rate, and every GPU hears of its score so much later: when routes change, and what the
    iterations from the fault on take in all."""
    keys = {
        "topology": {"name": "rail-only", "domains": 2, "rails": 4}, "router": ROUTER, "size": "1M",
        "iterations": iterations, "faults": [f"at=iter:2 degrade rail:1 to={depth}"],
    }  # fmt: skip
    answered, took = list[float](), list[float]()
    for delay in delays:
        result = workbench.run(**keys, health={"control_delay": delay})
        answered.append(number(result.faults[0].recovered_s) * result.fabric.rate_scale * 1e6)
        took.append(sum(number(row.declared_time_us) for row in result.rows[2:iterations]))
    later = [*zip(delays, answered, took, strict=True)][1:]
    figures = [Claim("fault to new routes, copies at once", None, answered[0], "us")]
    for delay, when, us in later:
        figures += [
            Claim(
                f"copies {delay} late: new routes later by", 1e6 * parse_time(delay), when - answered[0], "us"
            ),
            Claim(f"copies {delay} late: iterations from the fault on", None, us / took[0]),
        ]
    return Claims(tuple(figures))
