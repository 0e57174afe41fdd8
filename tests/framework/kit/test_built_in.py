"""Every built-in router passes what strangers' routers must pass."""

from __future__ import annotations

import pytest

from railweave.framework.kit.pytest_fixtures import CheckPlugin
from railweave.framework.registry import Registers, load_plugins

OURS = sorted(
    name for name, holder in load_plugins()["router"].holders.items() if holder.endswith("(railweave)")
)


@pytest.fixture(scope="module")
def installed() -> Registers:
    return load_plugins()


@pytest.mark.parametrize("name", OURS)
def test_it_passes(
    name: str, installed: Registers, check_plugin: CheckPlugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On fabrics of up to 64 GPUs: the failures of a twisted torus of 128 take `ilp` a minute, and shows
    nothing more.

    Wild-first routing has two classes of the dateline and one of wild hops (Zu et al., NSDI'24)."""
    monkeypatch.setattr("railweave.framework.kit.subject.MOST_GPUS", 64)
    report = check_plugin("router", name, installed, scale=False)
    (single,) = [o for o in report.outcomes if o.check == "single failures"]
    assert len(report.fabrics) >= 4
    assert name != "wfr" or single.detail.endswith("no deadlock with 3 virtual channels")


SMALLER: dict[str, dict[str, object]] = {"arrivals": {"messages": 50}}
OTHERS = [
    (kind, name)
    for kind in ("topology", "collective", "workload", "estimator")
    for name, plugin in load_plugins()[kind].items()
    if not any(parameter.name == "file" for parameter in plugin.parameters)
]


@pytest.mark.parametrize(("kind", "name"), OTHERS)
def test_every_other_kind_passes(
    kind: str, name: str, installed: Registers, check_plugin: CheckPlugin
) -> None:
    check_plugin(kind, name, installed, options=SMALLER.get(name))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("spray", {"window": "blog"}),
        ("hscore", {"same_rail_detour": "no"}),
        ("optree", {"algorithm": "ring"}),
    ],
)
def test_it_passes_with_other_options(
    name: str, options: dict[str, object], installed: Registers, check_plugin: CheckPlugin
) -> None:
    check_plugin("router", name, installed, options=options, scale=False)


def test_figures_at_1024_gpus(installed: Registers, check_plugin: CheckPlugin) -> None:
    report = check_plugin("router", "hscore", installed)
    (scale,) = [o for o in report.outcomes if o.check == "1,024 GPUs"]
    assert scale.detail.startswith("rail-only ") and " s, " in scale.detail and scale.detail.endswith(" MB")


@pytest.mark.lab
@pytest.mark.untimed
def test_it_runs_on_the_lab(installed: Registers, check_plugin: CheckPlugin) -> None:
    report = check_plugin("router", "hscore", installed, scale=False, lab=True)
    assert [o.status for o in report.outcomes if o.check == "on the lab"] == ["passed"]
