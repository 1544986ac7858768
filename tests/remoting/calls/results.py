"""Output of the program of the generated calls, and what may differ between direct and remoted."""

from __future__ import annotations

import re
from collections.abc import Collection
from fnmatch import fnmatchcase
from pathlib import Path

REFUSED_FORMS = Path(__file__).parent / "refused_forms.txt"
DIFFERENCES = Path(__file__).parent / "differences.txt"
TROUBLE = re.compile(r"CRASH|HANG|FAILS|is not exported|unknown ")
LINE = re.compile(r"(\w+): valid (\d+)([^,]*)(?:, (.*))?")
NOT_SUPPORTED = "801"


def trouble(output: str) -> list[str]:
    """Return the lines that name a crash, a call that does not return, or a lost session."""
    return [line for line in output.splitlines() if TROUBLE.search(line)]


def results(output: str, library: str = "cu") -> dict[str, dict[str, str]]:
    """Return the result of each call by function and by bad argument; `valid` has none.

    `library` is the beginning of the names of its functions.
    """
    found = {}
    for line in output.splitlines():
        if line.startswith(library) and (match := LINE.match(line)):
            name, code, values, faults = match.groups()
            found[name] = {"valid": code, "values": values.strip()}
            for fault in filter(None, (faults or "").split(", ")):
                argument, _, result = fault.rpartition(" ")
                found[name][argument] = result
    return found


def listed() -> dict[tuple[str, str], str]:
    """Return the reasons of the listed differences, by patterns of function and bad argument."""
    found = {}
    for line in DIFFERENCES.read_text().splitlines():
        text = line.partition("#")[0].strip()
        if text:
            function, fault, reason = text.split(maxsplit=2)
            found[function, fault] = reason
    return found


def refused_rows() -> list[tuple[str, ...]]:
    """Return function, parameter, value and code of the listed refusals.

    The value is no pattern: that would hide other values, which should be accepted.
    """
    lines = REFUSED_FORMS.read_text().splitlines()
    return [tuple(line.split(maxsplit=4)[:4]) for line in lines if not line.startswith("#")]


def refused_forms(output: str, names: Collection[str]) -> list[str]:
    """Return the refused forms without a reason, and the reasons without such a form.

    `names` are all values that the headers declare. A call that is refused as a whole has no forms,
    so its arguments must not be the cause.
    """
    rows, used = refused_rows(), set[tuple[str, ...]]()
    missing = []
    for function, calls in (results(output) | results(output, "nvml")).items():
        for fault, code in calls.items():
            parameter, _, value = fault.partition("=")
            if value not in names or (code == "0") == (calls["valid"] == "0"):
                continue
            if code == "0":
                missing.append(f"{function}: its valid call is refused, but {fault} is not")
                continue
            form = (function, parameter, value, code)
            fitting = [row for row in rows if row[2] == value and all(map(fnmatchcase, form, row))]
            used |= set(fitting[:1])
            missing += [] if fitting else [" ".join(form)]
    return missing + [f"no such form any more: {' '.join(row)}" for row in rows if row not in used]


def base(function: str) -> str:
    return re.sub(r"_pt[sd][sz]$", "", function)


def differences(direct: str, remoted: str) -> dict[tuple[str, str], str]:
    """Return the calls whose code or printed values differ, of functions of the software GPU."""
    one, other = results(direct), results(remoted)
    found = {}
    for function in sorted(set(one) | set(other)):
        first, second = one.get(function, {}), other.get(function, {})
        if first.get("valid") == NOT_SUPPORTED:
            continue
        for fault in {**first, **second}:
            pair = (first.get(fault), second.get(fault))
            if (pair[0] or "") != (pair[1] or ""):
                found[base(function), fault] = f"{pair[0]} directly, {pair[1]} remoted"
    return found


def unlisted(direct: str, remoted: str) -> list[str]:
    """Return the differences without a reason, and the reasons without a difference."""
    found, reasons = differences(direct, remoted), listed()
    rows = {key: [row for row in reasons if all(map(fnmatchcase, key, row))] for key in found}
    used = {row for fitting in rows.values() for row in fitting}
    missing = [f"{' '.join(key)}: {pair}" for key, pair in found.items() if not rows[key]]
    lasting = {key for key, reason in reasons.items() if not reason.startswith("may: ")}
    return missing + [f"no difference any more: {' '.join(key)}" for key in lasting - used]
