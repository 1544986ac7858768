"""Builder of Debian packages. The same files give the same bytes."""

from __future__ import annotations

import os
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MAINTAINER = "Busbar developers <busbar@example.invalid>"
EPOCH = 1767225600
"""Time of all files: 2026-01-01."""


@dataclass
class DebianPackage:
    """A package for Debian and Ubuntu on x86-64."""

    name: str
    version: str
    depends: str
    description: str
    scripts: dict[str, str]
    """Scripts of the package, such as postinst, by name."""
    compression: str = "-Zxz"
    files: dict[str, bytes] = field(default_factory=dict)
    """Files by their path without the first slash."""
    executables: set[str] = field(default_factory=set)

    @property
    def control(self) -> str:
        return (
            f"Package: {self.name}\nVersion: {self.version}\nArchitecture: amd64\n"
            f"Maintainer: {MAINTAINER}\nDepends: {self.depends}\nSection: science\n"
            f"Priority: optional\nInstalled-Size: {self.installed_kib}\n"
            f"Description: {self.description}"
        )

    @property
    def installed_kib(self) -> int:
        """Size of the files in KiB, each rounded up to one, as dpkg-gencontrol counts them.

        https://www.debian.org/doc/debian-policy/ch-controlfields.html#installed-size
        """
        return sum(-(-len(content) // 1024) for content in self.files.values())

    def add(self, name: str, content: bytes, *, executable: bool = False) -> None:
        self.files[name] = content
        if executable:
            self.executables.add(name)

    def build(self, folder: Path) -> Path:
        """Write the package into a folder and return its path.

        Raises CalledProcessError if dpkg-deb fails.
        """
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / f"{self.name}_{self.version}_amd64.deb"
        self.add(f"usr/share/doc/{self.name}/copyright", (ROOT / "LICENSE").read_bytes())
        with tempfile.TemporaryDirectory() as temporary:
            root = Path(temporary) / "root"
            for name, content in self.files.items():
                write(root / name, content, executable=name in self.executables)
            write(root / "DEBIAN/control", self.control.encode())
            for name, text in self.scripts.items():
                write(root / "DEBIAN" / name, text.encode(), executable=True)
            command = ["dpkg-deb", "--root-owner-group", self.compression, "--build"]
            subprocess.run(
                [*command, str(root), str(target)],
                env=os.environ | {"SOURCE_DATE_EPOCH": str(EPOCH)},
                stdout=subprocess.DEVNULL,
                check=True,
            )
        return target


def write(path: Path, content: bytes, *, executable: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(0o755 if executable else 0o644)
    for changed in (path, *path.parents[: len(path.parents) - 3]):
        if changed.is_dir():
            changed.chmod(0o755)
        os.utime(changed, (EPOCH, EPOCH))
