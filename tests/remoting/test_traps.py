"""Cases that a naive remoting implementation gets wrong.

test_conformance.py covers sticky errors, capture across threads and the order of threads.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.supervisor import wait_for
from tests.remoting.node import LocalNode, direct_environment

TRAPS = (
    "late_read",
    "polled_download",
    "download_before_event",
    "parked_stream",
    "per_thread_default_stream",
    "large_parameters",
    "forked_child",
    "exit_order",
    "exit_during_calls",
    "unmapped_target",
    "hole_in_order",
)
ONLY_REMOTED = {"exit_during_calls", "forked_child", "unmapped_target"}
"""Not valid directly: the software GPU is in the program's process, which a forked child inherits,
whose exit ends it, and where a copy to an unmapped address faults."""
MODES = {
    "shared memory": {},
    "TLS": {"BUSBAR_TRANSPORT": "tls"},
    "without arenas": {"BUSBAR_ARENA": "0"},
}


CASES = [
    (trap, mode)
    for trap in TRAPS
    for mode in ("directly", *MODES)
    if mode != "directly" or trap not in ONLY_REMOTED
]


@pytest.mark.parametrize(("trap", "mode"), CASES)
def test_program_prints_expected_result(
    node: LocalNode, compiled: Callable[[str], Path], tmp_path: Path, trap: str, mode: str
) -> None:
    env = (
        direct_environment(tmp_path)
        if mode == "directly"
        else node.remote_environment(**MODES[mode])
    )
    done = subprocess.run(
        [compiled("traps"), trap], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == f"{trap}: passed\n" and done.returncode == 0, (
        done.returncode,
        done.stdout,
        done.stderr[-1000:],
    )


@pytest.mark.parametrize("mode", ["directly", *MODES])
def test_kernel_output_is_in_order(
    node: LocalNode, compiled: Callable[[str], Path], tmp_path: Path, mode: str
) -> None:
    env = (
        direct_environment(tmp_path)
        if mode == "directly"
        else node.remote_environment(**MODES[mode])
    )
    done = subprocess.run(
        [compiled("traps"), "kernel_prints"],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "thread 0 7\nthread 1 7\nwaited\nthread 0 8\nkernel_prints: passed\n", (
        done.stdout,
        done.stderr[-1000:],
    )


KEEPALIVE = "02"
"""Code of the keepalive timer in /proc/net/tcp."""


def idle_connections(port: int) -> list[tuple[str, float]]:
    """Return timer code and seconds to expiry of both ends of the connections to a port."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    connected = [r for r in rows if f"{port:04X}" in (r[1][-4:], r[2][-4:]) and r[3] == "01"]
    return [
        (r[5].split(":")[0], int(r[5].split(":")[1], 16) / os.sysconf("SC_CLK_TCK"))
        for r in connected
    ]


@pytest.mark.parametrize("mode", ["shared memory", "TLS"])
def test_idle_session_sends_keepalives(
    node: LocalNode, compiled: Callable[[str], Path], mode: str
) -> None:
    program = subprocess.Popen(
        [compiled("refused"), "1000"],
        env=node.remote_environment(**MODES[mode]),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert program.stdout is not None and len([program.stdout.readline() for _ in range(3)]) == 3
    try:
        wait_for(
            "both ends idle",
            lambda: {t for t, _ in idle_connections(node.port)} == {KEEPALIVE},
            node.folder / "launcher.log",
        )
        assert len(idle_connections(node.port)) >= 2 and all(
            0 < seconds <= 60 for _, seconds in idle_connections(node.port)
        )
    finally:
        program.kill()
        program.wait()


OPENSSL_NAMES = ("SSL_CTX_new", "SSL_new", "OPENSSL_init_ssl", "RAND_bytes", "SHA256")
FOREIGN_SSL = "#include <stddef.h>\n" + "".join(
    f"void *{name}(void) {{ return NULL; }}\n" for name in OPENSSL_NAMES
)


def test_foreign_tls_library_of_program_is_not_used(
    node: LocalNode, compiled: Callable[[str], Path], tmp_path: Path
) -> None:
    """Programs that contain BoringSSL export OpenSSL's names."""
    (tmp_path / "foreign.c").write_text(FOREIGN_SSL)
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-o", tmp_path / "foreign.so", tmp_path / "foreign.c"],
        check=True,
    )
    env = node.remote_environment(LD_PRELOAD=str(tmp_path / "foreign.so"))
    done = subprocess.run(
        [compiled("traps"), "late_read"],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "late_read: passed\n" and done.returncode == 0, (
        done.returncode,
        done.stdout,
        done.stderr[-1000:],
    )
