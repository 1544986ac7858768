"""docs/benchmarks/gpu/README.md: native beside remoted, and in red what no GPU has shown yet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from deploy.supervisor import ROOT
from remoting.bench.gpu.rows import PARTS, SHARES, SUITES

FOLDER = ROOT / "docs" / "benchmarks" / "gpu"
PAGE = FOLDER / "README.md"
UNPROVEN = "🔴 *unproven*"
HEAD = """# On a GPU: native and remoted

Taken by `./bench gpu`, which runs the same programs on NVIDIA's driver and through Busbar on the same machine, in turn.
`shm` is shared memory, `tls` TCP over the loopback with TLS 1.3; figures are medians, in brackets what they are of the native one.
Digests cover every loss and every output: `the same` means equal to the last bit in all runs. A row without a result on a GPU is
🔴 *unproven*. This page is generated from the JSON files beside it; `./test` fails when it is stale.
"""
SECTIONS = (
    "Programs of the driver API",
    "Figures",
    "PyTorch: results equal to the last bit",
    "Answers",
    "Shares of one GPU",
    "Suites that nobody here wrote",
)


def expected() -> dict[str, list[str]]:
    """Section to the names of its rows."""
    rows: dict[str, list[str]] = {name: [] for name in SECTIONS}
    for part in PARTS:
        if part.whole:
            rows[SECTIONS[0]] += part.digests
            continue
        rows[SECTIONS[3] if part.native_only else SECTIONS[1]] += part.figures
        rows[SECTIONS[2]] += part.digests
    rows[SECTIONS[4]] += SHARES
    rows[SECTIONS[5]] += SUITES
    return rows


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def cell(row: dict[str, Any], mode: str) -> str:
    if mode not in row:
        return ""
    native = row.get("native")
    ratio = f" ({row[mode] / native:.2f} ×)" if native and mode != "native" else ""
    return f"{number(row[mode])}{ratio}"


def line(name: str, row: dict[str, Any] | None) -> str:
    if row is None:
        return f"| {name} | {UNPROVEN} | | | |"
    if "error" in row:
        return (
            f"| {name} | 🔴 failed: {row['error'].splitlines()[0][:120].replace('|', '/')} | | | |"
        )
    if "same" in row:
        return f"| {name} | {'the same' if row['same'] else '🔴 **differs**'} | | | {row['runs']} runs |"
    granted = f"granted {row['wanted']} " if "wanted" in row else ""
    lost = f", lost: {', '.join(row['lost'])}" if row.get("lost") else ""
    return f"| {name} | {cell(row, 'native')} | {cell(row, 'shm')} | {cell(row, 'tls')} | {granted}{row['unit']}{lost} |"


def render(reports: list[dict[str, Any]]) -> str:
    """The newest report on a GPU; none: every row is unproven."""
    report = max(reports, key=lambda r: str(r["taken"]), default=None)
    text = HEAD + "\n"
    if report:
        text += (
            f"Newest: {report['taken']}, "
            + ", ".join(f"{k} {v}" for k, v in report["machine"].items())
            + ".\n\n"
        )
    else:
        text += "No run on a GPU yet.\n\n"
    found = {r["name"]: r for r in report["results"]} if report else {}
    for section, names in expected().items():
        text += (
            f"## {section}\n\n| row | native | shm | tls | |\n|---|---|---|---|---|\n"
            + "".join(line(n, found.get(n)) + "\n" for n in names)
            + "\n"
        )
    return text.rstrip() + "\n"


def reports(folder: Path = FOLDER) -> list[dict[str, Any]]:
    return [json.loads(f.read_text()) for f in sorted(folder.glob("*.json"))]


def write() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(render(reports()))


if __name__ == "__main__":
    write()
