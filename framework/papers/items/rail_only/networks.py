"""Items about networks: topologies, collectives, failures, cost, bounds."""

from collections.abc import Sequence

from railweave.framework.drawing import svg
from railweave.framework.experiment.fault_targets import find_link
from railweave.framework.papers.items.item import Claim, Claims
from railweave.framework.papers.items.pictures import in_a_row
from railweave.framework.papers.items.workbench import Workbench
from railweave.framework.papers.training.all_gather import (
    Grid,
    ag_time_s,
    all_to_all_s,
    bound_by_search_s,
    bound_s,
    domain_phase_bytes,
    rail_phase_bytes,
)
from railweave.framework.papers.training.cost import compare

H100_GRID = (450e9, 50e9)
"""C_F and C_S of an H100 in bytes/s and direction."""


def r01(workbench: Workbench, *, domains: int = 4, rails: int = 4, spines: int = 2) -> Claims:
    """Both fabrics: the switches that join rails, and the pictures."""
    optimised = workbench.fabric("rail-optimised", domains=domains, rails=rails, spines=spines)
    only = workbench.fabric("rail-only", domains=domains, rails=rails)

    def joining(fabric_kind: str) -> int:
        group = {"rail-only": only, "rail-optimised": optimised}[fabric_kind].group("spine")
        return 0 if group is None else group.size

    return Claims(
        (
            Claim("rail-only, switches that join rails", 0, joining("rail-only")),
            Claim("rail-optimised, switches that join rails", 0, joining("rail-optimised"), bound=">"),
            Claim("rail-only, GPUs", domains * rails, only.n_gpus),
            Claim("rail-only, cables", 2 * domains * rails, only.n_links // 2),
        ),
        in_a_row([svg(optimised), svg(only)], "rail-optimised and rail-only"),
    )


def r06(workbench: Workbench, *, rails: int = 8, domains: int = 4, size: int = 64 << 20) -> Claims:
    """Hierarchical all-gather, reduce-scatter and all-reduce as runs, against equation 1."""
    fabric = workbench.fabric("rail-only", domains=domains, rails=rails)

    def rate(node: str) -> float:
        return float(fabric.capacity_bps[find_link(fabric, f"g0.0->{node}")]) / 8

    grid = Grid(rails, domains, rate("d0"), rate("r0"))
    seconds = ag_time_s(size, grid)
    figures = [
        Claim(
            "all-gather, bytes over a rail, (y-1) D / x",
            (domains - 1) * size / rails,
            domains * rail_phase_bytes(size, grid),
        ),
        Claim(
            "all-gather, bytes in a domain, (x-1) D",
            (rails - 1) * size,
            rails * domain_phase_bytes(size, grid),
        ),
    ]
    for name, times in (("all-gather", 1), ("reduce-scatter", 1), ("all-reduce", 2)):
        result = workbench.run(
            topology={"name": "rail-only", "domains": domains, "rails": rails}, router="hscore",
            collective=name, size=size, iterations=2,
        )  # fmt: skip
        assert result.summary is not None
        figures.append(Claim(name, times * seconds * 1e6, result.summary.declared_time_us, "us"))
    return Claims(tuple(figures))


def r07(workbench: Workbench, *, domains: int = 4, rails: int = 4, dst: str = "g1.1") -> Claims:
    """The path of a pair on two rails of a healthy rail-only fabric."""
    fabric = workbench.fabric("rail-only", domains=domains, rails=rails)
    pair = workbench.explained(fabric, ("g0.0", dst), router="hscore")
    links = [find_link(fabric, hop.link) for hop in pair.paths[0].hops]
    crossed = [fabric.node_kind(int(fabric.link_dst[link])) for link in links[::2]]
    via = fabric.coordinates(int(fabric.link_dst[links[1]]))
    target = fabric.coordinates(fabric.node_ids[dst])
    return Claims(
        (
            Claim("switches crossed", "domain, rail", ", ".join(crossed)),
            Claim("forwarded by the GPU of the destination's rank", True, via[1] == target[1]),
            Claim("forwarded in the source's domain", True, via[0] == 0),
        )
    )


def r08(
    workbench: Workbench,
    *,
    domains: int = 4,
    rails: int = 4,
    faults: Sequence[str] = ("down rail:1", "down link:g0.0->r0"),
    router: str = "hscore",
) -> Claims:
    """A rail switch, or a link, is lost: pairs that lose their path, and what an all-to-all keeps."""
    figures = []
    for fault in faults:
        report = workbench.loads(
            "all-to-all", topology={"name": "rail-only", "domains": domains, "rails": rails}, router=router,
            faults=[fault],
        )  # fmt: skip
        figures += [
            Claim(f"{fault}: pairs without a path", 0, len(report.unreachable)),
            Claim(f"{fault}: throughput of an all-to-all", None, report.ratio),
        ]
    return Claims(tuple(figures))


TABLE_2 = (
    (32768, 64, 2560, 1536, 196608, 131072, 37.0), (32768, 128, 1280, 256, 196608, 65536, 75.0),
    (32768, 256, 384, 128, 131072, 65536, 60.0), (65536, 64, 5120, 3072, 393216, 262144, 37.0),
    (65536, 128, 2560, 1536, 393216, 262144, 37.0), (65536, 256, 1280, 256, 393216, 131072, 75.0),
)  # fmt: skip
"""GPUs, radix, switches and transceivers of both networks, percent saved, as printed."""


def r13(
    workbench: Workbench,
    *,
    domain: int = 256,
    port_dollars: float = 748.0,
    transceiver_dollars: float = 374.0,
) -> Claims:
    """Table 2: all its switches and transceivers, and what rail-only saves."""
    figures = []
    for gpus, radix, switches, rail_switches, transceivers, rail_transceivers, saved in TABLE_2:
        both = compare(
            gpus, domain, radix, port_dollars=port_dollars, transceiver_dollars=transceiver_dollars
        )
        name = f"{gpus} GPUs, radix {radix}"
        figures += [
            Claim(f"{name}: switches", switches, both.any_to_any.switches),
            Claim(f"{name}: switches, rail-only", rail_switches, both.rail_only.switches),
            Claim(f"{name}: transceivers", transceivers, both.any_to_any.transceivers),
            Claim(f"{name}: transceivers, rail-only", rail_transceivers, both.rail_only.transceivers),
            Claim(f"{name}: saved", saved, 100 * both.cut, "%"),
        ]
    return Claims(tuple(figures))


def r14(
    workbench: Workbench,
    *,
    rails: int = 4,
    domains: int = 4,
    size: float = 1e9,
    rail_bytes_per_s: float = 50e9,
    fast: float = 1e6,
) -> Claims:
    """Equations 8 and 9 where C_F is `fast` times C_S, against (y-1) / C_S a shard and every subset."""
    grid = Grid(rails, domains, fast * rail_bytes_per_s, rail_bytes_per_s)
    real = Grid(rails, domains, *H100_GRID)
    limit = (domains - 1) / rail_bytes_per_s * size / grid.gpus
    figures = []
    for words, only in (("equation 8, rail-optimised", False), ("equation 9, rail-only", True)):
        searched = bound_by_search_s(real, size, rail_only=only)
        figures += [
            Claim(f"{words}, C_F much above C_S", limit, bound_s(grid, size, rail_only=only), "s"),
            Claim(f"{words}, over every subset", searched, bound_s(real, size, rail_only=only), "s"),
        ]
    figures.append(
        Claim("equation 1 over equation 9", None, ag_time_s(size, real) / bound_s(real, size, rail_only=True))
    )
    return Claims(tuple(figures))


def r15(
    workbench: Workbench,
    *,
    rails: int = 8,
    domains: int = 4,
    size: float = 1e6,
    domain_bytes_per_s: float = H100_GRID[0],
    rail_bytes_per_s: float = H100_GRID[1],
) -> Claims:
    """Equations 20 to 22: an all-to-all over any-to-any and rail-only networks."""
    grid = Grid(rails, domains, domain_bytes_per_s, rail_bytes_per_s)
    times = all_to_all_s(size, grid)
    ratio = rail_bytes_per_s / domain_bytes_per_s
    exact = domains * (rails - 1) * rail_bytes_per_s / (rails * (domains - 1) * domain_bytes_per_s)
    return Claims(
        (
            Claim("slower by C_F / C_S, as printed", 1 / ratio, times.slowdown),
            Claim("slower by C_S / C_F", ratio, times.slowdown),
            Claim("slower by y (x-1) C_S / (x (y-1) C_F)", exact, times.slowdown),
            Claim("any-to-any, equation 20", max((rails - 1) * size / domain_bytes_per_s,
                   rails * (domains - 1) * size / rail_bytes_per_s), times.full_s, "s"),
            Claim("rail-only, equation 21", domains * (rails - 1) * size / domain_bytes_per_s
                   + rails * (domains - 1) * size / rail_bytes_per_s, times.rail_only_s, "s"),
        )
    )  # fmt: skip
