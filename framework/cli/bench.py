"""`railweave bench`: lists and runs the registered benchmarks."""

from collections.abc import Mapping
from typing import Any

import click

from railweave.framework.api import labs
from railweave.framework.cli._context import (
    example,
    json_command,
    print_json,
    print_text,
    registers,
    sentence,
    table,
)
from railweave.framework.cli._signals import raised_signals
from railweave.framework.parameters import Parameter, resolve


class Benchmarks(click.Group):
    """A command per registered benchmark."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(registers(ctx)["benchmark"])

    def get_command(self, ctx: click.Context, name: str) -> click.Command:
        benchmark = labs.benchmark(name, registers(ctx))

        quick = " --quick" * any(parameter.name == "quick" for parameter in benchmark.parameters)
        summary = sentence(benchmark.summary)

        @click.command(
            name, help=summary, short_help=summary, epilog=example(f"railweave bench {name}{quick} --json")
        )
        @json_command
        def run(_: click.Context, /, as_json: bool, **options: object) -> None:
            chosen = {key: value for key, value in options.items() if value is not None}
            values = resolve(f"benchmark {name}", benchmark.parameters, chosen)
            with raised_signals():
                figures = labs.benchmarked(name, benchmark, values, lambda text: click.echo(text, err=True))
            if as_json:
                print_json(f"bench.{name}", **figures)
            else:
                _show(figures)

        run.params = [*map(_option, benchmark.parameters), *reversed(run.params)]
        return run


@click.group(cls=Benchmarks, epilog=example("railweave bench bring-up --gpus 64"))
def bench() -> None:
    """Measure this machine. Figures are compared with a known baseline in the same run where there is one.

    In a checkout also benchmarks of railweave itself, in tests/bench/: files, flows, health, live, report,
    sweep, and all rows of fluid.
    """


def _option(parameter: Parameter) -> click.Option:
    flag = "--" + parameter.name.replace("_", "-")
    if parameter.unit == "bool":
        return click.Option(
            [f"{flag}/--no-{flag[2:]}", parameter.name], default=None, help=sentence(parameter.help)
        )
    default = "" if parameter.default == "" else f"  [default: {parameter.default}]"
    text = sentence(f"{parameter.help}; {parameter.expects}") + default
    return click.Option([flag, parameter.name], metavar=parameter.unit.upper(), help=text)


def _show(figures: Mapping[str, Any], prefix: str = "") -> None:
    """A line per figure, nested names joined by dots; lists of mappings as tables."""
    for key, value in figures.items():
        if isinstance(value, Mapping):
            _show(value, f"{prefix}{key}.")
        elif isinstance(value, list | tuple) and value and all(isinstance(row, Mapping) for row in value):
            print_text(table(list(value[0]), [[_text(cell) for cell in row.values()] for row in value]))
        else:
            print_text(f"{prefix + key:<32} {_text(value)}")


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(map(_text, value))
    return f"{value:.4g}" if isinstance(value, float) else "-" if value is None else str(value)
