"""`railweave model iteration`, `cost`, `allgather` and `traffic`, as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from railweave.framework.cli import main


def call(*words: str) -> Result:
    return CliRunner().invoke(main, ["model", *words], prog_name="railweave")


def document(*words: str) -> dict[str, object]:
    shown = call(*words, "--json")
    assert shown.exit_code == 0, shown.output
    found = json.loads(shown.output)
    assert found["schema"]["version"] == 1
    assert isinstance(found, dict)
    return found


def test_iteration_searches() -> None:
    """The strategy of the measured run (table 4: t 8, p 64, b 1, v 1) is among the fastest, at 50.66 s
    literally."""
    shown = call("iteration", "--model", "gpt-1t", "--gpus", "512", "--domain", "8", "--batch", "512")
    assert shown.exit_code == 0
    rows = [line.split() for line in shown.output.splitlines()]
    assert ["8", "64", "1", "1", "1", "8", "1", "1", "50.66s"] in [row[:9] for row in rows]
    found = document("iteration", "--tp", "8", "--pp", "64", "--interleave", "1", "--top", "1")
    (best,) = found["strategies"]  # type: ignore[misc]
    assert best["total_s"] == pytest.approx(50.66, abs=0.005) and best["microbatches"] == 512
    assert best["hardware_utilisation"] == pytest.approx(71.49 * 0.5701 / 50.66, rel=0.001)


def test_iteration_with_other_gpus() -> None:
    """Twice the operations per second: the computing terms halve, the others stay."""
    fixed = ("iteration", "--tp", "8", "--pp", "64", "--interleave", "1", "--memory", "0")
    slow = document(*fixed)["strategies"][0]  # type: ignore[index]
    fast = document(*fixed, "--tflops", "624", "--rail-rate", "25GB/s", "--domain-rate", "300GB/s")[
        "strategies"
    ][0]  # type: ignore[index]
    assert fast["steady_compute_s"] == pytest.approx(slow["steady_compute_s"] / 2)
    assert fast["steady_network_s"] == pytest.approx(slow["steady_network_s"])


def test_published_table() -> None:
    """R-O6 and R-O5 through the command."""
    words = (
        "iteration",
        "--published",
        "--gemm-factor",
        "1.5",
        "--attention",
        "16",
        "--domain-rate",
        "600GB/s",
    )
    shown = call(*words)
    assert shown.exit_code == 0
    assert [line.split()[-1] for line in shown.output.splitlines()[1:]] == [
        "0.784",
        "11.885",
        "35.286",
        "35.550",
        "70.679",
    ]
    assert "57.01 %" in shown.output
    cases: Any = document(*words)["cases"]
    assert [round(case["computed_s"], 2) for case in cases] == [0.78, 11.89, 35.29, 35.56, 70.69]


def test_published_table_refuses_what_it_does_not_use() -> None:
    shown = call("iteration", "--published", "--gpus", "64", "--model", "gpt-22b", "--top", "3")
    assert shown.exit_code == 2 and "--published does not use --model, --gpus, --top" in shown.stderr
    assert "Leave them out" in shown.stderr


def test_cost_is_table_2() -> None:
    """R-O1: the columns switches, rail switches, transceivers, rail transceivers and cut."""
    shown = call("cost")
    assert shown.exit_code == 0
    rows = [line.split() for line in shown.output.splitlines() if line.strip()[:1].isdigit()]
    assert [[row[i] for i in (0, 1, 4, 5, 6, 7, 10)] for row in rows] == [
        ["32768", "64", "2560", "1536", "196608", "131072", "37.5"],
        ["32768", "128", "1280", "256", "196608", "65536", "75.0"],
        ["32768", "256", "384", "128", "131072", "65536", "60.0"],
        ["65536", "64", "5120", "3072", "393216", "262144", "37.5"],
        ["65536", "128", "2560", "1536", "393216", "262144", "37.5"],
        ["65536", "256", "1280", "256", "393216", "131072", "75.0"],
    ]
    (row,) = document("cost", "--gpus", "32768", "--radix", "64")["networks"]  # type: ignore[misc]
    assert row["any_to_any"]["dollars"] == 196083712 and row["per_rail"] == 128


def test_allgather() -> None:
    """R-O2 and R-O3 through the command; the bounds over rows and columns and over every subset agree."""
    words = ("allgather", "--rails", "8", "--domains", "4", "--gpu", "a100")
    assert document(*words, "--size", "1000000000")["all_gather_s"] == pytest.approx(0.00666667, rel=1e-6)
    assert document(*words, "--size", "1000000")["all_to_all"] == pytest.approx(
        {"full_s": 0.00096, "rail_only_s": 0.00105333, "slowdown": 0.097222}, rel=1e-5
    )
    small = document("allgather", "--rails", "4", "--domains", "3")
    assert small["bounds_s"] == pytest.approx(small["bounds_over_all_subsets_s"])
    shown = call("allgather", "--rails", "2", "--domains", "3")
    assert shown.exit_code == 0 and "bound, rail-only (equation 9)" in shown.output


def test_traffic_writes_matrix_and_heatmaps(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("t.svg", "t.png", "t.csv")]
    words = ("traffic", "--domains", "4", "--rails", "4")
    shown = call(*words, "--svg", str(files[0]), "--png", str(files[1]), "--matrix", str(files[2]))
    assert shown.exit_code == 0, shown.output
    assert "256 ranks on 16 GPUs: groups are made smaller" in shown.output
    assert files[0].read_text().startswith("<svg") and files[1].read_bytes().startswith(b"\x89PNG")
    found = document(*words)
    matrix = np.loadtxt(files[2], delimiter=",")
    assert matrix.shape == (16, 16) and matrix.sum() == pytest.approx(found["total_bytes"])
    assert found["placed"] == {"tp": 4, "pp": 2, "dp": 2}
    assert sum(found["shares"].values()) == pytest.approx(1)  # type: ignore[attr-defined]
    lost = call(*words, "--svg", str(tmp_path / "none" / "t.svg"))
    assert lost.exit_code == 2 and "cannot be written" in lost.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("iteration", "--model", "gpt-3"), "there is no model 'gpt-3'"),
        (("iteration", "--gpu", "v100"), "there is no GPU 'v100'"),
        (("iteration", "--gpus", "7"), "fill HB domains"),
        (("iteration", "--tp", "0"), "t = 0"),
        (("iteration", "--batch", "-1"), "batch of -1"),
        (("iteration", "--memory", "1Q"), "--memory"),
        (("iteration", "--memory", "1G"), "does not fit"),
        (("iteration", "--rail-rate", "0"), "--rail-rate"),
        (("iteration", "--tflops", "-3"), "must be positive"),
        (("iteration", "--tflops", "nan"), "must be positive"),
        (("iteration", "--gemm-factor", "0"), "GEMM factor"),
        (("iteration", "--state-bytes", "-1"), "bytes per parameter"),
        (("iteration", "--published", "--domain-rate", "fast"), "--domain-rate"),
        (("iteration", "--top", "0"), "--top"),
        (("cost", "--radix", "63"), "even number"),
        (("cost", "--gpus", "100"), "fill HB domains"),
        (("cost", "--port-price", "nan"), "prices"),
        (("allgather", "--rails", "0"), "both must be 1 or more"),
        (("allgather", "--size", "much"), "--size"),
        (("traffic", "--tp", "3"), "constraint 18"),
        (("traffic", "--tp", "0"), "t is 0"),
        (("traffic", "--batch", "0"), "batch of 0"),
        (("traffic", "--domains", "0"), "domains"),
        (("traffic", "--domains", "64"), "Raise dp"),
    ],
)
def test_bad_input_exits_with_2(words: tuple[str, ...], says: str) -> None:
    shown = call(*words)
    assert shown.exit_code == 2
    assert says in shown.stderr


@pytest.mark.parametrize("name", ["iteration", "cost", "allgather", "traffic", "fleet"])
def test_help_has_an_example(name: str) -> None:
    shown = call(name, "--help")
    assert shown.exit_code == 0 and f"railweave model {name}" in shown.output.split("Example:")[1]


GPT_22B = "name: mine\nheads: 64\nhidden: 6144\nlayers: 48\n"
"""Table 4 of the rail-only paper."""


@pytest.mark.parametrize("command", ["iteration", "traffic"])
def test_a_model_from_a_file_is_the_one_with_its_numbers(command: str, tmp_path: Path) -> None:
    path = tmp_path / "model.yaml"
    path.write_text(GPT_22B)
    ours, named = (document(command, "--model", name) for name in (f"file:{path}", "gpt-22b"))
    assert ours.pop("model", None) != named.pop("model", None) or command == "traffic"
    differing = {key for key in ours if ours[key] != named[key]}
    assert differing <= {"model", "job"}


def test_a_file_with_missing_fields_names_them(tmp_path: Path) -> None:
    path = tmp_path / "model.yaml"
    path.write_text("name: mine\nheads: 64\n")
    shown = call("iteration", "--model", f"file:{path}")
    assert shown.exit_code == 2
    assert "the model lacks hidden, layers" in shown.output and str(path) in shown.output
    missing = call("iteration", "--model", f"file:{tmp_path / 'none.yaml'}")
    assert missing.exit_code == 2 and "none.yaml" in missing.output
