"""`railweave model cost` and `railweave model allgather`: what rails cost, and what they take from collectives."""

from __future__ import annotations

from dataclasses import asdict

import click

from railweave.framework.cli.context import example, json_option, print_json, table, verbose_option


@click.command(
    "cost",
    epilog=example("railweave model cost", "railweave model cost --gpus 4096 --domain 8 --radix 64 --json"),
)
@click.option(
    "--gpus", type=int, multiple=True, metavar="N", help="N, all GPUs; may be repeated. [32768, 65536]"
)
@click.option("--domain", type=int, default=256, show_default=True, help="K, GPUs in an HB domain.")
@click.option(
    "--radix", type=int, multiple=True, metavar="K", help="Ports of a switch; may be repeated. [64, 128, 256]"
)
@click.option("--port-price", type=float, default=748.0, show_default=True, help="Dollars per switch port.")
@click.option(
    "--transceiver-price", type=float, default=374.0, show_default=True, help="Dollars per transceiver."
)
@json_option
@verbose_option
def cost(
    gpus: tuple[int, ...], domain: int, radix: tuple[int, ...], port_price: float, transceiver_price: float,
    as_json: bool, verbose: bool,
) -> None:  # fmt: skip
    """Compare the parts and price of rail-only and any-to-any Clos networks.

    Tiers are the fewest T with 2 (k/2)^T >= n; (2T-1) n / k switches and 2 T n transceivers. Without options this
    is table 2 of the paper.
    """
    from railweave.framework.llm.cost import compare

    found = [
        compare(n, domain, k, port_dollars=port_price, transceiver_dollars=transceiver_price)
        for n in gpus or (32768, 65536)
        for k in radix or (64, 128, 256)
    ]
    if as_json:
        rows = [{**asdict(row), "per_rail": row.per_rail, "cut": row.cut} for row in found]
        prices = {"port_dollars": port_price, "transceiver_dollars": transceiver_price}
        print_json("model.cost", {"domain": domain, **prices, "networks": rows})
        return
    head = (
        "GPUs", "radix", "tiers", "rail tiers", "switches", "rail sw.", "transceivers", "rail tr.", "dollars",
        "rail dollars", "cut",
    )  # fmt: skip
    click.echo(f"HB domains of {domain}; any-to-any network against rail-only\n")
    click.echo(
        table(
            head,
            [
                (
                    row.gpus, row.radix, row.any_to_any.tiers, row.rail_only.tiers, row.any_to_any.switches,
                    row.rail_only.switches, row.any_to_any.transceivers, row.rail_only.transceivers,
                    round(row.any_to_any.dollars), round(row.rail_only.dollars), f"{100 * row.cut:.1f} %",
                )
                for row in found
            ],
        )
    )  # fmt: skip


@click.command(
    "allgather",
    epilog=example("railweave model allgather --size 1000000000 --domains 4 --rails 8 --gpu a100"),
)
@click.option("--size", metavar="BYTES", default="1G", show_default=True, help="D, the whole array.")
@click.option("--rails", type=int, default=8, show_default=True, help="x, GPUs in an HB domain.")
@click.option("--domains", type=int, default=4, show_default=True, help="y, HB domains.")
@click.option(
    "--gpu", metavar="NAME", default="h100", show_default=True, help="Preset of the rates: a100 or h100."
)
@click.option("--domain-rate", metavar="RATE", help="A GPU's rate into its HB domain, per direction.")
@click.option("--rail-rate", metavar="RATE", help="A GPU's rate onto its rail, per direction.")
@json_option
@verbose_option
def allgather(
    size: str, rails: int, domains: int, gpu: str, domain_rate: str | None, rail_rate: str | None, as_json: bool,
    verbose: bool,
) -> None:  # fmt: skip
    """Time of the hierarchical all-gather (equation 1), and what no algorithm beats (equations 8 and 9).

    The bounds are searched over full rows and columns of GPUs, and up to 20 GPUs also over every subset. Then the
    all-to-all of D bytes per pair (equations 20 to 22).
    """
    from railweave.framework.llm.all_gather import (
        EXHAUSTIVE_GPUS,
        Grid,
        ag_time_s,
        all_to_all_s,
        bound_by_search_s,
        bound_s,
        domain_phase_bytes,
        rail_phase_bytes,
    )
    from railweave.framework.llm.clusters import gpu_named
    from railweave.framework.parameters import Parameter
    from railweave.framework.quantities import time

    bytes_ = int(Parameter("--size", 0, "bytes", "", minimum=0).parse(size))
    preset = gpu_named(gpu)
    rates = [
        preset_rate if text is None else float(Parameter(name, 0.0, "rate", "", minimum=1).parse(text)) / 8
        for name, text, preset_rate in (
            ("--domain-rate", domain_rate, preset.domain_bytes_per_s),
            ("--rail-rate", rail_rate, preset.rail_bytes_per_s),
        )
    ]
    grid = Grid(rails, domains, rates[0], rates[1])
    seconds, swaps = ag_time_s(bytes_, grid), all_to_all_s(bytes_, grid)
    networks = {"rail-optimised": False, "rail-only": True}
    bounds = {name: bound_s(grid, bytes_, rail_only=only) for name, only in networks.items()}
    tried = None
    if grid.gpus <= EXHAUSTIVE_GPUS:
        tried = {name: bound_by_search_s(grid, bytes_, rail_only=only) for name, only in networks.items()}
    phases = {"rail": rail_phase_bytes(bytes_, grid), "domain": domain_phase_bytes(bytes_, grid)}
    if as_json:
        print_json(
            "model.allgather",
            {
                "size_bytes": bytes_, **asdict(grid), "all_gather_s": seconds, "received_bytes": phases,
                "bounds_s": bounds, "bounds_over_all_subsets_s": tried,
                "all_to_all": {**asdict(swaps), "slowdown": swaps.slowdown},
            },
        )  # fmt: skip
        return
    click.echo(f"all-gather of {size} over {domains} HB domains of {rails} ({bytes_} bytes)\n")
    rows = [("hierarchical (equation 1)", time(seconds), "", "")]
    for name, equation in (("rail-optimised", 8), ("rail-only", 9)):
        over = f"{seconds / bounds[name]:.3f}" if bounds[name] else "-"
        rows.append(
            (
                f"bound, {name} (equation {equation})",
                time(bounds[name]),
                over,
                time(tried[name]) if tried else "-",
            )
        )
    click.echo(table(("what", "time", "equation 1 over it", "over every subset"), rows))
    click.echo(
        f"\neach GPU receives {phases['rail']:.6g} bytes over its rail, then {phases['domain']:.6g} in its domain"
        f"\nall-to-all of {size} per pair: {time(swaps.full_s)} any-to-any, {time(swaps.rail_only_s)} rail-only, "
        f"{100 * swaps.slowdown:.2f} % slower"
    )
