"""Run directories that are incomplete, damaged, of another version, or made to harm the reader.

Each function changes a copy of a good run directory. `python -m tests.web.hostile RUN PARENT` makes all.
"""

from __future__ import annotations

import io
import json
import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HTML = "</script><script>window.harm=1</script><!--<script><img src=x onerror='window.harm=2'>\u2028\"'&"
"""Ends a script element; starts one inside a comment, where the true end is not seen; is no JavaScript."""

Change = Callable[[Path], None]


def killed(run: Path) -> None:
    """Ended by SIGKILL in the middle of a line: neither a result nor samples."""
    for name in ("result.json", "health.npz"):
        (run / name).unlink()
    events = run / "events.jsonl"
    events.write_bytes(events.read_bytes()[:-25])


def killed_at_once(run: Path) -> None:
    """Killed before the first event."""
    for name in ("result.json", "health.npz", "events.jsonl"):
        (run / name).unlink()


def names_with_html(run: Path) -> None:
    """Every word that a user, a plugin or a fabric file gave."""
    document = json.loads((run / "result.json").read_text())
    for fault in document["faults"]:
        fault["text"] = fault["target"] = HTML
    for reroute in document["reroutes"]:
        reroute["why"] = HTML
    for one in document["bottlenecks"]:
        one["element"] = one["link"] = HTML
    document["links"][0]["name"] = document["elements"][0]["name"] = HTML
    document["fidelity"]["reasons"] = [HTML]
    document["notes"] = [HTML]
    document["versions"][HTML] = HTML
    document["experiment"]["collective"] = HTML
    document["controller"]["name"] = document["fabric"]["kind"] = HTML
    (run / "result.json").write_text(json.dumps(document))
    lines = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    for event in lines:
        event |= {key: HTML for key in ("text", "why") if key in event}
        if "changes" in event:
            event["changes"] = {HTML: [1.0, 0.5], **event["changes"]}
    (run / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def a_million_events(run: Path) -> None:
    with (run / "events.jsonl").open("a") as file:
        for i in range(1_000_000):
            change = f'{{"rail:{i % 4}": [1.0, {i % 20 / 20}]}}'
            file.write(f'{{"kind": "health", "t_s": {i * 1e-5}, "version": {i}, "changes": {change}}}\n')


def not_numbers(run: Path) -> None:
    """NaN and infinity in every measured array, and in events."""
    arrays = _samples(run)
    for name, array in arrays.items():
        if array.dtype.kind == "f" and name != "t_s":
            array.flat[::2], array.flat[1::7] = np.nan, np.inf
    _write(run, arrays)
    with (run / "events.jsonl").open("a") as file:
        file.write('{"kind": "health", "t_s": NaN, "version": 9, "changes": {"rail:1": [NaN, -Infinity]}}\n')
        file.write('{"kind": "iteration", "iteration": 99, "seconds": NaN, "wrong": 0}\n')


def no_numbers_in_the_result(run: Path) -> None:
    document = json.loads((run / "result.json").read_text())
    document["rows"][0]["time_us"] = float("nan")
    document["links"][0]["utilisation"] = float("inf")
    (run / "result.json").write_text(json.dumps(document))


def times_out_of_order(run: Path) -> None:
    arrays = _samples(run)
    arrays["t_s"] = arrays["t_s"][::-1].copy()
    arrays["t_s"][0] = np.nan
    _write(run, arrays)


def samples_of_another_fabric(run: Path) -> None:
    arrays = _samples(run)
    _write(run, {name: a[:, :-3] if a.ndim == 2 else a for name, a in arrays.items()})


def routes_of_fractions(run: Path) -> None:
    with np.load(run / "routes.npz") as arrays:
        np.savez_compressed(run / "routes.npz", **{name: array + 0.5 for name, array in arrays.items()})


def routes_of_another_fabric(run: Path) -> None:
    with np.load(run / "routes.npz") as arrays:
        np.savez_compressed(run / "routes.npz", **{**arrays, "links": arrays["links"] + 60})


def no_samples(run: Path) -> None:
    _write(run, {name: array[:0] for name, array in _samples(run).items()})


def a_program_as_samples(run: Path) -> None:
    """Arrays of Python objects, which only pickle could read."""
    file = io.BytesIO()
    np.savez(file, t_s=np.array([print, HTML], dtype=object))
    (run / "health.npz").write_bytes(file.getvalue())


def samples_that_swell(run: Path) -> None:
    """A megabyte on disk that claims a terabyte in memory."""
    header = io.BytesIO()
    shape = (10**6, 10**5)
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(run / "health.npz", "w", zipfile.ZIP_DEFLATED) as file:
        for name in _NAMES:
            file.writestr(f"{name}.npy", header.getvalue() + bytes(10**6))


def events_that_are_none(run: Path) -> None:
    """Lines that are no JSON, no object, of no known kind, not text, without what their kind has, or long."""
    lines = [b"{", b"[1, 2]", b"null", b'{"kind": "unknown"}', b"\xff\xfe\x00", b'{"kind": "fault"}']
    lines += [b'{"kind": "health", "t_s": "soon", "version": [], "changes": 5}', b"9" * 20_000]
    lines += [b"[" * 100_000, json.dumps({"kind": "note", "text": "long " * 200_000}).encode()]
    with (run / "events.jsonl").open("ab") as file:
        file.write(b"\n".join(lines) + b"\n")


def damaged_numbers(run: Path) -> None:
    """Without a result: kinds and numbers of other types, numbers too large or not finite."""
    killed(run)
    iteration = '{"kind": "iteration", "iteration": 9, "seconds": 1.0, '
    lines = [
        '{"kind": ["fault"]}',
        '{"kind": {}}',
        f'{iteration}"end_s": null}}',
        f'{iteration}"end_s": "x"}}',
    ]
    lines += [f'{iteration}"wrong": NaN}}', f'{iteration}"job": []}}', f'{iteration}"end_s": 1{"0" * 400}}}']
    with (run / "events.jsonl").open("a") as file:
        file.write("\n".join(["", *lines, ""]))


def events_in_a_directory(run: Path) -> None:
    killed_at_once(run)
    (run / "events.jsonl").mkdir()


def of_a_later_version(run: Path) -> None:
    document = json.loads((run / "result.json").read_text())
    document["schema"]["version"] = 99
    (run / "result.json").write_text(json.dumps(document))


def a_result_with_holes(run: Path) -> None:
    document = json.loads((run / "result.json").read_text())
    del document["rows"], document["fabric"]["gpus"]
    (run / "result.json").write_text(json.dumps(document))


def half_a_result(run: Path) -> None:
    text = (run / "result.json").read_text()
    (run / "result.json").write_text(text[: len(text) // 2])


def an_experiment_that_swells(run: Path) -> None:
    """A billion words by references to references."""
    lines = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 10)]
    (run / "experiment.yaml").write_text("\n".join(lines) + "\n")
    killed(run)


def no_experiment(run: Path) -> None:
    """Neither an experiment nor a result: nothing says which fabric it was."""
    (run / "experiment.yaml").unlink()
    killed(run)


def a_fabric_too_large(run: Path) -> None:
    text = (run / "experiment.yaml").read_text()
    assert "domains: 4" in text
    (run / "experiment.yaml").write_text(text.replace("domains: 4", "domains: 1000000"))
    (run / "result.json").unlink()


CHANGES: tuple[Change, ...] = (
    killed, killed_at_once, names_with_html, a_million_events, not_numbers, no_numbers_in_the_result,
    times_out_of_order, samples_of_another_fabric, routes_of_fractions, routes_of_another_fabric, no_samples,
    a_program_as_samples, samples_that_swell, events_that_are_none, damaged_numbers, events_in_a_directory,
    of_a_later_version, a_result_with_holes, half_a_result, an_experiment_that_swells, no_experiment,
    a_fabric_too_large,
)  # fmt: skip

_NAMES = ("t_s", "queue_bytes", "waited_bytes", "service_bps", "link_score", "element_score")


def changed(good: Path, change: Change, to: Path) -> Path:
    """A copy of the run directory `good` at `to`, changed."""
    shutil.copytree(good, to)
    (to / "report.html").unlink(missing_ok=True)
    change(to)
    return to


def _samples(run: Path) -> dict[str, np.ndarray[Any, Any]]:
    with np.load(run / "health.npz") as arrays:
        return {name: array.copy() for name, array in arrays.items()}


def _write(run: Path, arrays: dict[str, np.ndarray[Any, Any]]) -> None:
    np.savez_compressed(run / "health.npz", **arrays)


if __name__ == "__main__":
    for change in CHANGES:
        changed(Path(sys.argv[1]), change, Path(sys.argv[2]) / f"hostile-{change.__name__}")
