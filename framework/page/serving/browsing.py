"""Runs on disk as pages: one, or all below a directory with a list of them."""

import json
import re
import stat
import time
from collections.abc import Callable, Sequence
from html import escape
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from railweave.framework.errors import RailweaveError
from railweave.framework.page.data.page_data import PageData
from railweave.framework.page.html import html
from railweave.framework.page.serving.app import application

EXPERIMENT, MOST_RUNS, MOST_ENTRIES, DEPTH, MOST_BYTES = "experiment.yaml", 200, 100_000, 3, 20_000_000
"""What makes a directory one of a run; runs that are listed, the latest; entries and levels that are looked
through; results that are read for the list."""
COLUMNS = ("run", "written", "fabric", "router", "traffic", "faults", "verdict")
POLICY = {"content-security-policy": "frame-ancestors 'none'"}
"""In addition to the policy that a report states itself."""
_CAMPAIGN = re.compile(rb'"name": "railweave\.(compare|compare-jobs|chaos)"')
STYLE = """:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif }
body { margin: 2rem auto; max-width: 80rem; padding: 0 1rem }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #8884 }
td { overflow-wrap: anywhere }
td:nth-child(2), td:nth-child(4), td:nth-child(5), td:last-child { white-space: nowrap }
td:last-child { font-weight: 600 }"""


def browsing(root: Path, token: str, page_of: Callable[[Path], PageData]) -> Starlette:
    """Reports below /TOKEN/: of `root` alone, or of all runs below this directory and the comparisons and
    chaos campaigns in it. `page_of` reads one."""

    def report(path: Path) -> Response:
        try:
            return HTMLResponse(html(page_of(path)), headers=POLICY)
        except RailweaveError as error:
            return PlainTextResponse(f"{error}\n", 404)

    def start(_: Request) -> Response:
        return report(root) if has_page(root) else HTMLResponse(listing(root))

    def one(request: Request) -> Response:
        wanted = request.path_params["run"]
        path = (root / wanted).resolve()
        if not path.is_relative_to(root.resolve()) or not has_page(path):
            return PlainTextResponse(f"{wanted} is no run below {root}.\n", 404)
        return report(path)

    return application(token, [Route("/", start), Route("/run/{run:path}", one)])


def has_page(path: Path) -> bool:
    """Whether this is the directory of a run, finished or not, or a file of what `compare` or `chaos`
    found."""
    return is_run(path) or bool(_campaign(path))


def is_run(path: Path) -> bool:
    return _is(stat.S_ISREG, path / EXPERIMENT)


def _is(kind: Callable[[int], bool], path: Path) -> bool:
    """Whether something of this kind is there that is ours to look at."""
    try:
        return kind(path.stat().st_mode)
    except OSError:
        return False


def _campaign(path: Path) -> str:
    """The command that wrote a file, "" for none of them; its schema stands first."""
    try:
        with path.open("rb") as file:
            match = _CAMPAIGN.search(file.read(200))
    except OSError:  # a directory, or not ours to read
        return ""
    return match[1].decode() if match and path.stat().st_size <= MOST_BYTES else ""


def runs_below(root: Path) -> list[Path]:
    """The directories of runs below `root`, the latest first; bounded in depth and number of entries."""
    dated_runs: list[tuple[float, Path]] = []
    level, entries = [root], 0
    for _ in range(DEPTH):
        folders: list[Path] = []
        for folder in level:
            try:
                inside = list(islice(folder.iterdir(), MOST_ENTRIES - entries))
            except OSError:  # not ours to read
                continue
            entries += len(inside)
            folders += [path for path in inside if _is(stat.S_ISDIR, path) and not path.is_symlink()]
        runs = [path for path in folders if is_run(path)]
        dated_runs += [((path / EXPERIMENT).stat().st_mtime, path) for path in runs]
        level = [path for path in folders if path not in set(runs)]
    return [path for _, path in sorted(dated_runs, reverse=True)]


def listing(root: Path) -> str:
    """A page with a link to every run below `root`."""
    runs = runs_below(root)
    files = [path for path in sorted(islice(root.glob("*.json"), MOST_RUNS)) if _campaign(path)]
    rows = "".join(_row(root, path, path, ("", "", "", "", _campaign(path))) for path in files)
    rows += "".join(
        _row(root, path, path / EXPERIMENT, _columns(path / "result.json")) for path in runs[:MOST_RUNS]
    )
    earlier = f"<p>and {len(runs) - MOST_RUNS} earlier ones</p>" if len(runs) > MOST_RUNS else ""
    nothing = "" if rows else "<p>There is no run here yet. Load this page again after one.</p>"
    head = "".join(f"<th>{name}</th>" for name in COLUMNS)
    name = escape(str(root))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>Runs in {name} - railweave</title>"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head>"
        f"<body><h1>Runs in {name}</h1>{nothing}<table><tr>{head}</tr>{rows}</table>{earlier}</body></html>\n"
    )


def _row(root: Path, path: Path, dated: Path, columns: Sequence[str]) -> str:
    """`dated`: the file whose time is shown."""
    name = str(path.relative_to(root))
    written = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(dated.stat().st_mtime))
    cells = "".join(f"<td>{escape(text)}</td>" for text in (written, *columns))
    return f'<tr><td><a href="run/{quote(name)}">{escape(name)}</a></td>{cells}</tr>'


def _columns(result: Path) -> tuple[str, str, str, str, str]:
    """Fabric, router, traffic, faults and verdict, as far as a result tells them; it may hold anything."""
    try:
        if result.stat().st_size > MOST_BYTES:
            return "", "", "", "", "too large to list"
        document = json.loads(result.read_bytes())
    except FileNotFoundError:
        return "", "", "", "", "no result"
    except (OSError, ValueError, RecursionError):
        return "", "", "", "", "cannot be read"
    kind, gpus = _at(document, "fabric", "kind"), _at(document, "fabric", "gpus")
    traffic = [_at(document, "experiment", section, "name") for section in ("collective", "workload")]
    return (
        f"{kind}, {gpus} GPUs" if kind else "",
        _at(document, "experiment", "router", "name"),
        " ".join(filter(None, traffic)),
        _at(document, "experiment", "faults"),
        _at(document, "fidelity", "verdict") or "no verdict",
    )


def _at(document: Any, *keys: str) -> str:
    """The text, texts or number under these keys, one in the other; "" where there is none."""
    for key in keys:
        document = document.get(key) if isinstance(document, dict) else None
    if isinstance(document, list):
        document = "; ".join(part for part in document if isinstance(part, str))
    return str(document)[:60] if isinstance(document, str | int) else ""
