"""`railweave completion`: click's own scripts for shells."""

import click
from click.shell_completion import get_completion_class

from railweave.framework.cli import main
from railweave.framework.cli._context import example

SHELLS = ("bash", "zsh", "fish")


@click.command(epilog=example("railweave completion bash > ~/.railweave-completion"))
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script that makes SHELL complete commands and options of railweave. In the start-up file of
    the shell: `eval "$(railweave completion bash)"`, with zsh the same, with fish
    `railweave completion fish | source`."""
    kind = get_completion_class(shell)
    assert kind is not None  # all of SHELLS are click's own
    click.echo(kind(main, {}, "railweave", "_RAILWEAVE_COMPLETE").source())
