"""`railweave serve`: pages of runs on disk."""

import contextlib
import secrets
import threading
from pathlib import Path

import click

from railweave.framework.cli._context import example, plain_command, print_text, registers
from railweave.framework.cli._page import check_packages
from railweave.framework.errors import InputError


@click.command(
    epilog=example(
        "railweave serve",
        "railweave serve runs/20261122-074744-hscore-rail-only",
        "railweave serve /tmp/runs --port 8000",
    )
)
@click.argument("path", metavar="[RUN|DIR]", type=click.Path(path_type=Path), default=Path("runs"))
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="By default any that is free.")
@plain_command
def serve(ctx: click.Context, /, path: Path, port: int) -> None:
    """Serve the pages of RUN, or of all runs below DIR (by default runs) and the JSON of `compare` and
    `chaos` in it, on this machine until Ctrl-C.

    Only 127.0.0.1 is served, to those who have the address that is printed. A page that is loaded again shows
    what the run has written since.
    """
    check_packages("serve")
    if not path.is_dir():
        raise InputError(f"{path} is no directory. Give one of a run, or one that holds some.")
    from railweave.framework.page.data.directories import page_of_run
    from railweave.framework.page.data.page_data import PageData
    from railweave.framework.page.data.study_pages import campaign_page
    from railweave.framework.page.serving.browsing import browsing
    from railweave.framework.page.serving.server import PageServer

    loaded, token = registers(ctx), secrets.token_urlsafe(16)

    def page_of(source: Path) -> PageData:
        return campaign_page(source) if source.is_file() else page_of_run(source, loaded)

    with PageServer(browsing(path, token, page_of), port) as server:
        print_text(f"{server.url}/{token}/")
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()
