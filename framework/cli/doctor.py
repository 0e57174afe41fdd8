"""`railweave doctor`: what this machine can do."""

from __future__ import annotations

import click

from railweave.framework.cli.context import example, json_option, print_json, verbose_option

_MARKS = {True: "ok", False: "MISSING", None: "limited"}


@click.command(
    short_help="Say what this machine can do, and how to mend the rest.",
    epilog=example("railweave doctor --json"),
)
@json_option
@verbose_option
@click.pass_context
def doctor(ctx: click.Context, as_json: bool, verbose: bool) -> None:
    """Say what this machine can do for a lab, and how to mend what it cannot.

    `limited` means that a run works without it. Exits with 2 when something is missing that a run needs.
    """
    from railweave.framework.lab.doctor import findings

    found = findings()
    able = all(finding.ok is not False for finding in found)
    if as_json:
        entries = [{"name": f.name, "ok": f.ok, "detail": f.detail, "mend": f.mend} for f in found]
        print_json("doctor", {"able": able, "findings": entries})
    else:
        width = max((len(f.name) for f in found), default=0)
        for finding in found:
            click.echo(f"{_MARKS[finding.ok]:<8} {finding.name:<{width}}  {finding.detail}")
            if finding.ok is not True and finding.mend:
                click.echo(f"{'':<8} {'':<{width}}  mend: {finding.mend}")
    if not able:
        ctx.exit(2)
