"""Open connections and held allocations end with the credentials that opened them.

Sockets of the HTTP server process must end, although the controller, or `manage.py` beside it,
makes the change. tests/appliance/test_authorization_checks.py shows that they do not wait for the
next periodic check.
"""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from remoting.cli.api import Api, ApiError, Context
from tests.remoting.node import EVENT_SECONDS
from tests.system.conftest import Pool
from tests.websocket import WebSocket

pytestmark = pytest.mark.system
PASSWORD, NEW_PASSWORD = "correct horse battery", "another horse battery"
QUIET_SECONDS = 5.0
"""Without samples for this time, which come every second, none follow."""
UNAUTHENTICATED, ROLES_CHANGED = 4401, 4403


@dataclass
class Account:
    pool: Pool
    name: str
    token: str

    @property
    def ca_pem(self) -> str:
        return (self.pool.stack.appliance_data / "ca.pem").read_text()

    @property
    def tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self.ca_pem)

    @property
    def api(self) -> Api:
        return Api(Context(self.pool.stack.url, self.token, self.ca_pem))

    def is_refused(self) -> bool:
        try:
            self.api.request("GET", "me")
        except ApiError as error:
            return "Sign in" in str(error)
        return False

    def change_password(self) -> None:
        body = {"username": self.name, "password": PASSWORD, "new_password": NEW_PASSWORD}
        Api(Context(self.pool.stack.url, "", self.ca_pem)).request("POST", "login", body)

    def shell(self, code: str) -> None:
        """Run code in a process of its own, with the account's row as `u`."""
        imports = "from appliance.accounts.models import *; "
        find = f"u = User.objects.get(username={self.name!r}); "
        self.pool.stack.manage("shell", "-v", "0", "-c", imports + find + code)

    def reset_password(self) -> None:
        self.shell("from appliance.accounts.services import *; set_one_time_password(user=u)")

    def deactivate(self) -> None:
        self.shell("u.is_active = False; u.save()")

    def remove_roles(self) -> None:
        self.shell("u.role_bindings.all().delete()")


@pytest.fixture
def account(pool: Pool) -> Account:
    """A user of the default project."""
    name = f"leaver-{time.time_ns()}"
    created = pool.api.request("POST", "users", {"username": name})
    binding = {"user": name, "role": "user", "project": "default"}
    pool.api.request("POST", "role-bindings", binding)
    made = Account(pool, name, "")
    anonymous = Api(Context(pool.stack.url, "", made.ca_pem))
    passwords = {"password": created["one_time_password"], "new_password": PASSWORD}
    made.token = anonymous.request("POST", "login", {"username": name} | passwords)["token"]
    return made


def feed_close_code(account: Account, opened: threading.Event) -> int:
    """Open the feed and return the code with which the appliance closes it."""
    url = account.pool.stack.url.replace("https", "wss") + "/api/v1/feed"
    with WebSocket(url, account.tls) as socket:
        socket.send(json.dumps({"type": "hello", "token": account.token}))
        assert json.loads(socket.recv(EVENT_SECONDS))["type"] == "hello"
        opened.set()
        try:
            while True:
                socket.recv(EVENT_SECONDS)
        except ConnectionClosed as closed:
            assert closed.rcvd is not None
            return int(closed.rcvd.code)


def last_watch_event(account: Account, opened: threading.Event) -> str:
    """Watch and return the kind of the last event before the appliance ends the stream."""
    last = ""
    for _, kind, _ in account.api.stream("watch", kinds="node"):
        opened.set()
        last = kind
    return last


def open_then(account: Account, change: Callable[[], None], *connections: Any) -> list[Any]:
    """Return the results of the connections, all of which end after the change.

    After a failure the account ends: the executor would wait for its connections for ever.
    """
    with ThreadPoolExecutor() as threads:
        opened = [threading.Event() for _ in connections]
        running = [
            threads.submit(connection, account, event)
            for connection, event in zip(connections, opened, strict=True)
        ]
        try:
            for event, future in zip(opened, running, strict=True):
                assert event.wait(EVENT_SECONDS), (
                    future.exception(0) if future.done() else "not open yet"
                )
            change()
            results = [future.result(EVENT_SECONDS) for future in running]
        except BaseException:
            account.deactivate()
            raise
        return results


@pytest.mark.parametrize("change", ["change_password", "reset_password", "deactivate"])
def test_sockets_and_token_end_with_the_password_or_the_account(
    account: Account, change: str
) -> None:
    assert account.api.request("GET", "me")["username"] == account.name
    change_now = getattr(account, change)
    code, last_event = open_then(account, change_now, feed_close_code, last_watch_event)
    # A node of the pool may have reported a change meanwhile.
    assert code == UNAUTHENTICATED and last_event != "resync"
    account.pool.wait("the end of the token", account.is_refused)


def test_sockets_end_when_roles_change_and_clients_are_told_to_reload(account: Account) -> None:
    results = open_then(account, account.remove_roles, feed_close_code, last_watch_event)
    assert results == [ROLES_CHANGED, "resync"]
    account.pool.wait(
        "the end of the privileges",
        lambda: account.api.request("GET", "me")["privileges"] == [],
    )
    with pytest.raises(ApiError, match="Missing privilege"):
        account.api.request("GET", "allocations")


def test_delayed_response_is_refused_after_the_token_has_ended(account: Account) -> None:
    many = {"gpu_count": 16, "allow_pending": True}
    queued = account.api.request("POST", "allocations", many)
    path = f"allocations/{queued['id']}"
    with ThreadPoolExecutor() as threads:
        delayed = threads.submit(account.api.request, "GET", path, None, wait="60")
        account.change_password()
        account.pool.api.request("DELETE", path)
        with pytest.raises(ApiError, match="Sign in"):
            delayed.result(EVENT_SECONDS)


def allocate_until_refused(account: Account, begun: threading.Event) -> tuple[float, str]:
    """Return when the last successful request began, and the refusal that followed it."""
    many, last = {"gpu_count": 16, "allow_pending": True}, 0.0
    end = time.monotonic() + EVENT_SECONDS
    while time.monotonic() < end:
        now = time.monotonic()
        try:
            account.api.request("POST", "allocations", many)
        except ApiError as error:
            return last, error.code
        last = now
        begun.set()
    return last, "still valid"


def test_no_request_succeeds_that_begins_after_the_token_is_revoked(account: Account) -> None:
    token_id = account.api.items("tokens")[0]["id"]
    with ThreadPoolExecutor() as threads:
        begun = [threading.Event() for _ in range(4)]
        running = [threads.submit(allocate_until_refused, account, event) for event in begun]
        assert all(event.wait(EVENT_SECONDS) for event in begun)
        account.pool.api.request("DELETE", f"tokens/{token_id}")
        revoked = time.monotonic()
        found = [future.result(EVENT_SECONDS) for future in running]
    account.deactivate()
    assert {code for _, code in found} == {"unauthenticated"}
    assert all(last < revoked for last, _ in found)


@pytest.mark.parametrize("change", ["deactivate", "remove_roles"])
def test_allocation_is_released_with_the_account_or_the_role(account: Account, change: str) -> None:
    held = account.api.request("POST", "allocations", {"percent": 5}, wait="60")
    assert held["state"] == "active"
    getattr(account, change)()
    path = f"allocations/{held['id']}"

    def is_released() -> bool:
        return str(account.pool.api.request("GET", path)["state"]) == "released"

    account.pool.wait("the release", is_released)
    assert account.name in account.pool.api.request("GET", path)["end_reason"]


def test_password_change_keeps_the_allocation(account: Account) -> None:
    held = account.api.request("POST", "allocations", {"percent": 5}, wait="60")
    account.change_password()
    assert account.pool.api.request("GET", f"allocations/{held['id']}")["state"] == "active"


def watch_gpu(account: Account, gpu_id: str) -> WebSocket:
    """Open the feed, watch a GPU and return the socket after the first samples."""
    url = account.pool.stack.url.replace("https", "wss") + "/api/v1/feed"
    socket = WebSocket(url, account.tls)
    socket.send(json.dumps({"type": "hello", "token": account.token}))
    socket.send(json.dumps({"type": "watch", "gpus": [gpu_id]}))
    while json.loads(socket.recv(EVENT_SECONDS))["type"] != "samples":
        pass
    return socket


def test_samples_end_with_the_role_at_a_node(account: Account) -> None:
    """The role shows no changes of objects, so only its samples need the socket to end."""
    admin = account.pool.api
    account.remove_roles()
    gpu = admin.items("gpus")[0]
    place = {"user": account.name, "role": "viewer", "node": gpu["node"]}
    binding = admin.request("POST", "role-bindings", place)
    with watch_gpu(account, gpu["id"]) as socket:
        admin.request("DELETE", f"role-bindings/{binding['id']}")
        with pytest.raises(ConnectionClosed) as closed:
            for _ in range(100):
                socket.recv(EVENT_SECONDS)
    assert closed.value.rcvd is not None and closed.value.rcvd.code == ROLES_CHANGED


def await_end_of_samples(socket: WebSocket) -> None:
    """Read until no samples have arrived for QUIET_SECONDS."""
    last = begun = time.monotonic()
    while (left := last + QUIET_SECONDS - time.monotonic()) > 0:
        with contextlib.suppress(TimeoutError):
            if json.loads(socket.recv(left))["type"] == "samples":
                last = time.monotonic()
        assert last < begun + EVENT_SECONDS, "the samples do not end"


def test_samples_end_when_the_gpu_moves_to_a_hidden_pool(account: Account) -> None:
    admin = account.pool.api
    gpu = admin.items("gpus")[0]
    project = admin.request("POST", "projects", {"name": f"owner-{account.name}"})
    hidden = {"name": f"hidden-{account.name}", "projects": [project["name"]]}
    pool = admin.request("POST", "pools", hidden)
    try:
        with watch_gpu(account, gpu["id"]) as socket:
            admin.request("PATCH", f"gpus/{gpu['id']}", {"pool": pool["name"]})
            await_end_of_samples(socket)
    finally:
        admin.request("PATCH", f"gpus/{gpu['id']}", {"pool": gpu["pool"]})
        admin.request("DELETE", f"pools/{pool['id']}")
        admin.request("DELETE", f"projects/{project['id']}")
