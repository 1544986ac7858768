"""Open connections and held allocations end with the credentials that opened them.

Sockets of the HTTP server process must end at once, although the controller, or `manage.py` beside
it, makes the change.
"""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
import websockets.sync.client
from websockets.exceptions import ConnectionClosed

from remoting.cli.api import Api, ApiError, Context
from tests.system.conftest import Pool

pytestmark = pytest.mark.system
PASSWORD, NEW_PASSWORD = "correct horse battery", "another horse battery"
AT_ONCE_SECONDS = 2.0
"""Shorter than the interval of periodic checks, with room for a busy machine."""
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
    code = (
        "from appliance.accounts.models import *; "
        f"u = User.objects.create_user({name!r}, password={PASSWORD!r}); "
        "p = Project.objects.get(name='default'); "
        "RoleBinding.objects.create(user=u, project=p, role='user')"
    )
    pool.stack.manage("shell", "-v", "0", "-c", code)
    made = Account(pool, name, "")
    anonymous = Api(Context(pool.stack.url, "", made.ca_pem))
    login = anonymous.request("POST", "login", {"username": name, "password": PASSWORD})
    made.token = login["token"]
    return made


def feed_close_code(account: Account, opened: threading.Event) -> int:
    """Open the feed and return the code with which the appliance closes it."""
    url = account.pool.stack.url.replace("https", "wss") + "/api/v1/feed"
    with websockets.sync.client.connect(url, ssl=account.tls, compression=None) as socket:
        socket.send(json.dumps({"type": "hello", "token": account.token}))
        assert json.loads(socket.recv(10))["type"] == "hello"
        opened.set()
        try:
            while True:
                socket.recv(20)
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
    """Return the results of the connections, all of which end soon after the change."""
    with ThreadPoolExecutor() as threads:
        opened = [threading.Event() for _ in connections]
        running = [
            threads.submit(connection, account, event)
            for connection, event in zip(connections, opened, strict=True)
        ]
        for event in opened:
            assert event.wait(10)
        change()
        started = time.monotonic()
        results = [future.result(20) for future in running]
        assert time.monotonic() - started < AT_ONCE_SECONDS
        return results


@pytest.mark.parametrize("change", ["change_password", "reset_password", "deactivate"])
def test_sockets_and_token_end_with_the_password_or_the_account(
    account: Account, change: str
) -> None:
    assert account.api.request("GET", "me")["username"] == account.name
    results = open_then(account, getattr(account, change), feed_close_code, last_watch_event)
    assert results == [UNAUTHENTICATED, "hello"]
    account.pool.wait("the end of the token", account.is_refused, seconds=AT_ONCE_SECONDS)


def test_sockets_end_when_roles_change_and_clients_are_told_to_reload(account: Account) -> None:
    results = open_then(account, account.remove_roles, feed_close_code, last_watch_event)
    assert results == [ROLES_CHANGED, "resync"]
    account.pool.wait(
        "the end of the privileges",
        lambda: account.api.request("GET", "me")["privileges"] == [],
        seconds=AT_ONCE_SECONDS,
    )
    with pytest.raises(ApiError, match="Missing privilege"):
        account.api.request("GET", "allocations")


def test_delayed_response_is_refused_after_the_token_has_ended(account: Account) -> None:
    many = {"gpu_count": 16, "allow_pending": True}
    queued = account.api.request("POST", "allocations", many)
    path = f"allocations/{queued['id']}"
    with ThreadPoolExecutor() as threads:
        delayed = threads.submit(account.api.request, "GET", path, None, wait="30")
        account.change_password()
        account.pool.api.request("DELETE", path)
        with pytest.raises(ApiError, match="Sign in"):
            delayed.result(20)


@pytest.mark.parametrize("change", ["deactivate", "remove_roles"])
def test_allocation_is_released_with_the_account_or_the_role(account: Account, change: str) -> None:
    held = account.api.request("POST", "allocations", {"percent": 5}, wait="30")
    assert held["state"] == "active"
    getattr(account, change)()
    path = f"allocations/{held['id']}"

    def is_released() -> bool:
        return str(account.pool.api.request("GET", path)["state"]) == "released"

    account.pool.wait("the release", is_released, seconds=5)
    assert account.name in account.pool.api.request("GET", path)["end_reason"]


def test_password_change_keeps_the_allocation(account: Account) -> None:
    held = account.api.request("POST", "allocations", {"percent": 5}, wait="30")
    account.change_password()
    assert account.pool.api.request("GET", f"allocations/{held['id']}")["state"] == "active"
