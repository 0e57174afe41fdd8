"""The version of rows: of every module, and of those of benchmarks where they count."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

import railweave
from railweave.framework.registry import FILES
from railweave.framework.studies import version


def test_it_differs_where_any_module_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a copy of the package, which links to its folders as a checkout does."""
    (here,) = railweave.__path__
    assert (Path(here) / "bench" / "health.py").is_file()
    package, versions = tmp_path / "railweave", []
    package.mkdir()
    monkeypatch.setattr(version, "find_spec", lambda _: SimpleNamespace(submodule_search_locations=[package]))
    for folder in ("framework", "plugins", "bench"):
        (tmp_path / folder).mkdir()
        (package / folder).symlink_to(tmp_path / folder)
        for text in ("one = 1", "one = 2"):
            (tmp_path / folder / "module.py").write_text(text)
            versions.append(version.code_version.__wrapped__("bench"))
    (tmp_path / "framework" / "README.md").write_text("words")
    assert version.code_version.__wrapped__("bench") == versions[-1]
    assert len({*versions}) == 6
    (tmp_path / "framework" / "cli").mkdir()
    (tmp_path / "framework" / "cli" / "module.py").write_text("four = 4")
    assert version.code_version.__wrapped__("bench", elsewhere=("framework/cli",)) == versions[-1]
    assert version.code_version.__wrapped__("bench") not in versions
    (tmp_path / "mine.py").write_text("five = 5")
    monkeypatch.setenv(FILES, str(tmp_path / "mine.py"))
    assert version.code_version.__wrapped__("bench", elsewhere=("framework/cli",)) not in versions
    monkeypatch.delenv(FILES)
    without = version.code_version.__wrapped__()
    (tmp_path / "bench" / "module.py").write_text("three = 3")
    assert version.code_version.__wrapped__() == without
