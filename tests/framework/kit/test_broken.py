"""Each rule broken by a router of its own is found, in the right check and the right words.

What must be found follows from how each router was broken; see broken.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from railweave.framework.kit.plugin_check import check_plugin
from tests.framework.kit import broken
from tests.framework.kit.broken import Changed, Sound, answers
from tests.framework.kit.conftest import WithRouters

BROKEN: dict[str, tuple[Any, str, str, str]] = {
    "loop": (
        Changed(answers(broken.back_and_forth)),
        "every pair reached",
        "a node the path has met: a loop",
        "g1.0 -> r0 -> g1.0 -> r0 -> g0.0",
    ),
    "jump": (
        Changed(answers(broken.jump)),
        "every pair reached",
        "does not begin where the one before it ends",
        "g0.0->d0, g0.1->r1, r1->g1.1",
    ),
    "wrong end": (
        Changed(answers(broken.short)),
        "every pair reached",
        "does not reach the destination",
        "g0.0 -> d0 -> g0.1 -> r1",
    ),
    "missing link": (
        Changed(answers(broken.unknown_link)),
        "every pair reached",
        "the fabric has no such link",
        "link 16",
    ),
    "missing pair": (
        Changed(answers(broken.missing)),
        "every pair reached",
        "no path, though there is one",
        "g0.1 -> d0 -> g0.0 -> r0 -> g1.0",
    ),
    "dead link": (broken.BlindToDeath(), "single failures", "the link is down", "g0.0 -> d0 -> g0.1"),
    "gives up": (
        broken.GivesUp(),
        "single failures",
        "link g0.0->d0 down, g0.0 -> g0.1: no path, though there is one",
        "g0.0 -> r0 -> g1.0 -> d1 -> g1.1 -> r1 -> g0.1",
    ),
    "moody": (broken.Moody(), "equal in, equal out", "not deterministic", "g0.0 -> d0 -> g0.1"),
    "unequal split": (
        Changed(answers(broken.doubled, [0.25, 0.75]), promised=("equal-split", "reroutes")),
        "equal split",
        "unequal split over 2 paths",
        "0.25 over g0.0 -> d0 -> g0.1; 0.75 over",
    ),
    "weights": (
        Changed(answers(broken.doubled, [0.5, 0.75])),
        "every pair reached",
        "sum to 1.25, not to 1",
        "g0.0 -> d0",
    ),
    "deadlock": (
        Sound(serves=("torus",)),
        "no deadlock",
        "channels wait for each other",
        "g0->g1 vc0",
    ),
    "meddler": (broken.Meddler(), "changes nothing", "it changes the fabric", ""),
    "raises": (
        broken.Raises(),
        "every pair reached",
        "routes() of a rail-only fabric fails with ZeroDivisionError",
        "",
    ),
    "raises late": (broken.RaisesLate(), "every pair reached", "with KeyError: 'g0.0'", ""),
    "nothing": (broken.Nothing(), "every pair reached", "returns nothing", ""),
    "serves anything": (broken.ServesAnything(), "refuses others", "must raise UnsupportedFabricError", ""),
    "other name": (broken.OtherName(), "every pair reached", "of router 'other'; it must be of 'broken'", ""),
    "old version": (broken.OldVersion(), "every pair reached", "it must be health.version", ""),
    "no such fabric": (
        Sound(serves=("rail-only", "hypercube")),
        "has fabrics",
        "no installed topology builds",
        "",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_it_is_found(name: str, with_routers: WithRouters) -> None:
    router, check, words, path = BROKEN[name]
    report = check_plugin("router", "broken", with_routers(broken=router), scale=False)
    failed = {outcome.check: outcome for outcome in report.failed}
    assert check in failed, report.text()
    text = "\n".join(finding.text() for finding in failed[check].violations)
    assert words in text and path in text, report.text()
    skipped = sum(one.status == "skipped" for one in report.outcomes)
    count = f"fails {len(failed)} of {len(report.outcomes) - skipped} checks"
    assert not report.passed and report.text().endswith(
        f"{count}, {skipped} skipped." if skipped else f"{count}."
    )


@pytest.mark.parametrize("name", ["loop", "jump", "missing pair", "dead link", "unequal split", "moody"])
def test_the_report_names_fabric_pair_and_path(name: str, with_routers: WithRouters) -> None:
    report = check_plugin("router", "broken", with_routers(broken=BROKEN[name][0]), scale=False)
    findings = [finding for outcome in report.failed for finding in outcome.violations]
    assert findings and all(f.fabric.startswith("rail-only (domains") for f in findings)
    assert all("g" in f.pair and " -> " in f.pair and f.path for f in findings)


def test_the_sound_one_passes(with_routers: WithRouters) -> None:
    """Otherwise what is found above could be the fault of what they share."""
    report = check_plugin("router", "broken", with_routers(broken=Sound()), scale=False)
    assert report.passed, report.text()


def test_limits_that_are_declared_are_counted_and_not_blamed(with_routers: WithRouters) -> None:
    report = check_plugin("router", "broken", with_routers(broken=broken.GivesUp(promised=())), scale=False)
    (single,) = [o for o in report.outcomes if o.check == "single failures"]
    assert report.passed and "given up by the router (reroutes promised on 0 of 4 fabrics)" in single.detail


def test_a_promise_nobody_knows_is_refused(with_routers: WithRouters) -> None:
    report = check_plugin("router", "broken", with_routers(broken=Sound(promised=("speed",))), scale=False)
    assert "promises speed; the words are: reroutes, equal-split, deadlock-free" in report.text()


def test_outcomes_are_told_as_they_come(with_routers: WithRouters) -> None:
    """Each before the next check begins: a slow router delays no earlier result."""
    heard = list[str]()
    report = check_plugin(
        "router", "broken", with_routers(broken=Sound()), scale=False,
        told=lambda outcome: heard.append(outcome.check), progress=lambda text: heard.append(f"> {text}"),
    )  # fmt: skip
    assert [text for text in heard if text[0] != ">"] == [outcome.check for outcome in report.outcomes]
    assert heard.index("every pair reached") < heard.index(
        "> single failures: rail-only (domains 2, rails 2), fabric 1 of 4"
    )


def test_too_slow_is_found_at_scale(with_routers: WithRouters, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("railweave.framework.kit.trials.MOST_SECONDS", 0.0)
    report = check_plugin("router", "broken", with_routers(broken=Sound()))
    (outcome,) = report.failed
    assert outcome.check == "1,024 GPUs" and "all pairs: no answer within 0 s" in outcome.violations[0].why
