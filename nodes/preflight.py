"""Preflight: checks whether a machine can become a node. Uses the standard library only."""

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
"""Certificates are valid from five minutes before their creation."""


@dataclass(frozen=True)
class CheckResult:
    """One row of the table: the finding of a check and how to fix it."""

    check: str
    state: str
    found: str
    fix: str = ""


@dataclass(frozen=True)
class Requirements:
    """Addresses and options that the machine must support."""

    https: tuple[str, int]
    """Host and port of the appliance's HTTPS server."""
    fleet: tuple[str, int]
    """Host and port of its fleet service."""
    data_port: int
    software_gpus: int
    appliance_seconds: float
    """Unix time of the appliance's clock."""


def operating_system(requirements: Requirements) -> CheckResult:
    found = f"{platform.system()} {platform.machine()}, {' '.join(platform.libc_ver())}"
    supported = (
        platform.system() == "Linux"
        and platform.machine() == "x86_64"
        and platform.libc_ver()[0] == "glibc"
    )
    fix = "" if supported else "Use Linux on x86-64 with glibc (Debian, Ubuntu, RHEL or similar)."
    return CheckResult("operating system", PASS if supported else FAIL, found, fix)


def python(requirements: Requirements) -> CheckResult:
    supported = OLDEST_PYTHON <= sys.version_info[:2] <= NEWEST_PYTHON
    fix = "" if supported else "Install a Python from 3.10 to 3.13, beside the default one."
    return CheckResult("python", PASS if supported else FAIL, platform.python_version(), fix)


def rights(requirements: Requirements) -> CheckResult:
    root = os.geteuid() == 0
    return CheckResult(
        "rights",
        PASS if root else FAIL,
        "root" if root else f"uid {os.geteuid()}",
        "" if root else "Sign in as root or as a user with sudo rights.",
    )


def driver(requirements: Requirements) -> CheckResult:
    if requirements.software_gpus:
        return compiler(requirements)
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)  # it must not hide GPUs of the node
    try:
        count = ctypes.c_int()
        library = ctypes.CDLL("libcuda.so.1")
        status = library.cuInit(0) or library.cuDeviceGetCount(ctypes.byref(count))
    except OSError:
        return CheckResult(
            "driver", FAIL, "no libcuda.so.1", "Install NVIDIA's driver, or use software GPUs."
        )
    if status == 0 and count.value > 0:
        return CheckResult("driver", PASS, f"{count.value} GPUs")
    found = f"cuInit returned {status}, {count.value} GPUs"
    return CheckResult("driver", FAIL, found, "Run nvidia-smi on the machine to find the cause.")


def compiler(requirements: Requirements) -> CheckResult:
    """Check for the C compiler that software GPUs need."""
    path = shutil.which("gcc") or shutil.which("cc")
    found = f"{requirements.software_gpus} software GPUs; compiler: {path or 'none'}"
    fix = "" if path else "Install the compiler of kernels: apt-get install gcc libc6-dev"
    return CheckResult("driver", PASS if path else FAIL, found, fix)


def connection_error(host: str, port: int) -> str:
    """Return why a TCP connection fails; empty if it succeeds. Blocks for at most 10 s."""
    try:
        socket.create_connection((host, port), timeout=CONNECT_SECONDS).close()
    except OSError as error:
        return str(error)
    return ""


def appliance_ports(requirements: Requirements) -> CheckResult:
    for host, port in (requirements.https, requirements.fleet):
        if reason := connection_error(host, port):
            return CheckResult(
                "appliance",
                FAIL,
                f"{host}:{port}: {reason}",
                f"Allow connections from this machine to {host} on TCP {port}.",
            )
    return CheckResult(
        "appliance",
        PASS,
        f"{requirements.https[0]}, ports {requirements.https[1]} and {requirements.fleet[1]}",
    )


def data_port(requirements: Requirements) -> CheckResult:
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("", requirements.data_port))
        except OSError as error:
            return CheckResult(
                "data port",
                WARN,
                f"{requirements.data_port}: {error.strerror}",
                "The next free port is used instead; allow clients to connect to it.",
            )
    return CheckResult("data port", PASS, f"{requirements.data_port} is free")


def clock(requirements: Requirements) -> CheckResult:
    offset = abs(time.time() - requirements.appliance_seconds)
    state = PASS if offset < CLOCK_WARN_SECONDS else WARN if offset < CLOCK_FAIL_SECONDS else FAIL
    return CheckResult(
        "clock",
        state,
        f"{offset:.0f} s from the appliance's clock",
        "" if state == PASS else "Synchronise this machine's clock: timedatectl set-ntp true",
    )


def disk(requirements: Requirements) -> CheckResult:
    for folder in ("/opt", "/var/lib", "/tmp"):
        existing = folder if os.path.isdir(folder) else "/"
        free = shutil.disk_usage(existing).free
        if free < NEEDED_BYTES:
            return CheckResult(
                "disk",
                FAIL,
                f"{free >> 20} MiB free under {folder}",
                f"Free at least {NEEDED_BYTES >> 20} MiB there.",
            )
    return CheckResult(
        "disk", PASS, f"more than {NEEDED_BYTES >> 20} MiB free under /opt, /var/lib and /tmp"
    )


def service_manager(requirements: Requirements) -> CheckResult:
    if os.path.isdir("/run/systemd/system"):
        version = subprocess.run(
            ["systemctl", "--version"], capture_output=True, text=True, check=False
        ).stdout.split("\n")[0]
        return CheckResult("service manager", PASS, version or "systemd")
    return CheckResult(
        "service manager",
        WARN,
        "no systemd",
        "The node does not start after a reboot. Run `/opt/busbar/busbar-node start` from your init"
        " system.",
    )


CHECKS: tuple[Callable[[Requirements], CheckResult], ...] = (
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


def run_checks(requirements: Requirements) -> Iterator[CheckResult]:
    """Yield the result of every check, also after a failed one. Blocks for some seconds."""
    for check in CHECKS:
        yield check(requirements)
