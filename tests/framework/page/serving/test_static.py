"""What browsers get: vendored files are as they came, and the page asks for nothing from elsewhere."""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path

STATIC = Path(__file__).parents[4] / "framework" / "page" / "static"


def test_vendored_files_are_as_they_came() -> None:
    lines = (STATIC / "vendored.sha256").read_text().splitlines()
    listed = dict(reversed(line.split()) for line in lines if not line.startswith("#"))
    assert set(listed) == {path.name for path in STATIC.glob("uPlot.*")}
    assert listed == {name: sha256((STATIC / name).read_bytes()).hexdigest() for name in listed}


def test_our_modules_name_no_other_place_and_keep_to_the_house_rules() -> None:
    for path in [*STATIC.glob("*.js"), *STATIC.glob("*.css"), *STATIC.glob("*.html")]:
        if path.name.startswith("uPlot"):
            continue
        text = path.read_text()
        assert not re.findall(r"https?://(?!www\.w3\.org/(?:2000/svg|1999))|@import|innerHTML", text), (
            path.name
        )
        assert len(text.splitlines()) <= 400, path.name
        assert max(map(len, text.splitlines())) <= 110, path.name


def test_no_module_shadows_what_it_uses_of_the_browser() -> None:
    """Modules share one scope in a report, so a function named `history` would hide the browser's."""
    for name in ("history", "location", "document", "name", "event", "status", "close", "open", "focus"):
        for path in STATIC.glob("*.js"):
            assert not re.search(
                rf"^(export )?(async )?(function|const|let|class) {name}\b", path.read_text(), re.MULTILINE
            )
