"""The `railweave` command. A file per subcommand, imported when it is called: `--help` must not wait for
numpy.

The subcommands are a shell over `railweave.framework.api`: they turn options into keys, and results into
text.
"""

import os
import traceback
from importlib import import_module
from itertools import islice
from typing import Any, NoReturn

import click

from railweave.framework.cli._signals import Terminated
from railweave.framework.errors import RailweaveError, did_you_mean

VERBOSE = "railweave.verbose"
"""Key of click's `ctx.meta` that `-v` sets; tracebacks are shown then."""
KEPT = "railweave.kept"
"""Key of click's `ctx.meta`: what an interrupted command leaves, and where, as a sentence."""

FILES = "RAILWEAVE_PLUGINS"
"""As the registry has it, which most commands need not import."""

COMMANDS = {
    "run": "Run an experiment in a lab, or compute it (--engine).",
    "report": "Write a run, a comparison or a campaign as one HTML file.",
    "export": "Write a run for Prometheus, Inspector, Perfetto; CSV, Parquet.",
    "serve": "Serve the pages of runs on disk, on this machine.",
    "topo": "List fabrics, or show one.",
    "routers": "List the routers and the fabrics they serve.",
    "plugins": "List everything that plugins offer.",
    "plugin": "Write a new plugin, or check one.",
    "compare": "Compare routers under a fault, jobs on shared rails, or engines.",
    "what-if": "Compute a finished run at 10, 100, 1,000 times the GPUs; no lab.",
    "bmwg": "Run the procedures of IETF BMWG drafts that can be run here.",
    "sweep": "Run an experiment at every combination of settings; resume it.",
    "chaos": "Run random faults from a seed and check how each run ends.",
    "verify": "Prove on the lab that packets follow the route table.",
    "watch": "Keep an idle lab up and report the lowest health published.",
    "doctor": "Report what this machine can do, and how to fix the rest.",
    "shell": "Bring up the lab and open Mininet's prompt in it.",
    "explain": "Show the path between two GPUs, and the reasons for it; no lab.",
    "loads": "Compute the load of every link under a traffic pattern; no lab.",
    "schema": "Print the JSON schema of experiment files or results.",
    "model": "Evaluate the formulas of the papers; no lab.",
    "paper": "Compare figures of four papers with those computed here; no lab.",
    "completion": "Print the script that completes commands and options in a shell.",
    "bench": "Measure this machine: bring-up, throughput, fluid and others.",
}


class LazyGroup(click.Group):
    """Loads subcommands by name and turns what they raise into messages and exit codes."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """`--plugin` may stand behind the command's name as well: commands have options of plugins."""
        mine, others = list[str](), list[str]()
        words = iter(args)
        for word in words:
            if word == "--":
                others += [word, *words]
            elif word == "--plugin":
                mine += [word, *islice(words, 1)]
            else:
                (mine if word.startswith("--plugin=") else others).append(word)
        return super().parse_args(ctx, [*mine, *others])

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            if not name.startswith("-"):
                ctx.fail(f"No such command {name!r}.{did_you_mean(name, COMMANDS)}")
            return None
        module = name.replace("-", "_")
        command = getattr(import_module(f"railweave.framework.cli.{module}"), module)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except RailweaveError as error:
            _end(ctx, str(error), error.exit_code)
        except KeyboardInterrupt:
            _end(ctx, " ".join(["interrupted.", *_kept(ctx)]), 130)
        except Terminated as error:
            _end(ctx, " ".join([f"ended by {error.signal.name}.", *_kept(ctx)]), 128 + error.signal)


def _kept(ctx: click.Context) -> list[str]:
    return [ctx.meta[KEPT]] if KEPT in ctx.meta else []


def _end(ctx: click.Context, message: str, exit_code: int) -> NoReturn:
    if ctx.meta.get(VERBOSE):
        click.echo(traceback.format_exc(), err=True, nl=False)
    click.echo(f"railweave: {message}", err=True)
    ctx.exit(exit_code)


def _version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        import railweave

        click.echo(f"railweave {railweave.__version__}")
        ctx.exit()


def _add_plugins(_: click.Context, __: click.Parameter, files: tuple[str, ...]) -> None:
    """For this process and all that it starts: labs, workers."""
    listed = [name for name in os.environ.get(FILES, "").split(os.pathsep) if name]
    os.environ[FILES] = os.pathsep.join([*listed, *map(os.path.abspath, files)])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="\b\nExample:\n  railweave run --fault 'at=iter:4 degrade rail:1 to=20%'\n\n"
    "\b\nExit codes: 0 done, 1 the run failed, 2 bad usage, input or machine;\n"
    "129, 130, 143 ended by SIGHUP, Ctrl-C, SIGTERM.",
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show it."
)
@click.option(
    "--plugin", multiple=True, is_eager=True, expose_value=False, callback=_add_plugins, metavar="FILE.py",
    help="Load plugins from a file, for every command.",
)  # fmt: skip
def main() -> None:
    """Emulate the networks of AI clusters with real packets; measured link health steers the routes."""
