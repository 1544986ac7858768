"""`./bench appliance [--json]`: load test of the appliance on one machine.

1,000 agents are connected in all stages. The stages add browsers, lists and allocations, first
separately and then together. Latencies count from the due time (open loop); errors and missing
responses are misses. At the end the samples of 20 GPUs in REST are compared with the samples that
their agents sent. Then the appliance is killed, and the time until all agents are reconnected is
measured.
"""

from __future__ import annotations

import argparse
import json
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
from tests.load.permission_cost import measure_pairs
from tests.load.results import print_results, result
from tests.load.stages import SAMPLE_SECONDS, Measured, Stage, Worker, measure


def count_equal_samples(bench: Bench, sent: dict[str, list[dict[str, float]]]) -> tuple[int, int]:
    """Return how many sent values REST shows unchanged, and how many were sent."""
    equal = total = 0
    for gpu, samples in sent.items():
        shown = {
            i["metric"]: [p[1] for p in i["points"]]
            for i in bench.get(f"gpus/{gpu}/metrics?resolution_seconds=0")["items"]
        }
        for metric in samples[0]:
            expected = [s[metric] for s in samples]
            actual = shown.get(metric, [])
            total += len(expected)
            if len(actual) == len(expected):
                equal += sum(a == b for a, b in zip(expected, actual, strict=True))
    return equal, total


def stages(sockets: int, wide: int, lists: float, pairs: float) -> list[Stage]:
    return [
        Stage("agents"),
        Stage("browsers", sockets=sockets, wide=wide),
        Stage("lists", lists=lists),
        Stage("allocations", pairs=pairs),
        Stage("together", sockets, wide, lists, pairs),
    ]


def start_agents(bench: Bench, started: float) -> list[Worker]:
    """Start two processes, each with half of the agents."""
    half = bench.nodes // 2
    return [
        Worker(
            "agents",
            bench.folder / "fleet.json",
            f"127.0.0.1:{FLEET_PORT}",
            started,
            first,
            count,
            SAMPLE_SECONDS,
        )
        for first, count in ((0, half), (half, bench.nodes - half))
    ]


def collect_sent_samples(fleet: Sequence[Worker]) -> dict[str, list[dict[str, float]]]:
    """Stop sampling in all agents and return the samples of the recorded GPUs by GPU id."""
    sent: dict[str, list[dict[str, float]]] = {}
    for worker in fleet:
        worker.send("sent")
    for worker in fleet:
        sent |= worker.receive()["sent"]
    return sent


def run(bench: Bench, selected: Sequence[Stage], seconds: float) -> list[dict[str, object]]:
    """Run the stages and return the results, the figures of each stage last."""
    bench.populate()
    bench.start()
    started = time.time()
    fleet = start_agents(bench, started)
    try:
        connect_seconds = max(w.request("ready", started)["ready_at"] for w in fleet) - started
        print(f"{bench.nodes} agents connected in {connect_seconds:.1f} s", file=sys.stderr)
        measured: dict[str, Measured] = {}
        for stage in selected:
            measured[stage.name] = measure(bench, fleet, stage, started, seconds)
            print(f"{stage.name}: {json.dumps(measured[stage.name].short())}", file=sys.stderr)
        equal, total = count_equal_samples(bench, collect_sent_samples(fleet))
        reconnect_seconds = measure_reconnect(bench, fleet)
    finally:
        for worker in fleet:
            worker.stop()
        bench.appliance.terminate()
        bench.appliance.wait()
    placement_ms = statistics.median(ms for m in measured.values() for ms in m.placements_ms)
    share, complete = equal / max(total, 1), equal == total and total > 0
    first_connect = round(connect_seconds, 2)
    return [
        *latencies(measured),
        result("reconnect_all_s", "s", reconnect_seconds, 60, first_connect_s=first_connect),
        *memory(measured),
        result("placement_10k_gpus_ms", "ms", placement_ms, 20),
        result("history_equal_share", "ratio", share, 1.0, complete, values=total),
        {"name": "stages", "more": {name: m.short() for name, m in measured.items()}},
    ]


def measure_reconnect(bench: Bench, fleet: Sequence[Worker]) -> float:
    """Kill and restart the appliance. Return the seconds until all agents are connected again."""
    killed = time.time()
    bench.appliance.send_signal(signal.SIGKILL)
    bench.appliance.wait()
    bench.start()
    return float(max(w.request("ready", killed)["ready_at"] for w in fleet) - killed)


def latencies(measured: dict[str, Measured]) -> list[dict[str, object]]:
    """Return the latency rows.

    Each figure is from its own stage. Ingest and loop lag are the worst of the separate stages. The
    stage "together" is only reported in the figures of the stages.
    """
    own = {name: m for name, m in measured.items() if name != "together"}
    if not own:
        return []
    slowest = max(own, key=lambda name: own[name].ingest_ms)
    ingest = own[slowest].ingest
    found = [
        result("ingest_ack_p99_ms", "ms", own[slowest].ingest_ms, 50, stage=slowest, more=ingest)
    ]
    for name, stage, target in (
        ("browser_sample", "browsers", 500),
        ("list", "lists", 300),
        ("allocate_ticket", "allocations", 150),
    ):
        if stage in own:
            m = own[stage]
            figures = {"browsers": m.browsers, "lists": m.lists, "allocations": m.pairs}[stage]
            found.append(result(f"{name}_p99_ms", "ms", figures["p99_ms"], target, more=figures))
    slowest = max(own, key=lambda name: own[name].status["loop_lag_p99_ms"])
    status = own[slowest].status
    mismatches = status["index_mismatches"]
    lag = status["loop_lag_p99_ms"]
    found.append(
        result("loop_lag_p99_ms", "ms", lag, 50, stage=slowest, index_mismatches=mismatches)
    )
    return found


def memory(measured: dict[str, Measured]) -> list[dict[str, object]]:
    """Return the memory row: the maximum of the separate stages."""
    own = {name: m.rss_bytes for name, m in measured.items() if name != "together"}
    together = [m.rss_bytes for name, m in measured.items() if name == "together"]
    return (
        [
            result(
                "rss_bytes",
                "bytes",
                max(own.values()),
                600e6,
                stage=max(own, key=lambda name: own[name]),
                together=together[0] if together else None,
            )
        ]
        if own
        else []
    )


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./bench appliance", description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--nodes", type=int, default=1000)
    add_stage_options(parser)
    parser.add_argument(
        "--keep", type=Path, help="folder for data and log; default: a temporary folder"
    )
    parser.add_argument(
        "--kill-rounds",
        type=int,
        metavar="N",
        help="instead, kill the appliance N times with requests in flight and compare all records",
    )
    parser.add_argument(
        "--permission-pairs",
        type=int,
        metavar="N",
        help="instead, measure in N pairs what many role bindings add to the cost of lists",
    )
    return parser.parse_args()


def add_stage_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose the stages and their load."""
    parser.add_argument("--sockets", type=int, default=300)
    parser.add_argument("--wide", type=int, default=20, help="sockets that watch 1,024 GPUs")
    parser.add_argument("--lists", type=float, default=50.0, help="GPU lists per second")
    parser.add_argument(
        "--pairs", type=float, default=20.0, help="allocations with a ticket per second"
    )
    parser.add_argument(
        "--people",
        action="store_true",
        help="with 2,000 users, 200 groups, 300 projects and 5,000 role bindings",
    )
    parser.add_argument(
        "--stage",
        action="append",
        choices=[s.name for s in stages(0, 0, 0, 0)],
        help="run this stage only; can be repeated",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=60.0,
        help="measured time of each stage, after a warm-up of 15 s",
    )


def main() -> None:
    options = parse_arguments()
    if options.kill_rounds:
        with tempfile.TemporaryDirectory(prefix="busbar-kill-") as temporary:
            bench = Bench(options.keep or Path(temporary), KILL_NODES)
            report = kill_rounds(bench, options.kill_rounds)
        print(json.dumps(asdict(report), indent=1))
        raise SystemExit(1 if report.problems else 0)
    with tempfile.TemporaryDirectory(prefix="busbar-load-") as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if pairs := options.permission_pairs:
            rows = measure_pairs(folder, options.nodes, pairs, options.seconds)
            print_results(rows, as_json=options.json)
            return
        all_stages = stages(options.sockets, options.wide, options.lists, options.pairs)
        selected = [s for s in all_stages if not options.stage or s.name in options.stage]
        results = run(
            Bench(folder, options.nodes, with_people=options.people), selected, options.seconds
        )
    print_results(results, as_json=options.json)


if __name__ == "__main__":
    main()
