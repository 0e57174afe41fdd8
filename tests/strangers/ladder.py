"""A package as somebody else would write it, from docs/plugins.md alone: one plugin of every kind.

It inherits nothing of railweave and imports only what that page names. Two rows of GPUs, one cable between
the two of a column and one between neighbours of a row: a ladder.
"""

from __future__ import annotations

import json
import pathlib

import numpy as np

from railweave.framework.errors import FabricError, UnsupportedFabricError
from railweave.framework.hookspecs import hookimpl
from railweave.framework.model import FabricBuilder, NodeGroup, PathBatch, RouteTable, Schedule
from railweave.framework.parameters import Parameter


class Ladder:
    summary = "two rows of GPUs, joined like a ladder"
    parameters = (
        Parameter("rungs", 4, "count", "columns", minimum=2, maximum=1024),
        Parameter("rate", "100Gb/s", "rate", "rate of every link", minimum=1),
    )
    examples = ({"rungs": 4}, {"rungs": 2}, {"rungs": 5})
    axis_names = ("side", "rung")
    lossless = False
    notes = ()
    router = ""

    def configured(self, options):
        return self

    def larger(self, params, factor):
        return {**params, "rungs": params["rungs"] * factor}

    def build(self, params):
        rungs = params["rungs"]
        if rungs == 13:
            raise FabricError("a ladder of 13 rungs brings bad luck. Take 12 or 14.")
        builder = FabricBuilder("ladder", [NodeGroup("gpu", 0, (2, rungs), "g")], dict(params))
        column = np.arange(rungs)
        builder.cables(column, rungs + column, "rung", params["rate"])
        for side in (0, rungs):
            builder.cables(side + column[:-1], side + column[1:], "rail", params["rate"])
        return builder.build()


class Climber:
    """Breadth-first from every destination, one destination at a time."""

    summary = "fewest hops on ladders"
    parameters = ()
    serves = ("ladder",)
    requires = ()
    damped = True

    def configured(self, options):
        return self

    def promises(self, fabric):
        return ("reroutes",)

    def routes(self, fabric, health):
        if fabric.kind != "ladder":
            raise UnsupportedFabricError(f"climber serves ladders, not {fabric.kind}.")

        def resolve(src, dst):
            following = {int(d): self._towards(fabric, health, int(d)) for d in np.unique(dst)}
            paths = []
            for a, b in zip(src.tolist(), dst.tolist(), strict=True):
                path, node = [], a
                while node != b and node in following[b]:
                    path.append(following[b][node])
                    node = int(fabric.link_dst[path[-1]])
                paths.append(path if node == b else [])
            hops = np.full((len(src), max([1, *map(len, paths)])), -1)
            for row, path in zip(hops, paths, strict=True):
                row[: len(path)] = path
            return PathBatch.single(src, dst, hops, reachable=np.array([bool(p) for p in paths], bool))

        return RouteTable("climber", health.version, fabric.n_gpus, resolve)

    def _towards(self, fabric, health, target):
        """The first link of a shortest path from every node that reaches the target."""
        link_of, waiting = {}, [target]
        for node in waiting:
            for out in fabric.out_links(node).tolist():
                back, neighbour = out ^ 1, int(fabric.link_dst[out])
                if neighbour != target and neighbour not in link_of and not health.down[back]:
                    link_of[neighbour] = back
                    waiting.append(neighbour)
        return link_of


class Handover:
    """Every rank hands its data to the rank after it; the last to the first."""

    summary = "every rank hands its data to the next"
    kind = "send-recv"
    parameters = (Parameter("step", 1, "count", "how many ranks further", minimum=1),)
    serves = ()
    requires = ()
    same_result_everywhere = False

    def __init__(self, step=1):
        self.step = step

    def configured(self, options):
        return Handover(options["step"])

    def schedule(self, fabric, ranks, size_bytes, dtype, redop):
        n = len(ranks)
        if self.step % n == 0:
            raise UnsupportedFabricError(f"a handover of {self.step} among {n} ranks goes to itself.")
        src = np.arange(n)
        zero = np.zeros(n, np.int64)
        return Schedule(
            "handover", n, size_bytes, dtype, redop, size_bytes,
            src, (src + self.step) % n, zero, zero, np.full(n, size_bytes), zero, zero,
            np.zeros(n + 1, np.int64), np.zeros(0, np.int64), dst_buffer=np.ones(n, np.int64),
        )  # fmt: skip

    def inputs(self, schedule, seed):
        rng = np.random.default_rng(seed)
        kind = np.dtype(schedule.dtype)
        count = schedule.buffer_bytes // kind.itemsize
        return [rng.integers(1, 50, count).astype(kind) for _ in range(schedule.n_ranks)]

    def expected(self, schedule, inputs, rank):
        return inputs[(rank - self.step) % schedule.n_ranks]

    def busbw_factor(self, n_ranks):
        return 1.0

    def closed_form_s(self, fabric, schedule, packet):
        return None


class Relay(Handover):
    summary = "an application that hands over, and nothing else"
    kind = "relay"

    def configured(self, options):
        return Relay(options["step"])


class Coin:
    summary = "every link that is up is perfect"
    parameters = ()

    def configured(self, options):
        return self

    def scores(self, fabric, state, packet):
        served = np.where(np.isnan(state.service_bps), fabric.capacity_bps, state.service_bps)
        return np.where(state.up, np.clip(served / fabric.capacity_bps, 0.0, 1.0), 0.0)


class Tally:
    summary = "how many rows there were"
    parameters = (Parameter("file", "tally.txt", "text", "name of the file"),)

    def __init__(self, file="tally.txt"):
        self.file = file

    def configured(self, options):
        return Tally(options["file"])

    def write(self, result, directory):
        (pathlib.Path(directory) / self.file).write_text(f"{len(result['rows'])} rows\n")


class Diary:
    """Observes. One instance lives in the lab, another in the command; files join them."""

    def __init__(self):
        self.file = None

    def note(self, **entry):
        if self.file is not None:
            with self.file.open("a") as file:
                file.write(json.dumps(entry) + "\n")

    @hookimpl
    def on_run_start(self, experiment, directory):
        self.file = pathlib.Path(directory) / "diary.jsonl" if directory else None
        self.note(hook="on_run_start", router=experiment["router"]["name"])

    @hookimpl
    def on_fabric_up(self, fabric, endpoints):
        self.note(hook="on_fabric_up", gpus=fabric.n_gpus, endpoints=len(endpoints))
        print("the ladder stands")

    @hookimpl
    def on_health(self, health):
        self.note(hook="on_health", t_s=health.t_s, lowest=float(health.link_score.min()))

    @hookimpl
    def on_reroute(self, pairs, why, t_s):
        self.note(hook="on_reroute", pairs=pairs.tolist(), why=why, t_s=t_s)

    @hookimpl
    def on_iteration(self, result, t_s):
        self.note(hook="on_iteration", iteration=result.iteration, t_s=t_s)

    @hookimpl
    def on_run_end(self, result, directory):
        if directory:
            with (pathlib.Path(directory) / "diary.jsonl").open("a") as file:
                file.write(json.dumps({"hook": "on_run_end", "rows": len(result["rows"])}) + "\n")

    @hookimpl
    def register_topologies(self, register):
        register("ladder", Ladder())

    @hookimpl
    def register_routers(self, register):
        register("climber", Climber())

    @hookimpl
    def register_collectives(self, register):
        register("handover", Handover())

    @hookimpl
    def register_workloads(self, register):
        register("relay", Relay())

    @hookimpl
    def register_estimators(self, register):
        register("coin", Coin())

    @hookimpl
    def register_reports(self, register):
        register("tally", Tally())

    @hookimpl
    def register_benchmarks(self, register):
        register("blinks", Blinks())


class Blinks:
    summary = "how long nothing takes"
    parameters = (Parameter("times", 3, "count", "repetitions", minimum=1),)
    in_lab = False

    def configured(self, options):
        return self

    def run(self, options, progress):
        progress("blinking")
        return {"times": options["times"]}


diary = Diary()
