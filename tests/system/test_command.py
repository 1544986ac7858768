"""The busbar command: login, run, lists, quotas and preemption notices."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from remoting.cli import api as rest
from remoting.cli import login_command as command
from tests.system import command as command_line
from tests.system.command import Done
from tests.system.conftest import DEMO, Pool

pytestmark = pytest.mark.system


def busbar(context: Path, *arguments: str) -> Done:
    return command_line.busbar({"BUSBAR_CONTEXT": str(context)}, *arguments)


def test_first_login_replaces_initial_password_and_permits_run(
    pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    password = (pool.stack.appliance_data / "initial-admin-password").read_text().strip()
    new = "fjord-lamp-9031-quilt"
    passwords = iter([password, "fjord-lamp-9013-quilt", new, new, new])
    context = tmp_path / "context.json"
    monkeypatch.setenv("BUSBAR_CONTEXT", str(context))
    monkeypatch.setattr("getpass.getpass", lambda _: next(passwords))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    command.login(f"{pool.stack.url}/login?next=/", "admin", pool.stack.ca_fingerprint())
    assert context.stat().st_mode & 0o777 == 0o600
    done = busbar(context, "run", "-p", "25", "--", DEMO, "add")
    assert done.returncode == 0 and "are correct" in done.stdout, done.stderr
    assert not (pool.stack.appliance_data / "initial-admin-password").exists()
    assert password not in "".join(p.read_text(errors="replace") for p in pool.stack.logs.iterdir())


def test_login_with_wrong_fingerprint_fails_before_password_prompt(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("getpass.getpass", lambda _: pytest.fail("prompted for the password"))
    with pytest.raises(rest.ApiError, match="fingerprint mismatch"):
        command.login(pool.stack.url, "admin", "00" * 32)


@pytest.mark.parametrize(
    "arguments",
    [("node", "list"), ("gpu", "list"), ("pool", "list"), ("allocation", "list"), ("ps",)],
    ids=" ".join,
)
def test_list_prints_table_and_json(pool: Pool, arguments: tuple[str, ...]) -> None:
    assert busbar(pool.context, *arguments).returncode == 0
    assert isinstance(json.loads(busbar(pool.context, *arguments, "-o", "json").stdout), list)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("run", "-p", "200", "--", "true"), 2),
        (("run", "--", "/no/such/program"), 127),
        (("allocation", "release", "00000000-0000-7000-8000-000000000000"), 3),
        (("run", "-n", "16", "--", "true"), 4),
        (("run", "-n", "16", "--allow-pending", "--timeout", "1s", "--", "true"), 6),
        (("run", "-p", "5", "--", "sh", "-c", "exit 42"), 42),
    ],
)
def test_failure_has_documented_exit_code(
    pool: Pool, arguments: tuple[str, ...], code: int
) -> None:
    done = busbar(pool.context, *arguments)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr


def test_two_gpus_appear_as_two_devices(pool: Pool) -> None:
    count = (
        "import ctypes; l = ctypes.CDLL('libcuda.so.1'); n = ctypes.c_int(); "
        "assert l.cuInit(0) == 0; l.cuDeviceGetCount(ctypes.byref(n)); print(n.value)"
    )
    done = busbar(pool.context, "run", "-n", "2", "-p", "50", "--", sys.executable, "-c", count)
    assert done.stdout.strip() == "2", done.stderr


def test_pools_and_quotas_are_created_and_changed(pool: Pool) -> None:
    for arguments in (
        ("pool", "create", "spare", "--policy", "model_affinity", "--policy", "spread"),
        ("pool", "set", "default", "--fallback", "spare", "--max-lifetime", "0"),
        ("quota", "set", "project/default", "--quota", "2.3", "--limit", "64"),
        ("quota", "set", "project/default", "--weight", "2"),
        (
            "reservation",
            "create",
            "course",
            "--from",
            "2099-01-01T08:00:00Z",
            "--to",
            "2099-01-01T10:00:00Z",
        ),
        ("pool", "defragment", "default"),
        ("project", "list"),
    ):
        done = busbar(pool.context, *arguments)
        assert done.returncode == 0, (arguments, done.stderr)
    quota = next(
        q
        for q in json.loads(busbar(pool.context, "quota", "list", "-o", "json").stdout)
        if q["subject"] == "default"
    )
    assert (quota["quota_gpus"], quota["limit_gpus"], quota["weight"]) == (2.3, 64.0, 2.0)
    default = next(
        p
        for p in json.loads(busbar(pool.context, "pool", "list", "-o", "json").stdout)
        if p["name"] == "default"
    )
    assert default["fallbacks"] == ["spare"]
    done = busbar(pool.context, "run", "-m", "256MiB", "--lifetime", "10m", "--", DEMO, "add")
    assert done.returncode == 0 and "are correct" in done.stdout, done.stderr
    assert busbar(pool.context, "run", "-m", "8 gulps", "--", "true").returncode == 2
    allocations = json.loads(busbar(pool.context, "allocation", "list", "-o", "json").stdout)
    assert "is not queued" in busbar(pool.context, "explain", allocations[0]["id"]).stdout
    assert busbar(pool.context, "pool", "set", "default", "--fallback", "default").returncode == 0
    assert busbar(pool.context, "quota", "delete", "project/default", "--yes").returncode == 0


def test_run_prints_notice_before_preemption(pool: Pool) -> None:
    whole = ["-n", "2", "--priority"]
    low = pool.start(100, "sh", "-c", "echo started; exec sleep 600", options=[*whole, "10"])
    assert low.stdout is not None and low.stdout.readline() == "started\n"
    pool.start(100, "true", options=[*whole, "60"])
    assert low.stderr is not None
    notice = next((line for line in low.stderr if "notice: this allocation ends at" in line), "")
    assert "preempted by" in notice
