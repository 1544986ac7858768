"""Background work of the appliance: it is started again after an error, which is shown."""

from __future__ import annotations

import ast
import asyncio
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from django.conf import settings

from appliance.accounts.models import User
from appliance.alarms.builtin import ensure_builtin_definitions
from appliance.alarms.evaluator import Evaluator
from appliance.alarms.models import Alarm
from appliance.controller import notification_job, process
from appliance.db.writer import Writer
from appliance.runtime import background
from deploy.supervisor import ROOT
from tests.appliance.conftest import Cast, body

Clients = Callable[[User | None], Any]
TIMEOUT_SECONDS = 120.0
STARTS_WORK = re.compile(r"threading\.Thread\(|create_task\(\s*work\b")


@pytest.fixture(autouse=True)
def forgotten_failures(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(background, "RESTART_SECONDS", 0.0)
    yield
    background.set_failed_elsewhere(())


def test_task_that_fails_is_started_again_and_named() -> None:
    async def wait_for_cancelled() -> None:
        inner: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        inner.cancel()
        await inner

    async def main() -> int:
        starts, running = 0, asyncio.Event()

        async def work() -> None:
            nonlocal starts
            starts += 1
            if starts == 1:
                raise ValueError("on purpose")
            if starts == 2:
                await wait_for_cancelled()
            running.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(background.keep_running(work))
        await asyncio.wait_for(running.wait(), TIMEOUT_SECONDS)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return starts

    assert asyncio.run(main()) == 3
    assert [name.partition(".")[0] for name in background.failed()] == ["test_background_work"]


def test_thread_that_fails_is_started_again_and_named() -> None:
    starts: list[int] = []

    def work() -> None:
        starts.append(1)
        if len(starts) == 1:
            raise ValueError("on purpose")

    thread = background.thread_of("some-thread", work)
    thread.start()
    thread.join(TIMEOUT_SECONDS)
    assert len(starts) == 2 and background.failed() == ["some-thread"]


def test_all_lasting_work_is_watched() -> None:
    """Threads and lists of tasks that start otherwise would end unnoticed."""
    found = {
        str(path.relative_to(ROOT)): line.strip()
        for path in (ROOT / "appliance").rglob("*.py")
        for line in path.read_text().splitlines()
        if STARTS_WORK.search(line)
    }
    assert found.keys() == {
        "appliance/runtime/background.py",
        "appliance/runtime/backup_folder.py",  # one call of the file system
        "appliance/controller/http_server.py",  # the sender of a process: it ends the connection
        "appliance/fleet/gateway.py",  # ends the gateway, which is started again
    }, found


@pytest.mark.django_db(transaction=True)
def test_writer_goes_on_after_a_caller_that_no_longer_waits() -> None:
    writer, blocked, go_on = Writer(), threading.Event(), threading.Event()
    writer.submit(lambda: (blocked.set(), go_on.wait(TIMEOUT_SECONDS)))
    assert blocked.wait(TIMEOUT_SECONDS)
    given_up: Future[str] = writer.submit(lambda: "given up")
    assert given_up.cancel()
    go_on.set()
    try:
        assert writer.submit(lambda: "next").result(TIMEOUT_SECONDS) == "next"
    finally:
        writer.stop()
    assert background.failed() == []


def test_step_of_the_scheduler_that_fails_in_each_tick_is_named() -> None:
    def step() -> None:
        raise ValueError("on purpose")

    failures: dict[str, str] = {}
    asyncio.run(process.run_step(step, failures))
    assert background.failed() == []
    asyncio.run(process.run_step(step, failures))
    assert background.failed() == [background.name_of(step)]


def test_job_that_catches_its_own_errors_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail() -> None:
        raise ValueError("on purpose")

    monkeypatch.setattr(notification_job, "collect_all", fail)
    monkeypatch.setattr(notification_job, "send_codes", fail)
    monkeypatch.setattr(notification_job, "send_mails", fail)
    asyncio.run(notification_job.run_steps())
    assert background.failed() == [background.name_of(fail)]


JOBS = ("alarm_job", "audit_job", "backup_job", "notification_job", "process", "retention")


@pytest.mark.parametrize("job", JOBS)
def test_each_error_that_a_job_catches_is_remembered(job: str) -> None:
    tree = ast.parse((ROOT / "appliance" / "controller" / f"{job}.py").read_text())
    handlers = [
        ast.unparse(handler)
        for work in ast.walk(tree)
        if isinstance(work, ast.AsyncFunctionDef)
        for handler in ast.walk(work)
        if isinstance(handler, ast.ExceptHandler)
    ]
    caught = [text for text in handlers if text.startswith("except Exception")]
    assert caught and all("remember_failure" in text for text in caught), caught


@pytest.mark.django_db(databases=list(settings.DATABASES))
def test_failed_work_is_shown_and_raises_an_alarm(cast: Cast, client_of: Clients) -> None:
    background.note_failure("process.run_scheduler", ValueError("on purpose"))
    background.set_failed_elsewhere(["http-samples"])
    names = ["http-samples", "process.run_scheduler"]
    admin = client_of(cast.admin)
    assert body(admin.get("/api/v1/appliance"))["failed_work"] == names
    assert body(client_of(None).get("/readyz"))["failed_work"] is True
    ensure_builtin_definitions()
    Evaluator().evaluate()
    alarm = Alarm.objects.get(definition__name="Background work fails")
    assert ", ".join(names) in alarm.message
