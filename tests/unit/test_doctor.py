"""Findings of `busbar doctor` for faults that need no appliance."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from appliance.fleet.certificates import load_authority
from remoting.cli.api import Api, ApiError, ApplianceUnreachable, Context
from remoting.cli.doctor_appliance import (
    Answer,
    account_findings,
    appliance_findings,
    clock_finding,
    fix_of_certificate,
    port_finding,
    sign_in_finding,
    version_finding,
)
from remoting.cli.doctor_finding import Finding, failed
from remoting.cli.doctor_library import KEEP_THE_LIBRARY, fix_of_library, run_probe
from remoting.cli.doctor_network import Attempt
from remoting.cli.doctor_nodes import (
    Node,
    all_nodes_findings,
    allocation_findings,
    bandwidth_finding,
    port_findings,
    waiting_finding,
)
from remoting.cli.doctor_projects import projects_finding
from tests.unit.test_every_command import certificate
from tests.unit.tls_server import tls_server

CLIENT = "/opt/busbar"
"""Folder of the client library."""
CLOSED = ("127.0.0.1", 9)
NOT_YET_VALID, OTHER_ADDRESS, OTHER_ISSUER = 9, 64, 19


class Behind(BaseHTTPRequestHandler):
    """An appliance that refuses all tokens, and whose clock has stopped."""

    ca_pem = ""

    def do_GET(self) -> None:
        if self.path != "/api/v1/ca":
            return self.send_error(401)
        content = json.dumps({"ca_pem": self.ca_pem}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def date_time_string(self, timestamp: float | None = None) -> str:
        return "Sun, 06 Nov 1994 08:49:37 GMT"

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Context]:
    """A server whose certificate is for 127.0.0.1."""
    monkeypatch.setattr(Behind, "ca_pem", load_authority(tmp_path).pem)
    with tls_server(tmp_path, Behind) as context:
        yield context


def test_clock_of_the_appliance_comes_from_its_answer(behind: Context) -> None:
    found = {f.check: f for f in appliance_findings(behind)}
    assert (found["certificate"].state, found["sign-in"].state) == ("ok", "failed")
    assert found["clock"].state == "warning" and "ahead of" in found["clock"].found


def test_certificate_for_another_name_is_found(behind: Context) -> None:
    other = replace(behind, url=behind.url.replace("127.0.0.1", "127.0.0.2"))
    found = {f.check: f for f in appliance_findings(other)}
    assert found["certificate"].state == "failed" and "--advertise" in found["certificate"].fix


@pytest.mark.parametrize(
    ("ahead", "state", "found"),
    [
        (1.2, "ok", "Equal to that of the appliance."),
        (-20.0, "ok", "20 s ahead of the appliance."),
        (3600.0, "warning", "3600 s behind the appliance."),
        (-3600.0, "warning", "3600 s ahead of the appliance."),
        (None, "warning", "The appliance tells no time."),
    ],
)
def test_clock_is_compared_with_the_appliance(ahead: float, state: str, found: str) -> None:
    finding = clock_finding(ahead)
    assert (finding.state, finding.found) == (state, found)
    assert ("timedatectl set-ntp true" in finding.fix) == (state == "warning")


@pytest.mark.parametrize(
    ("code", "fix"),
    [
        (NOT_YET_VALID, "Set the clock of this machine"),
        (OTHER_ADDRESS, "--advertise"),
        (OTHER_ISSUER, "busbar login https://a:1 --ca-sha256 FINGERPRINT"),
    ],
)
def test_certificate_that_is_not_trusted_has_a_remedy_of_its_own(code: int, fix: str) -> None:
    answer = Answer({"sent": ""}, None)
    assert fix in fix_of_certificate(code, "https://a:1", answer, {"trusted": ""})


def test_one_line_for_each_node_also_if_its_port_is_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        both = Node("both", (CLOSED, listening.getsockname()[:2]))
        closed = Node("closed", (CLOSED, ("no.invalid", 1)))
        found = list(port_findings([both, closed, Node("none", ())]))
    assert [(f.check, f.state) for f in found] == [
        ("node port", "ok"),
        ("node port", "failed"),
        ("node port", "failed"),
        ("round trip", "ok"),
    ]
    assert "127.0.0.1:9 refuses connections, no.invalid:1 is not found by name" in found[1].found
    assert "firewalls" in found[1].fix


@pytest.mark.parametrize(("seconds", "state"), [(0.0002, "ok"), (0.02, "warning")])
def test_slow_call_is_a_warning(seconds: float, state: str) -> None:
    finding = waiting_finding("call", "A call", seconds)
    assert finding.state == state and bool(finding.fix) == (state == "warning")
    assert f"at most {1 / seconds:,.0f} calls a second" in finding.found


@pytest.mark.parametrize(("rate", "state"), [(1e9, "ok"), (1e7, "warning")])
def test_slow_copy_is_a_warning(rate: float, state: str) -> None:
    finding = bandwidth_finding(rate)
    assert finding.state == state and bool(finding.fix) == (state == "warning")
    assert f"1 GiB takes {(1 << 30) / rate:.1f} s" in finding.found


@pytest.mark.parametrize(
    ("error", "fix"),
    [
        ("failed to map segment from shared object", "--prefix FOLDER"),
        ("version `GLIBC_2.28' not found", "Debian 12, Ubuntu 22.04 or newer"),
        ("Error relocating libcuda.so.1: symbol not found", "Debian 12, Ubuntu 22.04 or newer"),
        ("invalid ELF header", "Install the client again"),
    ],
)
def test_library_that_cannot_be_loaded_has_a_remedy(error: str, fix: str) -> None:
    assert fix in fix_of_library({"error": error}, Path("/opt/busbar/libcuda.so.1"))


@pytest.mark.parametrize(
    ("folders", "fix"),
    [
        (
            ["/absent", "OTHER", CLIENT],
            f"Remove OTHER from LD_LIBRARY_PATH, or name it behind {CLIENT}.",
        ),
        (["OTHER"], KEEP_THE_LIBRARY),
        ([CLIENT, "OTHER"], "Unset LD_PRELOAD (/opt/preloaded/libcuda.so.1)"),
    ],
    ids=["before the client", "in place of the client", "behind the client"],
)
def test_folder_of_another_library_is_blamed_only_if_it_hides_that_of_the_client(
    folders: list[str], fix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "libcuda.so.1"
    other.touch()
    path = ":".join(folders).replace("OTHER", str(tmp_path))
    monkeypatch.setenv("BUSBAR_TICKET_FILE", "/proc/1/fd/100")
    monkeypatch.setenv("LD_LIBRARY_PATH", path)
    monkeypatch.setenv("LD_PRELOAD", "/opt/preloaded/libcuda.so.1")
    found = fix_of_library({"library": str(other)}, Path(CLIENT) / "libcuda.so.1")
    assert found.startswith(fix.replace("OTHER", str(tmp_path)))


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (["/no/such/python"], "/no/such/python cannot be started: No such file or directory"),
        (["sleep", "60"], "it did not end within"),
        (["false"], "it ended with the exit code 1"),
        (["sh", "-c", "echo here >&2; echo no JSON"], "here"),
    ],
    ids=["absent", "endless", "silent", "garbage"],
)
def test_program_that_tells_nothing_is_a_finding(command: list[str], error: str) -> None:
    assert run_probe(command, {"PATH": "/usr/bin:/bin"}, 1.0)["error"].startswith(error)


def test_endless_look_up_of_a_name_does_not_hold_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    end = threading.Event()
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: end.wait())
    monkeypatch.setattr("remoting.cli.doctor_appliance.CONNECT_SECONDS", 0.05)
    finding = port_finding("https://appliance:8443")
    end.set()
    assert finding.state == "failed" and "does not answer" in finding.found


def test_attempt_raises_the_error_of_its_call() -> None:
    def refuse() -> None:
        raise ApiError("no")

    with pytest.raises(ApiError):
        Attempt(refuse).result(60)


def test_answer_of_a_faulty_appliance_keeps_what_it_says_to_do() -> None:
    error = ApplianceUnreachable("The disk is full. Free some space.")
    assert failed("projects", error).fix == "Free some space."


def test_error_is_split_into_what_was_found_and_what_to_do() -> None:
    finding = failed("sign-in", ApiError("Not signed in. Sign in with: busbar login A"), "other")
    assert (finding.found, finding.fix) == ("Not signed in.", "Sign in with: busbar login A")
    assert failed("sign-in", ApiError("It is closed."), "Open it.").fix == "Open it."


@pytest.mark.parametrize(
    "findings",
    [
        lambda api: [sign_in_finding(api, Context("", "", ""))],
        lambda api: [projects_finding(api)],
        lambda api: [version_finding(api)],
        all_nodes_findings,
        lambda api: allocation_findings(api, "train"),
    ],
    ids=["sign-in", "projects", "versions", "nodes", "allocation"],
)
def test_appliance_that_stops_in_between_is_not_blamed_on_the_account(
    findings: Callable[[Api], Iterable[Finding]],
) -> None:
    api = Api(Context("https://127.0.0.1:9", "bb_1", certificate().decode()))
    (finding,) = findings(api)
    assert finding.state == "failed" and "does not respond" in finding.found
    assert finding.fix.startswith("Check the address and that the appliance runs")


@pytest.mark.parametrize("last_line", ["0", "null", "[]", '"text"'])
def test_program_that_tells_something_else_is_a_finding(last_line: str) -> None:
    found = run_probe(["/bin/echo", last_line], {}, 60)
    assert found["is_silent"] and "exit code 0" in found["error"]


def test_token_that_no_header_can_have_is_a_finding() -> None:
    context = Context("https://127.0.0.1:9", "bb_1.secr\u00e9t", certificate().decode())
    (finding,) = account_findings(context)
    assert finding.state == "failed" and "no token has" in finding.found
