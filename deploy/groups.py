"""Versions and hashes of the dependency groups that set-up exported from uv.lock."""

from __future__ import annotations

import re
from pathlib import Path

from pip._vendor.packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent


def file_of(group: str) -> Path:
    """Return the file of a group other than the appliance's; set-up writes it."""
    return ROOT / "build" / "groups" / f"{group}.txt"


def requirements(group: str) -> list[str]:
    """Return the requirements of a group, each with its hashes."""
    return re.findall(r"^\S.*(?:\n\s.*)*", file_of(group).read_text(), re.M)


def requirements_for(python: str, group: str) -> str:
    """Return the requirements of a group that apply to a Python version, without markers.

    pip would evaluate markers for the Python that runs it.
    """
    environment = {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "sys_platform": "linux",
    }
    kept = []
    for block in requirements(group):
        line, *hashes = block.replace("\\\n", " ").split("--hash=")
        requirement = Requirement(line.strip())
        if requirement.marker is None or requirement.marker.evaluate(environment):
            kept.append(
                f"{requirement.name}{requirement.specifier} "
                + " ".join(f"--hash={h.strip()}" for h in hashes)
            )
    return "\n".join(kept) + "\n"
