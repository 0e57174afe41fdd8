"""One HTML file of page and data: opens from disk, asks nothing of any network."""

import base64
import re
from hashlib import sha256
from html import escape
from importlib.resources import files
from pathlib import Path

from railweave.framework.page.data.page_data import PageData
from railweave.framework.results.directory import write_whole

MODULES = (
    "codes.js", "colours.js", "save.js", "store.js", "difference.js", "picture.js", "timeline.js",
    "charts.js", "heat.js", "detail.js", "tables.js", "campaigns.js", "live.js", "main.js",
)  # fmt: skip
"""The page's modules, each behind those it imports."""
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./[a-z]+\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=function|const|class|async)", re.MULTILINE)


def html(data: PageData) -> str:
    """The file. Its content security policy admits its own two scripts by their hashes, and no request."""
    chart, page = _static("uPlot.iife.min.js").strip(), script()
    hashes = " ".join(
        f"'sha256-{base64.b64encode(sha256(s.encode()).digest()).decode()}'" for s in (chart, page)
    )
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    style = _static("uPlot.min.css") + _static("page.css")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(data.title)} - railweave</title>\n<style>\n{style}</style>\n</head>\n"
        f"<body>\n{body()}"
        f'<script type="application/json" id="railweave-data">{data.json()}</script>\n'
        f'<script>{chart}</script>\n<script type="module">{page}</script>\n</body>\n</html>\n'
    )


def write_report(data: PageData, path: Path) -> None:
    """Write the file, whole or not at all."""
    write_whole(path, html(data).encode())


def script() -> str:
    """The modules as one: they share a scope, so imports and the word `export` go."""
    return "".join(_EXPORT.sub("", _IMPORT.sub("", _static(name))) for name in MODULES)


def body() -> str:
    """What stands in the body of the page, served or not."""
    match = re.search(r"<body>\n(.*?)<script", _static("index.html"), re.DOTALL)
    assert match is not None
    return match[1]


def _static(name: str) -> str:
    return (files("railweave.framework.page") / "static" / name).read_text(encoding="utf-8")
