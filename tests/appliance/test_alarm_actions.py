"""Actions of alarms: mail, webhook, script and maintenance, with what each refuses."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from django.conf import settings

from appliance.accounts.models import RoleBinding, User
from appliance.activity.models import Event
from appliance.alarms import delivery, scripts, webhook
from appliance.alarms.action_errors import ActionError, ActionRefusedError
from appliance.alarms.evaluator import Evaluator
from appliance.alarms.models import Alarm, AlarmAction, AlarmDefinition
from appliance.inventory.models import Node, NodeState
from appliance.notifications import delivery as mails
from appliance.notifications.models import Notification, NotificationChoice
from appliance.runtime import live_settings
from appliance.runtime.sealing import Purpose, seal
from appliance.runtime.setting_sections import AlarmSettings, MailSettings
from tests.appliance.conftest import Cast
from tests.appliance.smtp_server import smtp_server
from tests.ports import port

AddNode = Callable[..., Node]
pytestmark = pytest.mark.django_db(databases=list(settings.DATABASES))
LOOPBACK = ("127.0.0.0/8",)
SECRET = "correct horse"


class Server(BaseHTTPRequestHandler):
    """Keeps requests, and responds with the statuses that are left, then with 200."""

    requests: ClassVar[list[tuple[Any, bytes]]] = []
    statuses: ClassVar[list[int]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.requests.append((self.headers, body))
        self.send_response(self.statuses.pop(0) if self.statuses else 200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def webhook_server() -> Iterator[str]:
    Server.requests.clear()
    Server.statuses.clear()
    server = HTTPServer(("127.0.0.1", port(94)), Server)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{port(94)}/hook?x=1"
    server.shutdown()
    thread.join()
    server.server_close()


def use(**alarms: Any) -> None:
    live_settings.replace({AlarmSettings: AlarmSettings(**alarms)})


def raise_one(add_node: AddNode, **actions: Any) -> Alarm:
    """Raise an alarm of a cordoned node n1 with these actions."""
    node = add_node(name="n1")
    AlarmDefinition.objects.create(
        name="a",
        severity="critical",
        object_kind="node",
        condition="state",
        states=["cordoned"],
        clear_after_seconds=0,
        **actions,
    )
    Node.objects.filter(pk=node.pk).update(state=NodeState.CORDONED)
    Evaluator().evaluate()
    return Alarm.objects.get()


def steps(alarm: Alarm) -> list[str]:
    return list(alarm.history.order_by("pk").values_list("kind", flat=True))


def last_step(alarm: Alarm) -> str:
    return str(alarm.history.order_by("pk").values_list("message", flat=True).last())


def test_webhook_is_signed_and_told_of_raise_and_clear(cast: Cast, add_node: AddNode) -> None:
    use(webhook_networks=LOOPBACK)
    with webhook_server() as url:
        pk = uuid.uuid4()
        secret = seal(SECRET.encode(), Purpose.WEBHOOK, pk.bytes)
        alarm = raise_one(add_node, pk=pk, webhook_url=url, webhook_secret=secret)
        assert delivery.deliver() == 1
        Node.objects.update(state=NodeState.READY)
        Evaluator().evaluate()
        assert delivery.deliver() == 1
    (headers, first), (_, second) = Server.requests
    at, _, signature = headers[webhook.SIGNATURE].removeprefix("t=").partition(",v1=")
    expected = hmac.new(SECRET.encode(), at.encode() + b"." + first, hashlib.sha256)
    assert signature == expected.hexdigest() and abs(time.time() - int(at)) < 60
    told = json.loads(first)
    assert told["event"] == "raised" and told["alarm"]["object_name"] == "n1"
    assert headers["Busbar-Delivery"] == told["id"]
    assert json.loads(second)["event"] == "cleared"
    assert steps(alarm) == ["raised", "action", "cleared", "action"]
    assert last_step(alarm) == "Done: webhook to 127.0.0.1."


def test_webhook_that_fails_is_tried_again_later(cast: Cast, add_node: AddNode) -> None:
    use(webhook_networks=LOOPBACK)
    with webhook_server() as url:
        Server.statuses += [503]
        alarm = raise_one(add_node, webhook_url=url)
        assert delivery.deliver() == 1
        assert delivery.deliver() == 0  # not due yet
        action = AlarmAction.objects.get()
        assert action.attempts == 1
        AlarmAction.objects.update(next_attempt_at=alarm.created_at)
        assert delivery.deliver() == 1
    assert len(Server.requests) == 2 and not AlarmAction.objects.exists()
    assert {json.loads(body)["id"] for _, body in Server.requests} == {
        str(alarm.history.get(kind="raised").pk)
    }
    assert webhook.SIGNATURE not in Server.requests[0][0]


def test_webhook_is_given_up_after_the_last_attempt(cast: Cast, add_node: AddNode) -> None:
    use(webhook_networks=LOOPBACK)
    alarm = raise_one(add_node, webhook_url=f"http://127.0.0.1:{port(94)}/")
    AlarmAction.objects.update(attempts=delivery.MAX_ATTEMPTS - 1)
    delivery.deliver()
    assert not AlarmAction.objects.exists()
    assert "Given up: webhook to 127.0.0.1: 127.0.0.1: " in last_step(alarm)
    assert Event.objects.filter(kind="alarm.action_failed").count() == 1


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "[::1]", "169.254.169.254", "[::ffff:127.0.0.1]", "0.0.0.0"]
)
def test_webhook_to_a_local_address_is_refused(cast: Cast, add_node: AddNode, host: str) -> None:
    use()
    with webhook_server():
        alarm = raise_one(add_node, webhook_url=f"http://{host}:{port(94)}/")
        delivery.deliver()
    assert Server.requests == [] and not AlarmAction.objects.exists()
    assert "alarms.webhook_networks can allow its network" in last_step(alarm)


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("10.1.2.3", True),
        ("192.0.2.9", True),
        ("127.8.8.8", False),
        ("169.254.1.1", False),
        ("fe80::1", False),
        ("fd00:ec2::254", False),
        ("100.100.100.200", False),
        ("168.63.129.16", False),
        ("64:ff9b::7f00:1", False),
        ("64:ff9b::a00:1", True),
        ("2002:7f00:1::", False),
        ("224.0.0.1", False),
        ("::", False),
    ],
)
def test_addresses_of_webhooks(address: str, allowed: bool) -> None:
    assert webhook.may_connect(ipaddress.ip_address(address), ()) == allowed
    assert webhook.may_connect(
        ipaddress.ip_address("127.0.0.1"), [ipaddress.ip_network("127.0.0.0/8")]
    )


def test_webhook_connects_to_the_address_that_was_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The name has another address when it is resolved a second time."""
    answers = ["127.0.0.1", "127.0.0.9"]
    resolve = socket.getaddrinfo

    def resolved(host: Any, *args: Any, **kwargs: Any) -> Any:
        return resolve(answers.pop(0) if host == "hook.example" else host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    with webhook_server():
        url = f"http://hook.example:{port(94)}/"
        webhook.send(url, "", {"id": "1"}, [ipaddress.ip_network("127.0.0.1/32")])
    assert len(Server.requests) == 1 and answers == ["127.0.0.9"]


def test_redirect_of_a_webhook_is_not_followed() -> None:
    with webhook_server() as url:
        Server.statuses += [302]
        with pytest.raises(ActionError, match="status 302"):
            webhook.send(url, "", {}, [ipaddress.ip_network("127.0.0.0/8")])
    assert len(Server.requests) == 1


@pytest.mark.parametrize(
    "url", ["ftp://a/", "http:///x", "file:///etc/passwd", "http://u:p@a/", "http://a/#x", "x"]
)
def test_url_of_a_webhook_is_checked(url: str) -> None:
    with pytest.raises(ValueError, match="webhook_url"):
        webhook.parse_url(url)


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the folder of scripts, which belongs to root and other users can read."""
    if os.getuid():
        pytest.skip("scripts need root")
    place = Path("/tmp") / f"busbar-alarm-scripts-{os.getpid()}"
    place.mkdir(mode=0o755)
    monkeypatch.setattr(scripts, "folder", lambda: place)
    yield place
    for path in place.iterdir():
        path.unlink()
    place.rmdir()


def place_script(folder: Path, text: str, mode: int = 0o755) -> None:
    path = folder / "tell"
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(mode)


def test_script_gets_json_and_runs_as_its_own_user(
    cast: Cast, add_node: AddNode, folder: Path
) -> None:
    use(script_user="daemon")
    place_script(folder, "cat >&2; id -un >&2; env | grep -c BUSBAR >&2; exit 3\n")
    alarm = raise_one(add_node, script="tell")
    AlarmAction.objects.update(attempts=delivery.MAX_ATTEMPTS - 1)
    content = json.dumps(AlarmAction.objects.get().content)
    with pytest.raises(ActionError) as failed:
        scripts.run("tell", {"alarm": "a"}, "daemon", 10)
    assert str(failed.value) == 'script tell ended with status 3: {"alarm": "a"}daemon 0'
    delivery.deliver()
    assert content[:100] in last_step(alarm) and "status 3" in last_step(alarm)


def test_script_that_takes_too_long_is_killed_with_its_children(folder: Path) -> None:
    place_script(folder, "sleep 600 & wait\n")
    begin = time.monotonic()
    with pytest.raises(ActionError, match=r"killed after 0\.5 s"):
        scripts.run("tell", {}, "daemon", 0.5)
    assert time.monotonic() - begin < 600, "the end of the child was awaited"


@pytest.mark.parametrize(
    ("name", "mode", "user", "reason"),
    [
        ("../../bin/sh", 0o755, "daemon", "not the name of a script"),
        ("absent", 0o755, "daemon", "No such file"),
        ("tell", 0o777, "daemon", "only root may write"),
        ("tell", 0o755, "", "scripts are off"),
        ("tell", 0o755, "root", "other than root"),
        ("tell", 0o755, "no-such-user", "no user"),
    ],
)
def test_script_is_refused(folder: Path, name: str, mode: int, user: str, reason: str) -> None:
    place_script(folder, "exit 0\n", mode)
    with pytest.raises(ActionRefusedError, match=reason):
        scripts.run(name, {}, user, 5)


def test_script_of_another_owner_and_link_are_refused(folder: Path) -> None:
    place_script(folder, "exit 0\n")
    (folder / "link").symlink_to("/bin/true")
    with pytest.raises(ActionRefusedError, match="belong to root"):
        scripts.run("link", {}, "daemon", 5)
    os.chown(folder / "tell", 2, 2)
    with pytest.raises(ActionRefusedError, match="belong to root"):
        scripts.run("tell", {}, "daemon", 5)


def test_mail_goes_once_to_the_named_users_who_want_it(
    cast: Cast, add_node: AddNode, tmp_path: Path
) -> None:
    User.objects.filter(username__in=["olga", "vera", "ada"]).update(email="x@example.org")
    User.objects.filter(username="olga").update(email="olga@example.org")
    NotificationChoice.objects.create(user=cast.vera, unwanted=["alarm"])
    with smtp_server(tmp_path, port(93), "none") as (inbox, mail):
        live_settings.replace({MailSettings: MailSettings(**mail)})
        raise_one(add_node, mail_users=["olga", "vera", "admin"])  # admin has no address
        assert mails.deliver() == 1 and mails.deliver() == 0
    assert inbox.recipients == ["olga@example.org"]
    assert inbox.messages[0]["Subject"] == "Busbar critical: a (n1)"
    assert "Node n1 is cordoned." in inbox.messages[0].get_content()


def test_without_a_mail_server_no_mail_is_stored(cast: Cast, add_node: AddNode) -> None:
    User.objects.filter(username="olga").update(email="olga@example.org")
    raise_one(add_node, mail_users=["olga"])
    assert not Notification.objects.exists()


def test_maintenance_begins_in_the_name_of_the_author(cast: Cast, add_node: AddNode) -> None:
    alarm = raise_one(add_node, enters_maintenance=True, changed_by=cast.olga)
    delivery.deliver()
    assert Node.objects.get().state in (NodeState.DRAINING, NodeState.MAINTENANCE)
    assert last_step(alarm) == "Done: maintenance."
    assert Event.objects.get(kind="node.draining").actor == "olga"


def test_maintenance_needs_the_privilege_of_the_author_at_that_time(
    cast: Cast, add_node: AddNode
) -> None:
    alarm = raise_one(add_node, enters_maintenance=True, changed_by=cast.olga)
    RoleBinding.objects.filter(user=cast.olga).delete()
    delivery.deliver()
    assert Node.objects.get().state == NodeState.CORDONED
    assert "olga may not set node n1 into maintenance" in last_step(alarm)


def test_action_that_the_definition_lost_is_given_up(cast: Cast, add_node: AddNode) -> None:
    alarm = raise_one(add_node, webhook_url="http://192.0.2.1/")
    AlarmDefinition.objects.update(webhook_url="")
    delivery.deliver()
    assert "no longer has this action" in last_step(alarm)
