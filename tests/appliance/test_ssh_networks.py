"""The appliance connects over SSH to permitted networks only, and at the address it has checked."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from appliance.accounts.models import User
from appliance.api.errors import ApplianceError, Code
from appliance.environment import Environment
from appliance.fleet import ssh_networks
from tests.appliance.conftest import Cast

Clients = Callable[[User | None], Any]


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("10.1.2.3", True),
        ("192.168.7.1", True),
        ("fd00::7", True),
        ("203.0.114.9", True),
        ("127.0.0.1", False),
        ("127.8.9.1", False),
        ("::1", False),
        ("::ffff:127.0.0.1", False),
        ("169.254.169.254", False),
        ("::ffff:169.254.169.254", False),
        ("fe80::1", False),
        ("0.0.0.0", False),
        ("::", False),
        ("224.0.0.1", False),
        ("ff02::1", False),
        ("255.255.255.255", False),
    ],
)
def test_addresses_that_no_server_has_are_not_allowed(address: str, allowed: bool) -> None:
    assert ssh_networks.is_allowed(ipaddress.ip_address(address), ()) is allowed


def test_named_networks_replace_the_default() -> None:
    networks = (ipaddress.ip_network("10.20.0.0/16"), ipaddress.ip_network("::1/128"))
    addresses = ("10.20.3.4", "10.21.0.1", "::1", "::ffff:10.20.0.9", "192.168.0.1")
    allowed = [ssh_networks.is_allowed(ipaddress.ip_address(a), networks) for a in addresses]
    assert allowed == [True, False, True, True, False]


def test_settings_read_networks_and_refuse_wrong_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSBAR_SSH_NETWORKS", "10.20.0.0/16, fd00::/8,")
    assert [str(n) for n in Environment().ssh_networks] == ["10.20.0.0/16", "fd00::/8"]
    monkeypatch.setenv("BUSBAR_SSH_NETWORKS", "10.20.0.0/99")
    with pytest.raises(ValidationError, match="ssh_networks"):
        Environment()


def test_a_name_that_changes_its_address_does_not_reach_another_network(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second answer of the name server is an address that is not allowed."""
    answers = iter(["127.0.0.2", "127.0.0.1"])
    connected: list[Any] = []
    resolve, create_connection = socket.getaddrinfo, socket.create_connection

    def changing(host: str, *rest: Any, **more: Any) -> Any:
        return resolve(next(answers) if host == "gpu.example" else host, *rest, **more)

    def recording(address: tuple[str, int], *rest: Any, **more: Any) -> socket.socket:
        connected.append(address[0])
        return create_connection(address, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", changing)
    monkeypatch.setattr(socket, "create_connection", recording)
    networks = (ipaddress.ip_network("127.0.0.2/32"),)
    with socket.create_server(("127.0.0.2", 0)) as server:
        port = server.getsockname()[1]
        ssh_networks.connect("gpu.example", port, 5, networks).close()
        with pytest.raises(ApplianceError) as refused:
            ssh_networks.connect("gpu.example", port, 5, networks)
    assert refused.value.code == Code.ADDRESS_NOT_ALLOWED
    assert connected == ["127.0.0.2"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "address", ["127.0.0.1", "localhost", "169.254.169.254", "0.0.0.0", "0:0:0:0:0:0:0:1"]
)
def test_an_operator_cannot_reach_the_appliance_itself(
    client_of: Clients, cast: Cast, address: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        request = {"address": address, "port": server.getsockname()[1], "password": "x"}
        answer = client_of(cast.olga).post("/api/v1/nodes/enrol-ssh", request, format="json")
        assert (answer.status_code, answer.json()["code"]) == (403, "address_not_allowed")
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.django_db(transaction=True)
def test_only_administrators_use_the_ssh_agent(client_of: Clients, cast: Cast) -> None:
    request = {"address": "127.0.0.1", "port": 1, "use_agent": True}
    codes = [
        client_of(user).post("/api/v1/nodes/enrol-ssh", request, format="json").json()["code"]
        for user in (cast.olga, cast.admin)
    ]
    assert codes == ["denied", "address_not_allowed"]
