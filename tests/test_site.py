"""The documentation as a site: complete, whole links, nothing from a network; and how to cite the project."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote

import pytest
import yaml

import railweave

ROOT = Path(__file__).parents[1]
_ATTRIBUTE = re.compile(r"""<(a|link|script|img)\b[^>]*?\b(?:href|src)=["']?([^"'\s>]+)""")


@pytest.fixture(scope="module")
def site() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_of_the_documentation", ROOT / ".ci" / "site.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def sources(site: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("site") / "docs"
    site.sources(path)
    return path


def test_every_page_is_in_the_navigation_once(site: ModuleType, sources: Path) -> None:
    listed = [page for pages in site.NAV.values() for page in pages]
    assert len(listed) == len(set(listed))
    assert {*listed, "index.md"} == {page.relative_to(sources).as_posix() for page in sources.rglob("*.md")}


def test_the_reference_is_made_of_code(sources: Path) -> None:
    commands = (sources / "cli.md").read_text()
    assert "## railweave topo cost" in commands and "--path-mtu" in commands and "{engine}" not in commands
    assert '"max_mean_ratio"' in (sources / "result-schema.md").read_text()
    assert "### Router.routes" in (sources / "hooks.md").read_text()
    metrics = (sources / "metrics.md").read_text()
    manual = (sources / "exports.md").read_text()
    for name in re.findall(r"^\| `(\w+)`", metrics, re.MULTILINE):
        assert f"`{name}`" in manual
    assert "railweave_iteration_seconds" in metrics and "nccl_p2p_bus_bandwidth_gbs" in metrics


def test_links_between_pages_lead_somewhere(sources: Path) -> None:
    for page in sources.rglob("*.md"):
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
            assert "://" in target or (page.parent / target).exists(), f"{page.name}: {target}"


def test_links_to_pages_have_their_headings_in_place_of_file_names(sources: Path) -> None:
    assert "[Write a router](how-to/own-router.md)" in (sources / "tutorial.md").read_text()
    for page in sources.rglob("*.md"):
        assert re.findall(r"\[[^\]]*\.md\]\((?!\w+://)", page.read_text()) == [], page.name


def test_the_built_site_asks_nothing_of_a_network(site: ModuleType, tmp_path: Path) -> None:
    """Scripts, styles and pictures are files of the site; links between its pages lead to pages of it."""
    pytest.importorskip("zensical")
    site.build(tmp_path / "site")
    pages = sorted((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        for tag, target in _ATTRIBUTE.findall(page.read_text()):
            if target.startswith(("data:", "#", "mailto:")):
                continue
            if "://" in target or target.startswith("//"):
                assert tag == "a" or "canonical" in target, f"{page.name}: {target}"
                continue
            path = (page.parent / unquote(target.partition("#")[0].partition("?")[0])).resolve()
            assert page.name == "404.html" or path.exists(), f"{page.name}: {target}"


def test_the_version_of_the_citation_is_the_projects() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert cited["version"] == project["version"] == railweave.__version__
    assert cited["license"] == project["license"]["text"]
    assert [author["name"] for author in cited["authors"]] == [
        author["name"] for author in project["authors"]
    ]
