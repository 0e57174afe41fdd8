"""Builds the documentation as a site, without a network: `python .ci/site.py [DIR]`, by default build/site.

The pages are those of docs/, which stay readable on a code host. The reference is generated from code:
commands, results, hooks, metrics. What the pages link to outside docs/ has no page here, and becomes text.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click
import yaml

ROOT = Path(__file__).resolve().parents[1]
NAV = {
    "Tutorial": ["tutorial.md"],
    "How-to": [
        f"how-to/{name}.md"
        for name in (
            "own-router", "own-fabric", "own-program", "slow-nic", "many-paths", "read-a-report",
            "compare-routers", "study-on-a-cluster", "virtual-machine",
        )
    ],
    "Guides": [
        "install.md", "routers.md", "multipath.md", "circuits.md", "fabrics.md", "imports.md", "programs.md",
        "prompt.md", "jobs.md", "studies.md", "report.md", "exports.md", "bmwg.md", "python.md", "vm.md",
    ],
    "Reference": [
        "pages.md", "cli.md", "experiment.md", "results.md", "result-schema.md", "hooks.md", "plugins.md",
        "directory.md", "metrics.md", "glossary.md", "dependencies.md", "changelog.md",
    ],
    "Explanation": [
        "architecture.md", "health.md", "health-figures.md", "fluid.md", "packets.md", "congestion.md",
        "fidelity.md", "fleet.md", "reliability.md",
    ],
    "Papers": ["papers.md"],
}  # fmt: skip
"""The pages by what they are for; all of docs/ and all that is generated."""
WIDTH = 90
"""Columns of the help of commands, as many as the page shows without scrolling."""
STYLE = ".md-grid { max-width: 76rem; }\n"
"""Room for lines of 120 columns of code and for tables, where the window has it."""
_LINK = re.compile(r"\[([^\]]*)\]\((?!\w+://|#)([^)#\s]+)(#[^)\s]*)?\)")
_NAMES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "docs/README.md": "pages.md"}
"""Files of the project whose pages have other names, from its top folder; others of docs/ keep theirs."""


def sources(into: Path) -> None:
    """Write all pages."""
    shutil.copytree(ROOT / "docs", into)
    (into / "README.md").unlink()
    for path in (*(ROOT / name for name in _NAMES), *(ROOT / "docs").rglob("*.md")):
        (into / _page_of(path)).write_text(_with_links_to_pages(path))
    for page, text in generated():
        (into / page).write_text(text)
    (into / "style.css").write_text(STYLE)


def _page_of(path: Path) -> str:
    """Where a file of the project stands in the site."""
    name = path.relative_to(ROOT).as_posix()
    return _NAMES.get(name, name.removeprefix("docs/"))


def _with_links_to_pages(path: Path) -> str:
    """The text of a file: links lead to pages of the site; those to anything else become text."""

    def of_site(link: re.Match[str]) -> str:
        target = (path.parent / link[2]).resolve()
        inside = target.is_relative_to(ROOT / "docs") or target.relative_to(ROOT).as_posix() in _NAMES
        if not inside or not target.is_file():
            return link[1]
        here = Path(_page_of(path)).parent
        text = _title(target) if link[1].endswith(".md") else link[1]
        return f"[{text}]({os.path.relpath(_page_of(target), here)}{link[3] or ''})"

    return _LINK.sub(of_site, path.read_text())


def _title(page: Path) -> str:
    """The heading of a page, which says more in a site than its file's name does."""
    return page.read_text().removeprefix("# ").partition("\n")[0]


def generated() -> Iterator[tuple[str, str]]:
    """The pages of the reference that are made of code."""
    yield "cli.md", "# Commands\n\nAs `--help-all` shows them.\n\n" + "\n".join(_commands())
    yield "result-schema.md", "# Schema of results\n\n" + _result_schema()
    yield "hooks.md", "# Hooks and protocols\n\n" + "\n".join(_hooks())
    yield "metrics.md", "# Metrics\n\n" + _metrics()


def _commands() -> Iterator[str]:
    from railweave.framework.cli import COMMANDS, main

    context = click.Context(main, info_name="railweave", terminal_width=WIDTH, **main.context_settings)
    for name in COMMANDS:
        command = main.get_command(context, name)
        assert command is not None
        yield from _help(command, click.Context(command, context, name, terminal_width=WIDTH))


def _help(command: click.Command, context: click.Context) -> Iterator[str]:
    from railweave.framework.cli._options import EVERYTHING

    context.meta[EVERYTHING] = True
    context.meta.pop("railweave.options", None)  # those of the command before
    yield f"## {context.command_path}\n\n```text\n{command.get_help(context)}\n```\n"
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from _help(inner, click.Context(inner, context, name, terminal_width=WIDTH))


def _result_schema() -> str:
    from railweave.framework.results.result import json_schema

    return (
        "JSON schema of `result.json`, as `railweave schema result` prints it; [Results](results.md) "
        f"explains the keys.\n\n```json\n{json.dumps(json_schema(), indent=1)}\n```\n"
    )


def _hooks() -> Iterator[str]:
    import inspect

    from railweave.framework import hookspecs

    for name in sorted(hookspecs.__all__):
        kind = getattr(hookspecs, name)
        if inspect.isclass(kind) and kind.__module__.startswith(hookspecs.__name__):
            yield f"## {name}\n\n{inspect.getdoc(kind) or ''}\n"
            for member, function in inspect.getmembers(kind, inspect.isfunction):
                if not member.startswith("_") and function.__module__ == kind.__module__:
                    yield f"### {name}.{member}\n\n```python\n{member}{inspect.signature(function)}\n```\n"
                    yield f"{inspect.getdoc(function) or ''}\n"


def _metrics() -> str:
    """Those of a small run."""
    import railweave as rw
    from railweave.framework.api import installed
    from railweave.framework.page.exports.formats import exported

    found: dict[str, tuple[str, str]] = {}
    with tempfile.TemporaryDirectory() as directory:
        for collective in ("all-reduce", "send-recv"):
            path = Path(directory) / collective
            rw.run(engine="fluid", domains=2, rails=2, size="64K", collective=collective, out=path)
            lines = exported(path, "prometheus", installed()).decode().splitlines()
            words = [line.split(" ", 3) for line in lines if line.startswith("# ")]
            for (_, _, name, help_), (_, _, _, kind) in zip(words[::2], words[1::2], strict=True):
                found[name] = kind, help_
    rows = "".join(f"| `{name}` | {kind} | {help_} |\n" for name, (kind, help_) in found.items())
    return (
        "What `railweave export RUN --format prometheus` and `/metrics` of the live page have "
        f"([Exports](exports.md)), with their HELP.\n\n| metric | type | is |\n|---|---|---|\n{rows}"
    )


def config(docs: str, site: str) -> str:
    """The configuration, in MkDocs' format."""
    nav = [{"Overview": "index.md"}, *({title: pages} for title, pages in NAV.items())]
    return yaml.safe_dump(
        {
            "site_name": "railweave",
            "docs_dir": docs,
            "site_dir": site,
            "use_directory_urls": False,
            "theme": {
                "name": "material",
                "font": False,
                "features": ["navigation.tabs", "navigation.indexes"],
            },
            "extra_css": ["style.css"],
            "plugins": ["search"],  # from a server; `offline`, for disks, fetches a script from a CDN
            "nav": nav,
        },
        sort_keys=False,
    )


def build(out: Path) -> None:
    """The site in `out`, in the place of an earlier one."""
    work = out.parent / "site-sources"
    shutil.rmtree(work, ignore_errors=True)
    shutil.rmtree(out, ignore_errors=True)
    work.mkdir(parents=True)
    sources(work / "docs")
    (work / "mkdocs.yml").write_text(config("docs", "site"))
    command = [str(Path(sys.executable).with_name("zensical")), "build", "--clean", "-f", "mkdocs.yml"]
    subprocess.run(command, cwd=work, check=True)
    shutil.move(work / "site", out)


if __name__ == "__main__":
    build(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "site")
