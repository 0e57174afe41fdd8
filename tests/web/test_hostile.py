"""Run directories that are damaged, incomplete or malicious: shown or refused, and named; never obeyed."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from railweave.framework.cli import main
from tests.web import hostile
from tests.web.conftest import Open, RunOf

REFUSED = {
    hostile.of_a_later_version: "version",
    hostile.a_result_with_holes: "rows",
    hostile.half_a_result: "result.json",
    hostile.no_numbers_in_the_result: "NaN is no number",
    hostile.no_experiment: "experiment.yaml",
    hostile.a_fabric_too_large: "1048576 is the most",
}
"""What the message names, of those that no page can be made of."""
NAMED = {
    hostile.killed: "events.jsonl: left out 1 lines that are no events",
    hostile.an_experiment_that_swells: "events.jsonl: left out 1 lines that are no events",
    hostile.a_million_events: "events.jsonl: left out all events after the first 100000",
    hostile.events_that_are_none: "events.jsonl: left out 1",
    hostile.damaged_numbers: "events.jsonl: left out 8 lines that are no events",
    hostile.events_in_a_directory: "events.jsonl: left out, because it is no file",
    hostile.not_numbers: "events.jsonl: left out 2 lines",
    hostile.times_out_of_order: "its times are not in order",
    hostile.samples_of_another_fabric: "and this fabric needs",
    hostile.routes_of_fractions: "and of whole ones",
    hostile.routes_of_another_fabric: "links has numbers that this fabric does not",
    hostile.a_program_as_samples: "Object arrays cannot be loaded",
    hostile.samples_that_swell: "it claims 4.8e+03 GB of samples",
}
"""What the notes of a page name."""
INCOMPLETE = (
    hostile.killed, hostile.killed_at_once, hostile.an_experiment_that_swells, hostile.damaged_numbers,
    hostile.events_in_a_directory,
)  # fmt: skip


@pytest.mark.parametrize("change", hostile.CHANGES)
def test_it_is_shown_or_refused_and_harms_nobody(
    opened: Open, run_of: RunOf, tmp_path: Path, change: hostile.Change
) -> None:
    run = hostile.changed(run_of("rail-only"), change, tmp_path / "run")
    done = CliRunner().invoke(main, ["report", str(run)])
    if change in REFUSED:
        assert done.exit_code == 2 and REFUSED[change] in done.stderr, done.output
        assert not (run / "report.html").exists()
        return
    assert done.exit_code == 0, done.output
    page = run / "report.html"
    assert page.stat().st_size < 1.5e6
    with opened(page.as_uri()) as seen:
        assert seen.page.evaluate("window.harm ?? null") is None
        assert (
            seen.page.evaluate("document.querySelectorAll('body img, body iframe, body script').length") == 3
        )
        assert ("incomplete" in seen.page.locator("#verdict").inner_text()) == (change in INCOMPLETE)
        assert seen.page.locator("#picture svg").count() == 1
        notes = "\n".join(seen.page.evaluate("railweave.run.notes"))
        assert NAMED.get(change, "") in notes and ("left out" in notes) == (change in NAMED)
    assert (seen.messages, seen.requests) == ([], [page.as_uri()])
