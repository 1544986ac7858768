"""Whether a machine can become a node: a table of checks, each with what was found and how to mend it. Only the standard library."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

PASS, WARN, FAIL = "pass", "warn", "fail"
OLDEST_PYTHON, NEWEST_PYTHON = (3, 10), (3, 13)
NEEDED_BYTES = 200 << 20
CONNECT_SECONDS = 10.0
CLOCK_WARN_SECONDS, CLOCK_FAIL_SECONDS = 30.0, 240.0
"""Certificates begin five minutes before they are made."""


@dataclass(frozen=True)
class Row:
    check: str
    state: str
    found: str
    fix: str = ""


@dataclass(frozen=True)
class Wanted:
    """What the appliance asks of the machine."""

    https: tuple[str, int]
    fleet: tuple[str, int]
    data_port: int
    software_gpus: int
    appliance_seconds: float


def operating_system(wanted: Wanted) -> Row:
    found = f"{platform.system()} {platform.machine()}, {' '.join(platform.libc_ver())}"
    right = (
        platform.system() == "Linux"
        and platform.machine() == "x86_64"
        and platform.libc_ver()[0] == "glibc"
    )
    return Row(
        "operating system",
        PASS if right else FAIL,
        found,
        ""
        if right
        else "Nodes run Linux on x86-64 with glibc (Debian, Ubuntu, RHEL and their kin).",
    )


def python(wanted: Wanted) -> Row:
    version = sys.version_info[:2]
    right = OLDEST_PYTHON <= version <= NEWEST_PYTHON
    return Row(
        "python",
        PASS if right else FAIL,
        platform.python_version(),
        "" if right else "Install a Python from 3.10 to 3.13; it need not be the default one.",
    )


def rights(wanted: Wanted) -> Row:
    root = os.geteuid() == 0
    return Row(
        "rights",
        PASS if root else FAIL,
        "root" if root else f"uid {os.geteuid()}",
        "" if root else "Sign in as root or as a user who may use sudo.",
    )


def driver(wanted: Wanted) -> Row:
    if wanted.software_gpus:
        compiler = shutil.which("gcc") or shutil.which("cc")
        found = f"{wanted.software_gpus} software GPUs; compiler: {compiler or 'none'}"
        return Row(
            "driver",
            PASS if compiler else FAIL,
            found,
            "" if compiler else "Software GPUs compile kernels here: apt-get install gcc libc6-dev",
        )
    try:
        count = ctypes.c_int()
        library = ctypes.CDLL("libcuda.so.1")
        answer = library.cuInit(0) or library.cuDeviceGetCount(ctypes.byref(count))
    except OSError:
        return Row(
            "driver", FAIL, "no libcuda.so.1", "Install NVIDIA's driver, or ask for software GPUs."
        )
    right = answer == 0 and count.value > 0
    fix = "" if right else "nvidia-smi on the machine says what is wrong with the driver."
    return Row(
        "driver",
        PASS if right else FAIL,
        f"{count.value} GPUs" if right else f"cuInit answered {answer}",
        fix,
    )


def reach(host: str, port: int) -> str:
    """Empty, or why not."""
    try:
        socket.create_connection((host, port), timeout=CONNECT_SECONDS).close()
    except OSError as error:
        return str(error)
    return ""


def appliance_ports(wanted: Wanted) -> Row:
    for host, port in (wanted.https, wanted.fleet):
        if why := reach(host, port):
            return Row(
                "appliance",
                FAIL,
                f"{host}:{port}: {why}",
                f"Nodes dial out to the appliance: let this machine reach {host} on TCP {port}.",
            )
    return Row(
        "appliance", PASS, f"{wanted.https[0]}, ports {wanted.https[1]} and {wanted.fleet[1]}"
    )


def data_port(wanted: Wanted) -> Row:
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("", wanted.data_port))
        except OSError as error:
            return Row(
                "data port",
                WARN,
                f"{wanted.data_port}: {error.strerror}",
                "The next free port is taken instead; clients must be able to reach it.",
            )
    return Row("data port", PASS, f"{wanted.data_port} is free")


def clock(wanted: Wanted) -> Row:
    off = abs(time.time() - wanted.appliance_seconds)
    state = PASS if off < CLOCK_WARN_SECONDS else WARN if off < CLOCK_FAIL_SECONDS else FAIL
    return Row(
        "clock",
        state,
        f"{off:.0f} s from the appliance's",
        "" if state == PASS else "Set this machine's clock: timedatectl set-ntp true",
    )


def disk(wanted: Wanted) -> Row:
    for folder in ("/opt", "/var/lib", "/tmp"):
        existing = folder if os.path.isdir(folder) else "/"
        free = shutil.disk_usage(existing).free
        if free < NEEDED_BYTES:
            return Row(
                "disk",
                FAIL,
                f"{free >> 20} MiB free under {folder}",
                f"A node needs {NEEDED_BYTES >> 20} MiB there.",
            )
    return Row(
        "disk", PASS, f"more than {NEEDED_BYTES >> 20} MiB free under /opt, /var/lib and /tmp"
    )


def service_manager(wanted: Wanted) -> Row:
    if os.path.isdir("/run/systemd/system"):
        version = subprocess.run(
            ["systemctl", "--version"], capture_output=True, text=True, check=False
        ).stdout.split("\n")[0]
        return Row("service manager", PASS, version or "systemd")
    return Row(
        "service manager",
        WARN,
        "no systemd",
        "The node runs now, but not after a reboot: start /opt/busbar/busbar-node start from your own init.",
    )


CHECKS: tuple[Callable[[Wanted], Row], ...] = (
    operating_system,
    python,
    rights,
    driver,
    appliance_ports,
    data_port,
    clock,
    disk,
    service_manager,
)


def table(wanted: Wanted) -> Iterator[Row]:
    """Every row, also after one that fails: whoever mends wants all of them at once. Blocks some seconds at most."""
    for check in CHECKS:
        yield check(wanted)
