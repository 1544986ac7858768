"""`./bench appliance [--json]`: the appliance under the load of a company, on one machine: a thousand agents all the time, and beside them one after the other
browsers, lists, allocations, and then all of these at once.

Everything is measured from the moment it was due (open loop); errors and what never came are misses. Afterwards what REST shows of 20 GPUs is compared with
what their agents sent, and the appliance is killed to see how long all agents take to be back.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tests.load.appliance import FLEET_PORT, Bench
from tests.load.kill_rounds import KILL_NODES, kill_rounds
from tests.load.stages import SAMPLE_SECONDS, Measured, Part, Stage, measure


def same_history(bench: Bench, sent: dict[str, list[dict[str, float]]]) -> tuple[int, int]:
    """Readings that REST shows as they were sent, of how many."""
    equal = total = 0
    for gpu, samples in sent.items():
        shown = {
            i["metric"]: [p[1] for p in i["points"]]
            for i in bench.get(f"gpus/{gpu}/metrics?resolution_seconds=0")["items"]
        }
        for metric in samples[0]:
            wanted = [s[metric] for s in samples]
            total += len(wanted)
            equal += (
                sum(a == b for a, b in zip(wanted, shown.get(metric, []), strict=False))
                if len(shown.get(metric, [])) == len(wanted)
                else 0
            )
    return equal, total


def row(
    name: str, unit: str, value: float, target: float, met: bool | None = None, **more: object
) -> dict[str, object]:
    return {
        "name": name,
        "value": round(value, 3),
        "unit": unit,
        "target": target,
        "met": value <= target if met is None else met,
        **more,
    }


def stages(sockets: int, wide: int, lists: float, pairs: float) -> list[Stage]:
    return [
        Stage("agents"), Stage("browsers", sockets=sockets, wide=wide), Stage("lists", lists=lists), Stage("allocations", pairs=pairs),
        Stage("together", sockets, wide, lists, pairs),
    ]  # fmt: skip


def run(bench: Bench, wanted: Sequence[Stage], measured_seconds: float) -> list[dict[str, object]]:
    bench.populate()
    bench.start()
    begun = time.time()
    half = bench.nodes // 2
    fleet = [
        Part(
            "agents",
            bench.folder / "fleet.json",
            f"127.0.0.1:{FLEET_PORT}",
            begun,
            first,
            count,
            SAMPLE_SECONDS,
        )
        for first, count in ((0, half), (half, bench.nodes - half))
    ]
    try:
        connected = max(p.ask("ready", begun)["ready_at"] for p in fleet) - begun
        print(f"{bench.nodes} agents connected in {connected:.1f} s", file=sys.stderr)
        measured: dict[str, Measured] = {}
        for stage in wanted:
            measured[stage.name] = measure(bench, fleet, stage, begun, measured_seconds)
            print(f"{stage.name}: {json.dumps(measured[stage.name].short())}", file=sys.stderr)
        sent: dict[str, list[dict[str, float]]] = {}
        for part in fleet:
            part.tell("sent")
        for part in fleet:
            sent |= part.answer()["sent"]
        equal, total = same_history(bench, sent)
        killed = time.time()
        bench.appliance.send_signal(signal.SIGKILL)
        bench.appliance.wait()
        bench.start()
        back = max(p.ask("ready", killed)["ready_at"] for p in fleet) - killed
    finally:
        for part in fleet:
            part.stop()
        bench.appliance.terminate()
        bench.appliance.wait()
    return [
        *latencies(measured),
        row("reconnect_all_s", "s", back, 60, first_time_s=round(connected, 2)),
        *memory(measured),
        row(
            "placement_10k_gpus_ms",
            "ms",
            statistics.median(ms for m in measured.values() for ms in m.placements_ms),
            20,
        ),
        row(
            "history_equal_share",
            "ratio",
            equal / max(total, 1),
            1.0,
            equal == total and total > 0,
            readings=total,
        ),
        {"name": "stages", "more": {name: m.short() for name, m in measured.items()}},
    ]


def latencies(measured: dict[str, Measured]) -> list[dict[str, object]]:
    """Each figure from its own stage; ingest and the loop from the worst of those. What came when everything was at once is told beside them."""
    own, found = {name: m for name, m in measured.items() if name != "together"}, []
    if own:
        worst = max(own, key=lambda name: own[name].ingest_ms)
        found.append(
            row(
                "ingest_ack_p99_ms",
                "ms",
                own[worst].ingest_ms,
                50,
                stage=worst,
                more=own[worst].ingest,
            )
        )
    for name, stage, target in (
        ("browser_sample", "browsers", 500),
        ("list", "lists", 300),
        ("allocate_ticket", "allocations", 150),
    ):
        if stage in own:
            figures = {
                "browsers": own[stage].browsers,
                "lists": own[stage].lists,
                "allocations": own[stage].pairs,
            }[stage]
            found.append(row(f"{name}_p99_ms", "ms", figures["p99_ms"], target, more=figures))
    if own:
        worst = max(own, key=lambda name: own[name].status["loop_lag_p99_ms"])
        status = own[worst].status
        found.append(
            row(
                "loop_lag_p99_ms",
                "ms",
                status["loop_lag_p99_ms"],
                50,
                stage=worst,
                index_mismatches=status["index_mismatches"],
            )
        )
    return found


def memory(measured: dict[str, Measured]) -> list[dict[str, object]]:
    """As ingest: of the worst of the stages that have a figure of their own."""
    own = {name: m.rss_bytes for name, m in measured.items() if name != "together"}
    together = {name: m.rss_bytes for name, m in measured.items() if name == "together"}
    return (
        [
            row(
                "rss_bytes",
                "bytes",
                max(own.values()),
                600e6,
                stage=max(own, key=lambda name: own[name]),
                **together,
            )
        ]
        if own
        else []
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="./bench appliance", description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--sockets", type=int, default=300)
    parser.add_argument("--wide", type=int, default=20, help="sockets that watch 1,024 GPUs")
    parser.add_argument("--lists", type=float, default=50.0, help="a second")
    parser.add_argument("--pairs", type=float, default=20.0, help="allocations a second")
    parser.add_argument(
        "--stage",
        action="append",
        choices=[s.name for s in stages(0, 0, 0, 0)],
        help="only this one; may be given again",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=60.0,
        help="that are measured of each stage, after 15 of warm-up",
    )
    parser.add_argument(
        "--keep", type=Path, help="folder for the data and the log; default: one that is removed"
    )
    parser.add_argument(
        "--kill-rounds",
        type=int,
        metavar="N",
        help="instead: kills it so often with requests in flight, and compares all books",
    )
    options = parser.parse_args()
    if options.kill_rounds:
        with tempfile.TemporaryDirectory(prefix="busbar-kill-") as made:
            report = kill_rounds(Bench(options.keep or Path(made), KILL_NODES), options.kill_rounds)
        print(json.dumps(asdict(report), indent=1))
        raise SystemExit(1 if report.problems else 0)
    with tempfile.TemporaryDirectory(prefix="busbar-load-") as made:
        folder = options.keep or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        all_of_them = stages(options.sockets, options.wide, options.lists, options.pairs)
        wanted = [s for s in all_of_them if not options.stage or s.name in options.stage]
        results = run(Bench(folder, options.nodes), wanted, options.seconds)
    machine = {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
    }
    if options.json:
        print(json.dumps({"machine": machine, "results": results}, indent=1))
        return
    for r in results[:-1]:
        print(
            f"{'met   ' if r['met'] else 'MISSED'} {r['name']:26} {r['value']:>14,} {r['unit']:6} target {r['target']:,}"
        )


if __name__ == "__main__":
    main()
