"""Servers of webhooks and tokens that stop the actions of alarms, or do more with them."""

from __future__ import annotations

import ipaddress
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings

from appliance.accounts.models import User
from appliance.alarms import delivery, webhook
from appliance.alarms.action_errors import ActionError
from appliance.alarms.models import ActionKind, Alarm, AlarmAction, AlarmDefinition
from appliance.runtime import live_settings
from appliance.runtime.setting_sections import AlarmSettings
from tests.appliance.conftest import Cast, body
from tests.appliance.test_alarm_actions import AddNode, last_step, raise_one
from tests.appliance.test_alarm_api import Clients, change, create
from tests.appliance.test_token_scopes import program
from tests.ports import port

pytestmark = pytest.mark.django_db(databases=list(settings.DATABASES))
LOOPBACK = "127.0.0.0/8"
NETWORKS = [ipaddress.ip_network(LOOPBACK)]
URL = f"http://127.0.0.1:{port(97)}/"
TOTAL_SECONDS = 1.0
DEADLINE_SECONDS = 60.0
RESPONSE_SECONDS = 120.0
"""Of a server that would respond for ever."""
Respond = Callable[[socket.socket], None]


@contextmanager
def server(respond: Respond) -> Iterator[threading.Event]:
    """Accept one connection, read the request and respond. Yields whether the response ended."""
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", port(97))) as listener:

        def serve() -> None:
            with suppress(OSError):
                stream, _ = listener.accept()
                with stream:
                    stream.recv(1 << 16)
                    stream.settimeout(3)  # ends what the other end no longer reads
                    respond(stream)
                    ended.set()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield ended
    thread.join(RESPONSE_SECONDS)
    assert not thread.is_alive()


def continue_for_ever(stream: socket.socket) -> None:
    end = time.monotonic() + RESPONSE_SECONDS
    while time.monotonic() < end:
        stream.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)


def send_a_byte_now_and_then(stream: socket.socket) -> None:
    stream.sendall(b"HTTP/1.1 200 OK\r\nX: ")
    end = time.monotonic() + RESPONSE_SECONDS
    while time.monotonic() < end:
        stream.sendall(b"x")
        time.sleep(0.05)


@pytest.mark.parametrize("respond", [continue_for_ever, send_a_byte_now_and_then])
def test_server_cannot_hold_a_request_beyond_its_time(
    monkeypatch: pytest.MonkeyPatch, respond: Respond
) -> None:
    monkeypatch.setattr(webhook, "TOTAL_SECONDS", TOTAL_SECONDS)
    with server(respond) as ended, pytest.raises(ActionError):
        webhook.send(URL, "", {}, NETWORKS)
    assert not ended.is_set(), "the request lasted as long as the response"


def test_name_with_many_addresses_has_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    tried, clock = list[tuple[str, int]](), SimpleNamespace(now=0.0)

    def connect(address: tuple[str, int], timeout: float) -> socket.socket:
        tried.append(address)
        clock.now += min(timeout, 0.2)
        raise TimeoutError("timed out")

    many = [(0, 0, 0, "", (f"127.0.1.{i}", 1)) for i in range(200)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: many)
    monkeypatch.setattr(socket, "create_connection", connect)
    monkeypatch.setattr(webhook, "TOTAL_SECONDS", TOTAL_SECONDS)
    monkeypatch.setattr(webhook, "time", SimpleNamespace(monotonic=lambda: clock.now))
    with pytest.raises(ActionError):
        webhook.send("http://hook.example/", "", {}, NETWORKS)
    assert 1 < len(tried) < 20


def test_response_puts_no_control_characters_into_history_or_log(
    cast: Cast, add_node: AddNode, caplog: pytest.LogCaptureFixture
) -> None:
    """PostgreSQL stores no text with NUL, so that the action would be tried for ever."""
    live_settings.replace({AlarmSettings: AlarmSettings(webhook_networks=(LOOPBACK,))})
    alarm = raise_one(add_node, webhook_url=URL)
    for attempts in (0, delivery.MAX_ATTEMPTS - 1):
        AlarmAction.objects.update(attempts=attempts, next_attempt_at=alarm.created_at)
        with server(lambda stream: stream.sendall(b"\x00\x1b[2Jwrong\x85\r\n\r\n")):
            assert delivery.deliver() == 1
    assert "wrong" in last_step(alarm) and last_step(alarm).isprintable()
    (line,) = (record.getMessage() for record in caplog.records if "attempt 1" in record.message)
    assert "wrong" in line and line.isprintable()


@pytest.mark.parametrize("path", ["/\u00e4", "/a b", "/?\u200b"])
def test_url_with_other_characters_is_refused(cast: Cast, client_of: Clients, path: str) -> None:
    made = create(client_of(cast.olga), webhook_url=f"https://hook.example{path}")
    assert (made.status_code, body(made)["code"]) == (400, "invalid")


def test_actions_of_one_definition_do_not_keep_those_of_others_waiting(
    cast: Cast, add_node: AddNode
) -> None:
    alarm = raise_one(add_node, webhook_url=URL)
    own = AlarmAction.objects.get()
    fields: dict[str, Any] = {"definition": own.definition, "alarm": alarm, "content": {}}
    AlarmAction.objects.bulk_create(
        AlarmAction(kind=ActionKind.WEBHOOK, next_attempt_at=alarm.created_at, **fields)
        for _ in range(10 * delivery.BATCH)
    )
    other = AlarmDefinition.objects.create(
        name="b", severity="critical", object_kind="node", condition="state", states=["locked"]
    )
    last = AlarmAction.objects.create(
        definition=other, alarm=alarm, kind=ActionKind.SCRIPT, content={}
    )
    rows = delivery.due_actions()
    assert last in rows and len(rows) == delivery.OF_DEFINITION + 1


def test_maintenance_does_not_wait_for_the_servers_of_webhooks(
    cast: Cast, add_node: AddNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    maintained, webhooks_that_saw_it = threading.Event(), list[bool]()
    raise_one(add_node, webhook_url=URL, enters_maintenance=True, changed_by=cast.olga)

    def perform(row: AlarmAction) -> None:
        if row.kind == ActionKind.MAINTENANCE:
            maintained.set()
        else:
            webhooks_that_saw_it.append(maintained.wait(DEADLINE_SECONDS))

    monkeypatch.setattr(delivery, "perform", perform)
    delivery.deliver()
    assert webhooks_that_saw_it == [True]


def test_token_without_the_scope_cannot_let_its_user_enter_maintenance(
    cast: Cast, client_of: Clients
) -> None:
    """The action has the privileges of the user, without the limits of the token."""
    users: tuple[User, ...] = (cast.olga, cast.admin)
    for user in users:
        limited = program(client_of, user, "alarms.manage")
        refused = create(limited, enters_maintenance=True)
        assert (refused.status_code, body(refused)["code"]) == (403, "denied")
        row = body(create(limited))
        assert change(limited, row, enters_maintenance=True).status_code == 403
        assert change(client_of(user), row, enters_maintenance=True).status_code == 200
        assert change(limited, row, severity="info").status_code == 403  # it would be the author
        assert change(limited, row, enters_maintenance=False).status_code == 200
        AlarmDefinition.objects.all().delete()
    assert not Alarm.objects.exists()
