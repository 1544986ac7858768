"""The node bundle: agent, Python wheels and data plane in one tar.

The appliance serves it, so that a machine downloads nothing from elsewhere.
"""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from django.conf import settings

from appliance.api.errors import ApplianceError, Code


def bundle_folder() -> Path:
    """Return the folder of the bundle. Raises ApplianceError with NOT_FOUND if it is missing."""
    found: Path = settings.ENVIRONMENT.bundle
    if not (found / "programs" / "digest").exists():
        raise ApplianceError(
            Code.NOT_FOUND,
            f"No node bundle in {found}. Build it with ./run, or set BUSBAR_BUNDLE to its folder.",
        )
    return found


def digest() -> str:
    """Return a digest over all files of the bundle."""
    return (bundle_folder() / "programs" / "digest").read_text()


def python_versions() -> list[str]:
    """Return the Python versions for which the bundle has wheels, such as 3.11, in order."""
    return sorted(
        (p.name for p in (bundle_folder() / "wheels").iterdir()),
        key=lambda v: tuple(map(int, v.split("."))),
    )


def owned_by_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Give a file to root, with the mode that it has in the package of a node.

    Its mode in the checkout depends on the umask.
    """
    member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member


def build_tar(python: str | None) -> bytes:
    """Return a tar with programs, agent and the wheels for a Python version such as 3.11.

    Without a version it contains only the agent's sources, which suffice for the preflight.
    Raises ApplianceError with NOT_FOUND for an unsupported version.
    """
    out = io.BytesIO()
    programs = bundle_folder() / "programs"
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.add(programs / "nodes", "nodes", filter=owned_by_root)
        if python is None:
            return out.getvalue()
        if python not in python_versions():
            raise ApplianceError(
                Code.NOT_FOUND,
                f"No bundle for Python {python}. Supported versions: "
                f"{', '.join(python_versions())}.",
            )
        for name in ("bin", "softgpu", "digest"):
            archive.add(programs / name, name, filter=owned_by_root)
        for wheel in sorted((bundle_folder() / "wheels" / python).glob("*.whl")):
            archive.add(wheel, f"wheels/{python}/{wheel.name}", filter=owned_by_root)
    return out.getvalue()
