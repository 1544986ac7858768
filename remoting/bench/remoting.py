"""`./bench remoting`: driver calls over shared memory and TLS, on the null driver.

Reference values are the null driver without remoting ("direct") and raw transports without remoting
("floor"). All are measured alternately in one run; figures are medians of the repetitions. The null
driver does nothing, so the figures are the cost of calls and transport. On two cores, four client
threads share the cores with the node; the field `needs` marks the affected row.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
from collections.abc import Callable
from typing import Any

from deploy.supervisor import BUILD
from tests.remoting.node import NULL_DRIVER, LocalNode

REPETITIONS = 5
BENCH = BUILD / "bench"
TRANSPORTS = {"shm": {}, "tls": {"BUSBAR_TRANSPORT": "tls"}}
Values = dict[str, float]
FLOORS = {
    "shm": ("spin_ping_us", "memory_stream_gib_s"),
    "tls": ("tls_ping_us", "tls_stream_gib_s"),
}


def measure(program: str, env: dict[str, str], *arguments: str) -> Values:
    """Run a bench program and return the figures that it prints as JSON."""
    out = subprocess.run(
        [BENCH / program, *arguments],
        env=env,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    ).stdout
    values: Values = json.loads(out)
    return values


def median(runs: list[Values]) -> Values:
    return {name: statistics.median(r[name] for r in runs) for name in runs[0]}


def row(
    name: str,
    unit: str,
    value: float,
    target: float | None,
    met: Callable[[float, float], bool],
    **more: object,
) -> dict[str, object]:
    out: dict[str, object] = {"name": name, "value": round(value, 3), "unit": unit} | more
    if target is not None:
        out |= {"target": target, "met": met(value, target)}
    return out


def at_most(value: float, target: float) -> bool:
    return value <= target


def at_least(value: float, target: float) -> bool:
    return value >= target


def transport_rows(x: str, v: Values, direct: Values, floor: Values) -> list[dict[str, object]]:
    """Return the rows of transport `x`. "added" figures exclude the floor of the same run."""
    simple = [
        ("enqueue_p50_ns", "ns", 200.0),
        ("enqueue_p99_ns", "ns", 1000.0),
        ("launches_per_s_1t", "1/s", None),
        ("launches_per_s_2t", "1/s", None),
        ("event_record_query_ns", "ns", 500.0),
        ("h2d_64b_ns", "ns", 300.0),
        ("alloc_2mib_us", "us", 2.0),
        ("init_to_first_kernel_ms", "ms", 5.0),
        ("start_round_trips", "", 5.0),
        ("training_step_waits", "", 1.0),
        ("training_step_us", "us", None),
    ]
    rows = [
        row(f"{x}_{name}", unit, v[name], target, at_most, direct=direct[name])
        for name, unit, target in simple
    ]
    four = 0.9 * v["launches_per_s_1t"]
    rows.append(
        row(
            f"{x}_launches_per_s_4t",
            "1/s",
            v["launches_per_s_4t"],
            round(four),
            at_least,
            direct=direct["launches_per_s_4t"],
            needs="one core for each end",
        )
    )
    return rows + floor_rows(x, v, floor)


def floor_rows(x: str, v: Values, floor: Values) -> list[dict[str, object]]:
    """Return the rows of transport `x` that are compared with the raw transport."""
    ping, stream = floor[FLOORS[x][0]], floor[FLOORS[x][1]]
    added = 3.0 if x == "shm" else 15.0
    rows = []
    for name in ("sync", "d2h_4b"):
        whole = v[f"{name}_us"]
        rows.append(
            row(f"{x}_{name}_added_us", "us", whole - ping, added, at_most, whole=whole, floor=ping)
        )
    for kind in ("h2d_64mib", "d2h_64mib", "h2d_64mib_pageable", "d2h_64mib_pageable"):
        target = None if "pageable" in kind else 0.95
        rows.append(
            row(
                f"{x}_{kind}_link_ratio",
                "",
                v[f"{kind}_gib_s"] / stream,
                target,
                at_least,
                gib_s=v[f"{kind}_gib_s"],
                floor_gib_s=stream,
            )
        )
    return rows


def run() -> dict[str, Any]:
    node = LocalNode(NULL_DRIVER)
    direct_env = os.environ | {"LD_LIBRARY_PATH": str(NULL_DRIVER.parent)}
    direct: list[Values] = []
    floors: list[Values] = []
    decode: list[Values] = []
    remoted: dict[str, list[Values]] = {x: [] for x in TRANSPORTS}
    try:
        for _ in range(REPETITIONS):
            direct.append(measure("driver_calls", direct_env))
            floors.append(measure("floors", dict(os.environ)))
            decode.append(measure("server_decode", dict(os.environ), str(NULL_DRIVER)))
            for x, variables in TRANSPORTS.items():
                env = node.remote_environment(**variables)
                remoted[x].append(measure("driver_calls", env))
    finally:
        node.stop()
    floor = median(floors)
    rows = [
        r for x in TRANSPORTS for r in transport_rows(x, median(remoted[x]), median(direct), floor)
    ]
    rows.append(row("server_decode_ns", "ns", median(decode)["server_decode_ns"], 150.0, at_most))
    rows += [
        row(name, "us" if name.endswith("us") else "GiB/s", value, None, at_most)
        for name, value in floor.items()
    ]
    return {
        "machine": {
            "processor": platform.processor() or platform.machine(),
            "cores": os.cpu_count(),
            "driver": "null driver",
        },
        "results": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="./bench remoting")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    report = run()
    if arguments.json:
        print(json.dumps(report))
        return
    for r in report["results"]:
        verdict = {True: "met", False: "MISSED"}.get(r.get("met"), "")
        target = f"target {r['target']}" if "target" in r else ""
        print(f"{r['name']:36} {r['value']:>14} {r['unit']:6} {target:22} {verdict}")


if __name__ == "__main__":
    main()
