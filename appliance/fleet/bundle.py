"""What a machine needs to become a node, as one tar for its Python. It comes from here: the machine fetches nothing elsewhere."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from django.conf import settings

from appliance.errors import ApplianceError, Code


def folder() -> Path:
    found: Path = settings.ENVIRONMENT.bundle
    if not (found / "programs" / "digest").exists():
        raise ApplianceError(
            Code.NOT_FOUND,
            "This appliance holds no bundle for nodes; `./run` builds one, or set BUSBAR_BUNDLE.",
        )
    return found


def digest() -> str:
    """Changes with every file of it."""
    return (folder() / "programs" / "digest").read_text()


def pythons() -> list[str]:
    return sorted(
        (p.name for p in (folder() / "wheels").iterdir()),
        key=lambda v: tuple(map(int, v.split("."))),
    )


def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member


def tar(python: str | None) -> bytes:
    """Programs, agent and the wheels for this Python such as `3.11`; without one, only the agent's sources, which suffice for the preflight."""
    out = io.BytesIO()
    programs = folder() / "programs"
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.add(programs / "nodes", "nodes", filter=plain)
        if python is None:
            return out.getvalue()
        if python not in pythons():
            raise ApplianceError(
                Code.NOT_FOUND,
                f"There is no bundle for Python {python}; there are {', '.join(pythons())}.",
            )
        for name in ("bin", "softgpu", "digest"):
            archive.add(programs / name, name, filter=plain)
        for wheel in sorted((folder() / "wheels" / python).glob("*.whl")):
            archive.add(wheel, f"wheels/{wheel.name}", filter=plain)
    return out.getvalue()
