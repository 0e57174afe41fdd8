"""`railweave bench`: figures of this machine, each as ratios to a known way in the same run."""

from __future__ import annotations

from collections.abc import Mapping

import click

from railweave.framework.cli.context import example, json_option, print_json, registers, verbose_option
from railweave.framework.cli.signals import raised_signals


@click.group(
    short_help="Measure this machine: bring-up, transport, throughput, rule installation.",
    epilog=example("railweave bench bring-up --gpus 64"),
)
def bench() -> None:
    """Measure this machine: how fast labs come up, packets go out and rules go in."""


@bench.command("bring-up", epilog=example("railweave bench bring-up --gpus 64 --repeat 3 --json"))
@click.option(
    "--gpus", type=click.IntRange(2), default=64, show_default=True, help="Size of the rail-only fabric."
)
@click.option(
    "--repeat", type=click.IntRange(1), default=1, show_default=True, help="Runs of each; medians are shown."
)
@json_option
@verbose_option
def bring_up(gpus: int, repeat: int, as_json: bool, verbose: bool) -> None:
    """Time bringing a shaped fabric up and down, against stock Mininet with TCLink."""
    from railweave.framework.lab.bench import bring_up as measure

    with raised_signals():
        _show("bring-up", measure(gpus, repeat), as_json=as_json)


@bench.command("transport", epilog=example("railweave bench transport --seconds 5"))
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    default=3.0,
    show_default=True,
    help="Length of each part.",
)
@json_option
@verbose_option
def transport(seconds: float, as_json: bool, verbose: bool) -> None:
    """Count payload packets per second of one core over one veth, against scapy and a bare socket loop."""
    from railweave.framework.lab.bench import transport as measure

    with raised_signals():
        _show("transport", measure(seconds), as_json=as_json)


@bench.command("throughput", epilog=example("railweave bench throughput --gpus 16 --json"))
@click.option(
    "--gpus", type=click.IntRange(4), default=16, show_default=True, help="Size of the rail-only fabric."
)
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    default=1.0,
    show_default=True,
    help="Length of each part of a turn.",
)
@click.option(
    "--turns", type=click.IntRange(1), default=7, show_default=True, help="Of each; medians are shown."
)
@click.option(
    "--quick", is_flag=True, help="One short turn without iperf3: to see it work; no figures to quote."
)
@json_option
@verbose_option
@click.pass_context
def throughput(
    ctx: click.Context, gpus: int, seconds: float, turns: int, quick: bool, as_json: bool, verbose: bool
) -> None:
    """Count the payload of all GPUs sending at once, against bare senders over the same switches and rules.

    Every GPU sends to the next, path MTU 4096, no link binds. Bare senders: ready bytes by sendmmsg, and iperf3's UDP
    where it is installed, both at the load at which most arrives. They and the transport take turns in one lab.
    """
    from railweave.framework.lab.throughput import throughput as measure

    length, count = (0.3, 1) if quick else (seconds, turns)
    with raised_signals():
        figures = measure(
            registers(ctx), gpus, length, count, lambda what: click.echo(what, err=True), iperf=not quick
        )
    _show("throughput", figures, as_json=as_json)


@bench.command("datapaths", epilog=example("railweave bench datapaths --turns 3"))
@click.option(
    "--gpus", type=click.IntRange(4), default=16, show_default=True, help="Size of the rail-only fabric."
)
@click.option(
    "--seconds",
    type=click.FloatRange(1),
    default=5.0,
    show_default=True,
    help="Length of each part of a turn.",
)
@click.option(
    "--turns", type=click.IntRange(1), default=3, show_default=True, help="Of each; medians are shown."
)
@json_option
@verbose_option
@click.pass_context
def datapaths(
    ctx: click.Context, gpus: int, seconds: float, turns: int, as_json: bool, verbose: bool
) -> None:
    """Compare Open vSwitch in the kernel with Open vSwitch as a process: bring-up, payload of all GPUs, idle health.

    Needs a kernel with the module openvswitch; the VM lab has one.
    """
    from railweave.framework.lab.datapaths import datapaths as measure

    with raised_signals():
        figures = measure(registers(ctx), gpus, seconds, turns, lambda what: click.echo(what, err=True))
    _show("datapaths", figures, as_json=as_json)


@bench.command("install", epilog=example("railweave bench install --rules 10000"))
@click.option(
    "--rules", type=click.IntRange(1), default=10_000, show_default=True, help="How many to install."
)
@json_option
@verbose_option
def install(rules: int, as_json: bool, verbose: bool) -> None:
    """Count rules per second through the controller, against one ovs-ofctl bundle."""
    from railweave.framework.lab.bench import install as measure

    with raised_signals():
        _show("install", measure(rules), as_json=as_json)


@bench.command("routes", epilog=example("railweave bench routes --json"))
@click.option(
    "--quick", is_flag=True, help="On fabrics of 16 to 64 GPUs: to see it work; no figures to quote."
)
@json_option
@verbose_option
@click.pass_context
def routes(ctx: click.Context, quick: bool, as_json: bool, verbose: bool) -> None:
    """Time deciding all pairs' routes beside networkx, best-fit lookups, and the link loads of all-to-all.

    rail-only 64x64 and torus 16x16x16 (16.8 M pairs each). networkx is measured on some sources and scaled.
    """
    from railweave.framework.routebench import QUICK, Sizes
    from railweave.framework.routebench import routes as measure

    figures = measure(registers(ctx), QUICK if quick else Sizes(), lambda what: click.echo(what, err=True))
    _show("routes", figures, as_json=as_json)


def _show(name: str, figures: Mapping[str, object], *, as_json: bool) -> None:
    if as_json:
        print_json(f"bench.{name}", dict(figures))
        return
    for key, value in _flat(figures):
        click.echo(f"{key:<32} {value:.4g}" if isinstance(value, float) else f"{key:<32} {value}")


def _flat(figures: Mapping[str, object], prefix: str = "") -> list[tuple[str, object]]:
    pairs: list[tuple[str, object]] = []
    for key, value in figures.items():
        if isinstance(value, Mapping):
            pairs += _flat(value, f"{prefix}{key}.")
        else:
            pairs.append((prefix + key, value))
    return pairs
