"""Where a command keeps the rows and runs of its study."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from railweave.framework.api.studies import has_rows
from railweave.framework.results.directory import RunDirectory


@contextmanager
def study_directory(label: str) -> Iterator[Path]:
    """A new directory under runs/; one without a row in the end is taken back."""
    path = RunDirectory.create(None, label).path
    try:
        yield path
    finally:
        if has_rows(path):
            click.echo(f"rows and runs in {path}", err=True)
        else:
            shutil.rmtree(path)
