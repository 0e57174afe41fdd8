"""Pictures of reports for the documentation: `python -m tests.web.screenshots [NAME ...]`, of all fabrics by
default; they go to docs/screenshots/. WebP, which playwright does not offer, is a third of PNG's size."""

from __future__ import annotations

import sys
from base64 import b64decode
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.web.browser import chromium, opened
from tests.web.fabrics import FABRICS, run

TO = Path(__file__).resolve().parents[2] / "docs" / "screenshots"
SIZE = {"width": 1280, "height": 960}


def main(names: list[str]) -> None:
    """The first screen of each, one of them in dark as well."""
    TO.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder, chromium() as browser:
        for name in names or list(FABRICS):
            address = (run(name, Path(folder) / name) / "report.html").as_uri()
            address += "#mask=jobs" if name == "jobs" else ""
            for scheme in ("light", "dark") if name == "rail-only" else ("light",):
                path = TO / f"{name}{'-dark' if scheme == 'dark' else ''}.webp"
                with opened(browser, address, viewport=SIZE, color_scheme=scheme) as seen:
                    tools = seen.page.context.new_cdp_session(seen.page)
                    shot = tools.send("Page.captureScreenshot", {"format": "webp", "quality": 80})
                    assert not seen.messages, seen.messages
                path.write_bytes(b64decode(shot["data"]))
                print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
