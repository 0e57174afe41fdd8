"""`railweave schema`: JSON schemas of the files that a run reads and writes."""

import json

import click

from railweave.framework.cli._context import example, plain_command, print_text, registers


@click.command(
    short_help="Print the JSON schema of experiment files or results.",
    epilog=example("railweave schema experiment > experiment.schema.json"),
)
@click.argument("document", type=click.Choice(["experiment", "result"]))
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "markdown"]),
    default="json",
    show_default=True,
    help="markdown, of experiment alone: the page docs/experiment.md.",
)
@plain_command
def schema(ctx: click.Context, document: str, form: str) -> None:
    """Print the JSON schema of experiment files, with the options of every installed plugin, or of
    results."""
    if document == "result":
        from railweave.framework.results.result import json_schema

        print_text(json.dumps(json_schema(), indent=1))
        return
    from railweave.framework.experiment import reference

    if form == "markdown":
        print_text(reference.markdown(), nl=False)
    else:
        print_text(json.dumps(reference.json_schema(registers(ctx)), indent=1))
