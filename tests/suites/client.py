"""The client on machines with nothing of ours: `./test --long client [PYTEST-ARGUMENT...]`.

All tests of the packages, among them those that need machines: root file systems of five releases,
a client at the other end of a network of 1 Gbit/s and 1 ms, 50 that install at once, faults of
their machines, and the removal; and the examples of the guide under systemd, Slurm, JupyterHub,
code-server, debugpy and Podman. The machines are made at first use, which takes minutes and needs
the mirrors of Debian and Ubuntu, and code-server the registry of npm. Needs root.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from deploy.supervisor import ROOT

TOOLS = {
    "debootstrap": "debootstrap",
    "ip": "iproute2",
    "tc": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "curl": "curl",
    "wget": "wget",
    "openssl": "openssl",
    "findmnt": "util-linux",
    "objdump": "binutils",
    "dpkg-shlibdeps": "dpkg-dev",
    "podman": "podman",
    "gcc": "gcc",
    "make": "make",
}
"""Packages of Debian by the commands that the tests use."""
TUN = "/dev/net/tun"
SELECTION = ["-n", "0", "-rs", "-o", "faulthandler_timeout=3600", "tests/packages"]


def missing() -> str:
    """Return what this machine lacks, as a sentence, or empty."""
    if os.geteuid() != 0:
        return "It mounts file systems and makes networks: run it as root."
    if packages := sorted({TOOLS[name] for name in TOOLS if shutil.which(name) is None}):
        return f"Install what it needs: apt-get install {' '.join(packages)}"
    if not os.path.exists(TUN):
        return f"The kernel has no {TUN}, which carries the network: run modprobe tun."
    return ""


def main() -> None:
    if text := missing():
        raise SystemExit(f"client: {text}")
    env = os.environ | {"BUSBAR_TEST_LONG": "1"}
    command = [sys.executable, "-m", "pytest", *SELECTION, *sys.argv[1:]]
    sys.exit(subprocess.run(command, cwd=ROOT, env=env, check=False).returncode)


if __name__ == "__main__":
    main()
