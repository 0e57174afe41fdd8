"""The collectives of a run as NCCL Inspector's JSON lines, which its exporter and dashboards read.

Source of the keys: NCCL, plugins/profiler/inspector/README.md, "Output Example".
"""

import json

from railweave.framework.page.exports.exported_run import ExportedIteration, ExportedJob, ExportedRun
from railweave.framework.page.exports.prometheus import NCCL


def lines_of(run: ExportedRun) -> str:
    """A line for each iteration of each collective, all figures declared; times in whole microseconds, as
    Inspector has them. `rank` is 0: all ranks end together. Timestamps count from the start of the run.
    Workloads and programs are no operations of NCCL and have none."""
    jobs = {job.number: job for job in run.jobs if job.is_collective}
    done = [i for i in run.iterations if i.job in jobs and i.declared_us is not None]
    return "".join(json.dumps(_record(run, jobs[i.job], i)) + "\n" for i in done)


def _record(run: ExportedRun, job: ExportedJob, iteration: ExportedIteration) -> dict[str, object]:
    declared_us, scale = iteration.declared_us or 0.0, run.rate_scale or 1.0
    end_us = iteration.begin_s * scale * 1e6 + declared_us
    return {
        "header": {"id": f"0x{job.number:x}", "rank": 0, "n_ranks": job.ranks, "nnodes": job.domains},
        "metadata": {
            "inspector_output_format_version": "v4.0",
            "git_rev": "",
            "rec_mechanism": "railweave",
            "dump_timestamp_us": round(end_us),
            "hostname": run.title,
            "pid": 0,
        },
        "coll_perf": {
            "coll": NCCL[job.kind],
            "coll_sn": iteration.number,
            "coll_msg_size_bytes": iteration.size_bytes,
            "coll_exec_time_us": round(declared_us),
            "coll_timing_source": "railweave_declared",
            "coll_algobw_gbs": iteration.algbw_gbs,
            "coll_busbw_gbs": iteration.busbw_gbs,
        },
    }
