"""`railweave doctor`: what this machine can do."""

from dataclasses import asdict

import click

from railweave.framework.cli._context import example, json_command, print_json, print_text

_MARKS = {True: "ok", False: "MISSING", None: "limited"}


@click.command(
    epilog=example("railweave doctor --json"),
)
@json_command
def doctor(ctx: click.Context, as_json: bool) -> None:
    """Report what this machine can do for a lab, and how to fix the rest.

    `limited` means that a run works without it. Exits with 2 when something is missing that a run needs.
    """
    from railweave.framework.api.labs import machine

    checks = machine()
    able = all(finding.ok is not False for finding in checks)
    if as_json:
        print_json("doctor", able=able, findings=[asdict(finding) for finding in checks])
    else:
        width = max((len(f.name) for f in checks), default=0)
        for finding in checks:
            print_text(f"{_MARKS[finding.ok]:<8} {finding.name:<{width}}  {finding.detail}")
            if finding.ok is not True and finding.fix:
                print_text(f"{'':<8} {'':<{width}}  fix: {finding.fix}")
    if not able:
        ctx.exit(2)
