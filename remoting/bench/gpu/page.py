"""Generator of docs/benchmarks/gpu/README.md: native and remoted figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from deploy.supervisor import ROOT
from remoting.bench.gpu.rows import PARTS, SHARES, SUITES

FOLDER = ROOT / "docs" / "benchmarks" / "gpu"
PAGE = FOLDER / "README.md"
NOT_MEASURED = "🔴 *not measured*"
HEAD = """# Benchmarks on a GPU

`./bench gpu` runs the same programs natively on NVIDIA's driver and remoted through Busbar,
alternately on one machine. `shm` is shared memory, `tls` is TCP over loopback with TLS 1.3.
Figures are medians; the ratio to the native figure is in parentheses. Digests cover all losses and
outputs: `equal` means equal to the last bit in all runs. Rows without a result on a GPU are
🔴 *not measured*. This page is generated from the JSON files in its folder; a test fails if it is
stale.
"""
SECTIONS = (
    "Driver API programs",
    "Figures",
    "PyTorch: bit-identical results",
    "Driver properties",
    "Shares of one GPU",
    "Third-party test suites",
)


def expected() -> dict[str, list[str]]:
    """Return the names of all rows by section."""
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
    """Return a row of the page; None for a row without a result."""
    if row is None:
        return f"| {name} | {NOT_MEASURED} | | | |"
    if "error" in row:
        error = row["error"].splitlines()[0][:120].replace("|", "/")
        return f"| {name} | 🔴 failed: {error} | | | |"
    if "same" in row:
        verdict = "equal" if row["same"] else "🔴 **differs**"
        return f"| {name} | {verdict} | | | {row['runs']} runs |"
    granted = f"granted {row['granted']} " if "granted" in row else ""
    lost = f", lost: {', '.join(row['lost'])}" if row.get("lost") else ""
    cells = " | ".join(cell(row, mode) for mode in ("native", "shm", "tls"))
    return f"| {name} | {cells} | {granted}{row['unit']}{lost} |"


def render(reports: list[dict[str, Any]]) -> str:
    """Return the page for the newest report. Without reports, no row has a result."""
    report = max(reports, key=lambda r: str(r["taken"]), default=None)
    text = HEAD + "\n"
    if report:
        text += (
            f"Newest run: {report['taken']}, "
            + ", ".join(f"{k} {v}" for k, v in report["machine"].items())
            + ".\n\n"
        )
    else:
        text += "There are no results of a GPU yet.\n\n"
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
