"""An engine as somebody else writes it: every transfer takes the time that it takes alone."""

from __future__ import annotations

import numpy as np

from railweave.framework.errors import TransportError
from railweave.framework.hookspecs import Estimate, hookimpl
from railweave.framework.model import IterationResult, Measurement
from railweave.framework.model.findings import EngineFacts, LinkTotals
from railweave.framework.runs.parts import EngineParts, RoutesInPlace
from railweave.framework.runs.recorder import Recorder
from railweave.framework.runs.session import Session

LACKED = (
    "reorder", "duplicate", "loss", "corrupt", "kill", "start",
    "program", "pcap", "trace", "chooser", "control", "probe_s",
)  # fmt: skip


class Steady:
    summary = "every transfer takes the time that it takes alone"
    parameters = ()
    packets, predicts = False, True
    lacks = dict.fromkeys(LACKED, "it knows when transfers end, and no packets") | {
        "lab": "it keeps nothing up"
    }

    def configured(self, options):
        return self

    def estimate(self, plan):
        return Estimate()

    def run(self, plan, observers, emit, directory=None, pcap=None):
        run = Run(plan)
        recorder = Recorder(plan.fabric, observers, emit, run.now_s)
        recorder.observers.fire("on_run_start", experiment=plan.document(), directory=directory)
        with Session(plan, run, recorder) as session:
            session.iterate()
            return session.findings()


class Run:
    """Brings nothing up; its clock, its source of measurements, and its place for faults, too."""

    ranks = ()

    def __init__(self, plan):
        self.plan, self.clock, self.now, self.measured, n = plan, self, 0.0, 0.0, plan.fabric.n_links
        self.scale = 1.0 if plan.experiment.rate_scale == "auto" else plan.experiment.rate_scale
        self.share, self.up, self.sent = np.ones(n), np.ones(n, bool), np.zeros(n)

    def bring_up(self, control):
        self.table, self.traffic = control.table, tuple(Traffic(self, job) for job in self.plan.jobs)
        fabric = self.plan.fabric.scaled(self.scale)
        return EngineParts(fabric, self.scale, "", 0.0, (), self, RoutesInPlace(self.use), self, self.traffic)

    def use(self, table):
        self.table = table

    def facts(self):
        return EngineFacts(computed_in_s=0.0)

    def nothing(self, *_):
        """What others have to do here."""

    checkpoint = down = start = probe = nothing

    def now_s(self):
        return self.now

    def wait(self, until_s):
        self.now = max(self.now, min([until_s, *(one.end for one in self.traffic if one.end > self.now)]))

    def measure(self):
        none, unknown, since = np.zeros(len(self.up)), np.full(len(self.up), np.nan), self.measured
        rates, self.measured = np.where(self.up, self.rates_bps, np.nan), self.now
        return Measurement(self.now, self.now - since, *[none] * 6, rates, unknown, self.up.copy())

    def totals(self):
        none = np.zeros(len(self.up))
        return LinkTotals(self.sent.copy(), self.sent / self.plan.packet.full_packet_bytes, none, none)

    @property
    def rates_bps(self):
        return self.plan.fabric.capacity_bps * self.scale * self.share

    def inject(self, fault):
        if fault.verb == "degrade":
            self.share[fault.links] = fault.options["to"]
        else:
            self.up[[*fault.links, *fault.links ^ 1]] = fault.verb != "down"
            self.share[fault.links] = 1.0 if fault.verb == "restore" else self.share[fault.links]


class Traffic:
    """The iterations of one job."""

    def __init__(self, run, job):
        self.run, self.job, self.end = run, job, -1.0

    def begin(self, iteration, schedule):
        self.number, self.listed, self.began = iteration, schedule.expand(), self.run.now
        self.wire = self.job.packet.wire_bytes_of(self.listed.size) * (self.listed.src != self.listed.dst)
        self.carry()

    def carry(self):
        """When the last transfer ends if all goes by the present routes, and what links carry by then."""
        run, listed, ranks = self.run, self.listed, self.job.ranks
        self.sent, ends = np.zeros(len(run.up)), np.zeros(listed.n_transfers)
        for i in range(listed.n_transfers):
            takes = [0.0] if self.wire[i] == 0 else []
            if self.wire[i]:
                for path in run.table.path(ranks[listed.src[i]], ranks[listed.dst[i]]):
                    links, size = list(path.links), self.wire[i] * path.weight
                    takes.append(8 * size / run.rates_bps[links].min() if run.up[links].all() else np.inf)
                    self.sent[links] += size
            waits = ends[listed.after[listed.after_start[i] : listed.after_start[i + 1]]]
            ends[i] = waits.max(initial=0.0) + max(takes, default=np.inf)
        self.end = self.began + ends.max(initial=0.0)

    def finished(self):
        if np.isinf(self.end):
            if self.run.now - self.began > 5:
                raise TransportError("a pair has had no path for 5 s. Leave one, or repair it earlier.")
            self.carry()
        if self.run.now < self.end:
            return None
        self.run.sent += self.sent
        packets = int(self.job.packet.packets_of(self.listed.size)[self.wire > 0].sum())
        seconds, sent = self.end - self.began, int(self.wire.sum())
        return IterationResult(self.number, seconds, None, packets, None, None, sent, (), 0.0, 0.0)

    def nothing(self, *_):
        """New routes are those of the run."""

    give_up = use_routes = nothing


@hookimpl
def register_engines(register):
    register("steady", Steady())
