"""Pages of runs. Expected values: of the run's own result and samples, read back from the file's JSON."""

from __future__ import annotations

import base64
import json
import os
import re
import zlib
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import railweave as rw
from railweave.framework.cli import main
from railweave.framework.page import html
from railweave.framework.page.data import codes, unanswered
from railweave.framework.page.data.directories import page_of_run
from railweave.framework.registry import Registers, load_plugins

SLOW = "at=iter:2 degrade rail:1 to=20%"


@pytest.fixture(scope="module")
def registers() -> Registers:
    return load_plugins()


@pytest.fixture(scope="module")
def run(registers: Registers, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 16 GPUs whose rail 1 is slowed before the third of six iterations."""
    path = tmp_path_factory.mktemp("runs") / "run"
    rw.run(engine="fluid", iterations=6, faults=[SLOW], out=path, registers=registers)
    return path


def data_of(page: Path) -> dict[str, Any]:
    (text,) = re.findall(
        r'<script type="application/json" id="railweave-data">(.*?)</script>', page.read_text()
    )
    data: dict[str, Any] = json.loads(text)
    return data


def matrix(packed: dict[str, Any]) -> np.ndarray[Any, Any]:
    rows = np.frombuffer(zlib.decompress(base64.b64decode(packed["zlib"])), np.uint8).reshape(packed["shape"])
    return np.cumsum(rows, axis=0, dtype=np.uint8)


def test_every_run_leaves_its_page(run: Path) -> None:
    page, (one,) = data_of(run / "report.html"), data_of(run / "report.html")["runs"]
    result = rw.read(run).result
    assert (page["kind"], one["state"], one["verdict"]) == ("run", "complete", result.fidelity.verdict)
    assert page["sentence"].startswith("Rail 1 fell to 20 % of its rate ")
    done = one["iterations"]
    rows = [row for row in result.rows if row.iteration is not None]
    assert done["seconds"] == pytest.approx([row.time_us * 1e-6 for row in rows])
    assert done["part"] == ["before"] * 2 + ["during"] * len(result.iterations.during.iterations) + [
        "after"
    ] * len(result.iterations.after.iterations)
    assert [(m["t_s"], m["text"]) for m in one["marks"] if m["kind"] == "fault"] == [
        (fault.t_s, fault.text) for fault in result.faults
    ]


def test_what_no_iteration_shows_the_model_says(
    run: Path, registers: Registers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against a run of the same experiment without feedback, of which every iteration is computed."""
    result = rw.read(run).result
    blind = rw.run({**result.experiment, "feedback": False}, registers=registers).iterations
    before, after = result.iterations.before.median_us, result.iterations.after.median_us
    assert before and after and blind.before.median_us and blind.during.median_us
    lost, new = blind.during.median_us / blind.before.median_us, after / before
    assert lost > new > 1
    words = (
        f"which won back {100 * (lost - new) / (lost - 1):.0f} % of the loss (on the old routes {lost:.2f} "
    )
    words += "times as long as before, the model says)."
    assert data_of(run / "report.html")["sentence"].endswith(words)
    monkeypatch.setattr(unanswered, "MOST_TRANSFERS", 1)
    assert page_of_run(run, registers).sentence.endswith(
        f"after which iterations took {new:.2f} times as long as before the fault."
    )


def test_what_is_drawn_has_the_figures_of_the_samples(run: Path) -> None:
    (one,) = data_of(run / "report.html")["runs"]
    samples, items, times = rw.read(run).samples, one["items"], one["series"]["t_s"]
    score = matrix(one["series"]["score"])
    assert score.shape == (len(times), len(items["name"])) and len(times) <= 200
    rail = items["name"].index("rail:1")
    last = {name: e.h_score for name, e in zip(items["name"], rw.read(run).result.elements, strict=False)}
    assert score[-1, rail] / 200 == pytest.approx(last["rail:1"], abs=0.0025)
    at = np.searchsorted(samples["t_s"], times, "right") - 1  # the last instant is the end of the run
    link = items["name"].index("g0.1->r1")
    assert score[:, link].tolist() == codes.ratio(samples["link_score"][at][:, link - 8]).tolist()
    picture = zlib.decompress(base64.b64decode(one["picture"]["zlib"])).decode()
    drawn = set(re.findall(r'id="(\w+)"', picture))
    assert set(items["shape"]) <= drawn


def test_steps_are_as_fine_as_they_say() -> None:
    scores = np.linspace(0, 1, 1001)
    assert np.abs(codes.ratio(scores) / 200 - scores).max() <= 0.0025 + 1e-12
    amounts = np.geomspace(64, 4e8, 999)
    back = 64 * np.expm1(codes.amount(amounts) / 16)
    assert (np.abs(back / amounts - 1) < 0.065).all() and codes.amount(np.zeros(1))[0] == 0
    assert codes.share(np.array([np.nan, 1.0, 1e-4])).tolist() == [255, 200, 2]


def test_a_killed_run_shows_what_there_is(run: Path, tmp_path: Path) -> None:
    for name in ("experiment.yaml", "events.jsonl"):
        (tmp_path / name).write_bytes((run / name).read_bytes())
    with (tmp_path / "events.jsonl").open("a") as file:
        file.write(
            '{"kind":"iteration","iteration":6,"seconds":NaN}\n{"kind":"note","text":"</script><b>"}\n{"ki'
        )
    shown = CliRunner().invoke(main, ["report", str(tmp_path)])
    assert shown.exit_code == 0, shown.output
    assert shown.output.startswith(
        "This run has no result: it failed, was killed or still runs. 6 of 6 iterations"
    )
    text, (one,) = (tmp_path / "report.html").read_text(), data_of(tmp_path / "report.html")["runs"]
    assert (one["state"], one["verdict"], len(one["iterations"]["number"])) == ("incomplete", "none", 6)
    assert one["rate_scale"] == data_of(run / "report.html")["runs"][0]["rate_scale"]
    assert one["notes"][-1] == "</script><b>" and "</script><b>" not in text


def test_what_a_killed_run_planned_is_checked(tmp_path: Path) -> None:
    experiment = tmp_path / "experiment.yaml"
    experiment.write_text("iterations: -5\n")
    shown = CliRunner().invoke(main, ["report", str(tmp_path)])
    assert shown.exit_code == 0 and "still runs. 0 iterations had ended." in shown.output, shown.output
    experiment.write_text("topology: nowhere\n")
    shown = CliRunner().invoke(main, ["report", str(tmp_path)])
    assert shown.exit_code == 2 and f"{experiment}: topology: " in shown.stderr, shown.output
    assert "--set" not in shown.stderr


BOMB = "program: &a [x]\n" + "".join(
    f"b{i}: &b{i} [*{'a' if not i else f'b{i - 1}'}, *{'a' if not i else f'b{i - 1}'}]\n" for i in range(40)
)
"""Of 2^40 words to who follows its aliases."""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("- 1\n", "this is not"),
        ("7\n", "this is not"),
        ("", "holds no experiment"),
        ("[" * 101, "this is not"),
        ("{a: " * 100_000, "nested too deeply"),
        ("a: \0", "not readable as YAML"),
    ],
    ids=["list", "number", "empty", "lists", "mappings", "zero"],
)
def test_an_experiment_that_cannot_be_read_is_that_of_the_result(
    text: str, why: str, run: Path, tmp_path: Path
) -> None:
    (tmp_path / "experiment.yaml").write_text(text)
    shown = CliRunner().invoke(main, ["report", str(tmp_path)])
    assert shown.exit_code == 2 and why in shown.stderr and isinstance(shown.exception, SystemExit)
    (tmp_path / "result.json").write_bytes((run / "result.json").read_bytes())
    shown = CliRunner().invoke(main, ["report", str(tmp_path)])
    assert shown.exit_code == 0 and shown.output.startswith("Rail 1 fell to 20 % of its rate "), shown.output
    (one,) = data_of(tmp_path / "report.html")["runs"]
    assert one["what"] == data_of(run / "report.html")["runs"][0]["what"]
    assert one["notes"][0].startswith("experiment.yaml is left out, and that of the result shown: ")
    assert why in one["notes"][0]


@pytest.mark.parametrize(
    "text",
    [
        "jobs: 5\n",
        "jobs: {a: 1}\n",
        "begun: 2026-13-45\n",
        "engine: [fluid]\n",
        "collective: {name: [1]}\n",
        BOMB,
    ],
    ids=["number", "mapping", "date", "engine", "name", "aliases"],
)
def test_what_of_an_experiment_cannot_be_read_is_as_if_it_were_not_there(text: str, tmp_path: Path) -> None:
    (tmp_path / "experiment.yaml").write_text(text)
    shown = CliRunner().invoke(main, ["report", str(tmp_path)])
    assert shown.exit_code == 0, shown.output
    (one,) = data_of(tmp_path / "report.html")["runs"]
    assert one["what"].startswith("rail-only, 16 GPUs · ") and len(one["what"]) < 120


def test_links_that_carry_nothing_keep_no_page_waiting(
    run: Path, registers: Registers, tmp_path: Path
) -> None:
    """The model would move 1 MiB at 40 bit/s, with a sample a minute."""
    for name in ("experiment.yaml", "result.json"):
        (tmp_path / name).write_bytes((run / name).read_bytes())
    experiment = tmp_path / "experiment.yaml"
    experiment.write_text(experiment.read_text().replace("rail_rate: 400Gb/s", "rail_rate: 40b/s"))
    assert " after which iterations took " in page_of_run(tmp_path, registers).sentence


@pytest.mark.parametrize("number", ["1e400", "-1e308", "9" * 400])
def test_a_result_with_numbers_that_no_run_has_is_refused(number: str, run: Path, tmp_path: Path) -> None:
    text = (run / "result.json").read_text()
    (tmp_path / "experiment.yaml").write_bytes((run / "experiment.yaml").read_bytes())
    for key in ("time_us", "bytes", "h_score"):
        changed = re.sub(rf'("{key}": )[^,\n]*', rf"\g<1>{number}", text, count=1)
        (tmp_path / "result.json").write_text(changed)
        shown = CliRunner().invoke(main, ["report", str(tmp_path)])
        assert shown.exit_code == 2 and "no number of a run" in shown.stderr, shown.output


@pytest.mark.parametrize("name", ["health.npz", "routes.npz", "rules.json", "events.jsonl"])
def test_a_pipe_in_place_of_a_file_is_not_waited_for(name: str, run: Path, tmp_path: Path) -> None:
    (tmp_path / "experiment.yaml").write_bytes((run / "experiment.yaml").read_bytes())
    os.mkfifo(tmp_path / name)
    shown = CliRunner().invoke(main, ["report", str(tmp_path)])
    assert shown.exit_code == 0, shown.output
    (note,) = data_of(tmp_path / "report.html")["runs"][0]["notes"]
    assert note.startswith(name) and note.endswith("it is no file.")
    os.mkfifo(tmp_path / "result.json")
    shown = CliRunner().invoke(main, ["report", str(tmp_path)])
    assert shown.exit_code == 2 and "result.json is no file" in shown.stderr


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    shown = CliRunner().invoke(main, ["report", str(tmp_path)])
    assert shown.exit_code == 2 and "holds no experiment.yaml, so it is no run directory" in shown.stderr


def test_the_scripts_are_the_ones_whose_hashes_the_policy_admits(run: Path) -> None:
    text = (run / "report.html").read_text()
    scripts = re.findall(r"<script(?: type=\"module\")?>(.*?)</script>", text, re.DOTALL)
    assert len(scripts) == 2 and "import" not in re.findall(r"^\w+", scripts[1], re.MULTILINE)
    digests = [base64.b64encode(sha256(s.encode()).digest()).decode() for s in scripts]
    policy = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)[0]
    assert [d in policy for d in digests] == [True, True] and policy.startswith("default-src 'none'")
    assert len(text) < 1.5e6


def test_top_level_names_of_the_modules_differ() -> None:
    names = re.findall(r"^(?:async )?(?:function|const|class|let) (\w+)", html.script(), re.MULTILINE)
    assert len(names) == len(set(names)) > 10


def test_loads_over_time_carry_what_the_links_carried(run: Path) -> None:
    """The mean load over the run, from the page's steps, is the result's utilisation; of links without
    trains, which count when they arrive, at more than the rate of a link."""
    (one,) = data_of(run / "report.html")["runs"]
    load, times = matrix(one["series"]["load"]), np.array(one["series"]["t_s"])
    weights = np.diff(times, prepend=0)
    for item in range(8, len(one["items"]["name"])):
        mean = (load[:, item] / 200 * weights).sum() / one["end_s"]
        if one["items"]["kind"][item] != "d":
            continue
        assert mean == pytest.approx(one["items"]["utilisation"][item], abs=0.005)


def test_the_paths_of_a_pair_lead_from_one_to_the_other_at_every_time(run: Path) -> None:
    """The cables of each entry join its two GPUs, and pairs moved when the result says so, as many."""
    (one,) = data_of(run / "report.html")["runs"]
    entries = json.loads(zlib.decompress(base64.b64decode(one["routes"]["entries"]["zlib"])))
    fabric = rw.topology("rail-only")
    for _, src, dst, weight, cables in entries:
        ends = [{int(fabric.link_src[cable]), int(fabric.link_dst[cable])} for cable in cables]
        at = src
        for pair in ends:
            (at,) = pair - {at}
        assert at == dst and 0 < weight <= 1
    moved: dict[float, set[tuple[int, int]]] = {}
    for t_s, src, dst, *_ in entries:
        moved.setdefault(t_s, set()).add((src, dst))
    later = {t_s: len(pairs) for t_s, pairs in moved.items() if t_s}
    reroutes = rw.read(run).result.reroutes
    assert later == {round(r.t_s, 6): r.pairs_changed for r in reroutes} and reroutes


def test_the_traffic_is_what_the_collective_plans(run: Path) -> None:
    """A ring in every domain and rail: each GPU sends to two others, and to itself nothing."""
    (one,) = data_of(run / "report.html")["runs"]
    sent = matrix(one["traffic"]["sent"])
    plan = rw.load(rw.read(run).result.experiment)
    src, dst, amount = plan.schedule.pairs()
    assert {tuple(pair) for pair in np.argwhere(sent)} == set(zip(src.tolist(), dst.tolist(), strict=True))
    assert one["traffic"]["most_bytes"] == amount.max() and not sent.diagonal().any()
