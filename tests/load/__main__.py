"""`./bench appliance [--json]`: the appliance under the load of a company: agents, browsers, lists and allocations at once, on one machine.

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
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from deploy.supervisor import ROOT
from tests.load.appliance import FLEET_PORT, HTTPS_PORT, Bench
from tests.load.kill_rounds import KILL_NODES, kill_rounds
from tests.load.placement import placement_ms

WARM_UP_SECONDS, SAMPLE_SECONDS = 15.0, 5.0


class Part:
    """A process of the load; it answers each line with one line."""

    def __init__(self, module: str, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", f"tests.load.{module}", *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )

    def tell(self, *words: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def ask(self, *words: object) -> Any:
        self.tell(*words)
        return self.answer()

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def same_history(bench: Bench, sent: dict[str, list[dict[str, float]]]) -> tuple[int, int]:
    """Readings that REST shows as they were sent, of how many."""
    equal = total = 0
    for gpu, samples in sent.items():
        shown = {i["metric"]: [p[1] for p in i["points"]] for i in bench.get(f"gpus/{gpu}/metrics?resolution_seconds=0")["items"]}
        for metric in samples[0]:
            wanted = [s[metric] for s in samples]
            total += len(wanted)
            equal += sum(a == b for a, b in zip(wanted, shown.get(metric, []), strict=False)) if len(shown.get(metric, [])) == len(wanted) else 0
    return equal, total


def row(name: str, unit: str, value: float, target: float, met: bool | None = None, **more: object) -> dict[str, object]:
    return {"name": name, "value": round(value, 3), "unit": unit, "target": target, "met": value <= target if met is None else met, **more}


def run(bench: Bench, sockets: int, wide: int, lists: float, pairs: float, measured_seconds: float) -> list[dict[str, object]]:
    bench.populate()
    bench.start()
    begun = time.time()
    half = bench.nodes // 2
    fleet = [
        Part("agents", bench.folder / "fleet.json", f"127.0.0.1:{FLEET_PORT}", begun, first, count, SAMPLE_SECONDS)
        for first, count in ((0, half), (half, bench.nodes - half))
    ]
    parts = list(fleet)
    try:
        connected = max(p.ask("ready", begun)["ready_at"] for p in fleet) - begun
        print(f"{bench.nodes} agents connected in {connected:.1f} s", file=sys.stderr)
        browsers = Part("browsers", bench.folder, f"wss://127.0.0.1:{HTTPS_PORT}/api/v1/feed", begun, SAMPLE_SECONDS, sockets, wide)
        people = Part("people", bench.folder, bench.url, lists, pairs)
        parts += [browsers, people]
        time.sleep(WARM_UP_SECONDS)
        begin, spent = time.time(), bench.processor_seconds()
        placements = []
        while time.time() < begin + measured_seconds - 2:
            placements.append(placement_ms())
            time.sleep(5)
        time.sleep(max(begin + measured_seconds - time.time(), 0))
        status, rss, spent = bench.get("appliance"), bench.rss_bytes(), bench.processor_seconds() - spent
        time.sleep(SAMPLE_SECONDS)
        end = begin + measured_seconds
        ingest = [p.ask("figures", begin, end) for p in fleet]
        seen, web = browsers.ask("figures", begin, end), people.ask("figures", begin, end)
        for part in (browsers, people):
            part.stop()
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
        for part in parts:
            part.stop()
        bench.appliance.terminate()
        bench.appliance.wait()
    due = seen["due"]
    return [
        row("ingest_ack_p99_ms", "ms", max(i["p99_ms"] for i in ingest), 50, samples=[i["count"] for i in ingest], misses=sum(i["misses"] for i in ingest)),
        row("browser_sample_p99_ms", "ms", seen["p99_ms"], 500, due=due, share_of_due=round(seen["count"] / max(due, 1), 5), more=seen),
        row("list_p99_ms", "ms", web["list"]["p99_ms"], 300, more=web["list"]),
        row("allocate_ticket_p99_ms", "ms", web["allocate"]["p99_ms"], 150, more=web["allocate"]),
        row("loop_lag_p99_ms", "ms", status["loop_lag_p99_ms"], 50, p50_ms=status["loop_lag_p50_ms"], index_mismatches=status["index_mismatches"]),
        row("reconnect_all_s", "s", back, 60, first_time_s=round(connected, 2)),
        row("rss_bytes", "bytes", rss, 600e6, processors=round(spent / measured_seconds, 2)),
        row("placement_10k_gpus_ms", "ms", statistics.median(placements), 20, runs=len(placements)),
        row("history_equal_share", "ratio", equal / max(total, 1), 1.0, equal == total and total > 0, readings=total),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="./bench appliance", description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--sockets", type=int, default=300)
    parser.add_argument("--wide", type=int, default=20, help="sockets that watch 1,024 GPUs")
    parser.add_argument("--lists", type=float, default=50.0, help="a second")
    parser.add_argument("--pairs", type=float, default=20.0, help="allocations a second")
    parser.add_argument("--seconds", type=float, default=60.0, help="that are measured, after 15 of warm-up")
    parser.add_argument("--keep", type=Path, help="folder for the data and the log; default: one that is removed")
    parser.add_argument("--kill-rounds", type=int, metavar="N", help="instead: kills it so often with requests in flight, and compares all books")
    options = parser.parse_args()
    if options.kill_rounds:
        with tempfile.TemporaryDirectory(prefix="busbar-kill-") as made:
            report = kill_rounds(Bench(options.keep or Path(made), KILL_NODES), options.kill_rounds)
        print(json.dumps(asdict(report), indent=1))
        raise SystemExit(1 if report.problems else 0)
    with tempfile.TemporaryDirectory(prefix="busbar-load-") as made:
        folder = options.keep or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        results = run(Bench(folder, options.nodes), options.sockets, options.wide, options.lists, options.pairs, options.seconds)
    machine = {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
    }
    if options.json:
        print(json.dumps({"machine": machine, "results": results}, indent=1))
        return
    for r in results:
        print(f"{'met   ' if r['met'] else 'MISSED'} {r['name']:26} {r['value']:>14,} {r['unit']:6} target {r['target']:,}")


if __name__ == "__main__":
    main()
