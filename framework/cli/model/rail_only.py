"""`railweave model cost` and `railweave model allgather`: what rail-only networks cost and how fast they
gather."""

from dataclasses import asdict

import click

from railweave.framework.cli._context import example, json_command, print_json, print_text, table
from railweave.framework.cli.model._options import SIZE, gpu_options, value_option
from railweave.framework.papers.training.all_gather import (
    EXHAUSTIVE_GPUS,
    Grid,
    ag_time_s,
    all_to_all_s,
    bound_by_search_s,
    bound_s,
    domain_phase_bytes,
    rail_phase_bytes,
)
from railweave.framework.papers.training.clusters import gpu_named
from railweave.framework.papers.training.cost import compare
from railweave.framework.parameters import units


@click.command(
    "cost",
    short_help="Price a rail-only network and an any-to-any Clos.",
    epilog=example("railweave model cost", "railweave model cost --gpus 4096 --domain 8 --radix 64 --json"),
)
@value_option("--gpus", (32768, 65536), int, "N, GPUs in the cluster.")
@value_option("--domain", 256, int, "K, GPUs in an HB domain.")
@value_option("--radix", (64, 128, 256), int, "Ports of a switch.")
@value_option("--port-price", 748.0, float, "Dollars per switch port.")
@value_option("--transceiver-price", 374.0, float, "Dollars per transceiver.")
@json_command
def cost(
    _: click.Context,
    gpus: tuple[int, ...],
    domain: int,
    radix: tuple[int, ...],
    port_price: float,
    transceiver_price: float,
    as_json: bool,
) -> None:
    """Compare the parts and the price of a rail-only network with an any-to-any Clos network.

    Tiers are the fewest T with 2 (k/2)^T >= n; (2T-1) n / k switches and 2 T n transceivers. Without options
    this is table 2 of the paper. --gpus and --radix may be repeated.
    """
    networks = [
        compare(n, domain, k, port_dollars=port_price, transceiver_dollars=transceiver_price)
        for n in gpus
        for k in radix
    ]
    if as_json:
        print_json(
            "model.cost",
            domain=domain,
            port_dollars=port_price,
            transceiver_dollars=transceiver_price,
            networks=[{**asdict(row), "per_rail": row.per_rail, "cut": row.cut} for row in networks],
        )
        return
    cells = [
        (
            row.gpus,
            row.radix,
            row.any_to_any.tiers,
            row.rail_only.tiers,
            row.any_to_any.switches,
            row.rail_only.switches,
            row.any_to_any.transceivers,
            row.rail_only.transceivers,
            round(row.any_to_any.dollars),
            round(row.rail_only.dollars),
            f"{100 * row.cut:.1f} %",
        )
        for row in networks
    ]
    print_text(f"HB domains of {domain}; any-to-any network against rail-only\n")
    parts = ("tiers", "switches", "transceivers", "dollars")
    print_text(
        table(["GPUs", "radix", *(f"{net}{x}" for x in parts for net in ("", "rail ")), "saved"], cells)
    )


@click.command(
    "allgather",
    short_help="Compute the time of a hierarchical all-gather.",
    epilog=example("railweave model allgather --size 1000000000 --domains 4 --rails 8 --gpu a100"),
)
@value_option("--size", "1G", SIZE, "D, bytes of the whole array.")
@value_option("--rails", 8, int, "x, GPUs in an HB domain.")
@value_option("--domains", 4, int, "y, HB domains.")
@gpu_options("h100")
@json_command
def allgather(
    _: click.Context,
    size: int,
    rails: int,
    domains: int,
    gpu: str,
    domain_rate: float | None,
    rail_rate: float | None,
    as_json: bool,
) -> None:
    """Compute the time of a hierarchical all-gather (equation 1) and lower bounds for any (equations 8 and
    9).

    The bounds are searched over full rows and columns of GPUs, and up to 20 GPUs also over every subset. Then
    the all-to-all of D bytes per pair (equations 20 to 22).
    """
    preset = gpu_named(gpu, domain_bps=domain_rate, rail_bps=rail_rate)
    grid = Grid(rails, domains, preset.domain_bytes_per_s, preset.rail_bytes_per_s)
    seconds, exchange = ag_time_s(size, grid), all_to_all_s(size, grid)
    networks = {"rail-optimised": False, "rail-only": True}
    bounds = {name: bound_s(grid, size, rail_only=only) for name, only in networks.items()}
    searched = (
        {name: bound_by_search_s(grid, size, rail_only=only) for name, only in networks.items()}
        if grid.gpus <= EXHAUSTIVE_GPUS
        else None
    )
    phases = {"rail": rail_phase_bytes(size, grid), "domain": domain_phase_bytes(size, grid)}
    if as_json:
        print_json(
            "model.allgather",
            size_bytes=size,
            **asdict(grid),
            all_gather_s=seconds,
            bounds_s=bounds,
            bounds_over_all_subsets_s=searched,
            received_bytes=phases,
            all_to_all={**asdict(exchange), "slowdown": exchange.slowdown},
        )
        return
    size_text = units.size(size)
    print_text(f"all-gather of {size_text} over {domains} HB domains of {rails} ({size} bytes)\n")
    rows = [("hierarchical (equation 1)", units.time(seconds), "", "")]
    for name, equation in (("rail-optimised", 8), ("rail-only", 9)):
        ratio = f"{seconds / bounds[name]:.3f}" if bounds[name] else "-"
        every = units.time(searched[name]) if searched else "-"
        rows.append((f"bound, {name} (equation {equation})", units.time(bounds[name]), ratio, every))
    print_text(table(("what", "time", "equation 1 over it", "over every subset"), rows))
    print_text(
        f"\neach GPU receives {phases['rail']:.6g} bytes over its rail, then {phases['domain']:.6g} in its "
        f"domain\nall-to-all of {size_text} per pair: {units.time(exchange.full_s)} any-to-any, "
        f"{units.time(exchange.rail_only_s)} rail-only, {100 * exchange.slowdown:.2f} % slower"
    )
