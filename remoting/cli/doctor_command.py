"""The command `busbar doctor`: finds out why a program has no GPU, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated

import typer

from remoting.cli import api as rest
from remoting.cli.doctor_appliance import ANSWER_SECONDS, appliance_findings
from remoting.cli.doctor_finding import FAILED, OK, Finding, failed
from remoting.cli.doctor_library import is_inside, library_findings
from remoting.cli.doctor_nodes import (
    all_nodes_findings,
    allocation_findings,
    own_end_findings,
    own_findings,
    running_allocation_findings,
)
from remoting.cli.output import Output, print_structured
from remoting.cli.printable import printable

CREDENTIALS = (
    "Set BUSBAR_URL, BUSBAR_TOKEN and BUSBAR_CA, or sign in with: busbar login https://ADDRESS:8443"
)


def doctor(
    allocation: Annotated[
        str,
        typer.Argument(
            help="Id or name of an active allocation, on which speed is measured. Inside of"
            " `busbar run` it is that of the program."
        ),
    ] = "",
    output: Output = "table",
) -> None:
    """Check what programs on this machine need, and say what to do about each fault.

    Client library, port and certificate of the appliance, clock, sign-in, versions, ports of nodes,
    and with an allocation its ticket, the time of a call and the speed of copies. What cannot be
    checked because of a failure before it is left out. The exit code is 0 if nothing failed.
    """
    found = []
    for finding in findings(allocation):
        found.append(finding)
        if output in ("table", "wide"):
            typer.echo(printable(line_of(finding)))
    print_structured([asdict(f) for f in found], output)
    failures = sum(f.state == FAILED for f in found)
    if failures:
        raise rest.ApiError(f"{failures} of {len(found)} checks failed.")


def line_of(finding: Finding) -> str:
    line = f"{finding.state:8} {finding.check}: {finding.found}"
    return line if finding.state == OK else f"{line} {finding.fix}"


def findings(allocation: str) -> Iterator[Finding]:
    """Yield all findings. Blocks for minutes at most, if nothing responds."""
    yield from library_findings()
    has_ended = False
    try:
        context = rest.load_context()
    except rest.ApiError as error:
        yield failed("sign-in", error, CREDENTIALS)
    else:
        for finding in remote_findings(context, allocation):
            has_ended = has_ended or (finding.check, finding.state) == ("ticket", FAILED)
            yield finding
    if is_inside() and not allocation and not has_ended:
        yield from own_findings()


def remote_findings(context: rest.Context, allocation: str) -> Iterator[Finding]:
    is_signed_in = False
    for finding in appliance_findings(context):
        is_signed_in = is_signed_in or finding.check == "versions"
        yield finding
    if not is_signed_in:
        return
    api = rest.Api(context, timeout_seconds=ANSWER_SECONDS)
    if allocation:
        yield from allocation_findings(api, allocation)
        return
    tried = yield from all_nodes_findings(api)
    yield from own_end_findings(api) if is_inside() else running_allocation_findings(api, tried)
