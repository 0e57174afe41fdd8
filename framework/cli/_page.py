"""The live page of `railweave run --live`, and what both commands that serve pages share."""

import contextlib
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from railweave.framework.errors import InputError, MachineError
from railweave.framework.experiment.plan import Plan
from railweave.framework.model.events import RunEvent
from railweave.framework.registry import Registers

if TYPE_CHECKING:
    from railweave.framework.results.directory import RunDirectory
    from railweave.framework.results.result import RunResult

PACKAGES = ("starlette", "uvicorn", "sse_starlette")


def check_packages(option: str) -> None:
    """Raises MachineError where the extra `live` is not installed."""
    if missing := [name for name in PACKAGES if find_spec(name) is None]:
        raise MachineError(
            f"{option} needs {', '.join(missing).replace('_', '-')}, not installed here. Install the extra: "
            "pip install 'railweave[live]'. Every run leaves RUN/report.html, which opens without a server."
        )


@contextlib.contextmanager
def live_page(
    plan: Plan, directory: "RunDirectory", registers: Registers, port: int | None
) -> Iterator[tuple[Callable[[RunEvent], None], Callable[["RunResult"], None]]]:
    """Serve the page of a run during the block, and print its address on stderr: what is to receive the run's
    events, and its result. A directory whose run cannot be served goes again. `port`: None for no page."""
    if port is None:
        yield (lambda event: None), (lambda result: None)
        return
    from railweave.framework.page.data.directories import page_of_run
    from railweave.framework.page.serving.live_page import followed

    with contextlib.ExitStack() as stack:
        try:
            url, page = stack.enter_context(followed(plan, directory.path, port))
        except InputError:
            directory.discard()
            raise
        click.echo(f"live        {url}", err=True)

        def end(result: "RunResult") -> None:
            page.end(page_of_run(directory.path, registers, result=result, fabric=plan.fabric))

        yield page.emit, end
