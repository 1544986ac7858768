"""The command `busbar audit`."""

from __future__ import annotations

from typing import Annotated

import typer

from remoting.cli import api as rest
from remoting.cli.object_ids import id_of
from remoting.cli.output import Output, client, print_structured, show, show_one

audit_app = typer.Typer(no_args_is_help=True, help="Read and verify the audit records.")
COLUMNS = ["created_at", "actor", "address", "action", "object_name", "outcome", "code", "count"]
WIDE = ["token_name", "object_kind", "object_id", "before", "after", "sequence", "id"]


@audit_app.command("list")
def audit_list(
    user: Annotated[str, typer.Option(help="Name of the user who acted.")] = "",
    action: Annotated[str, typer.Option(help="Operation id, for example pools_create.")] = "",
    kind: Annotated[str, typer.Option(help="Kind of the object, for example pool.")] = "",
    object_id: Annotated[str, typer.Option("--object", help="Id of the object.")] = "",
    outcome: Annotated[str, typer.Option(help="succeeded or refused.")] = "",
    since: Annotated[
        str, typer.Option(help="Earliest time, for example 2026-11-22T09:00:00Z.")
    ] = "",
    until: Annotated[str, typer.Option(help="Time before which the records were made.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=500, help="Number of records.")] = 100,
    output: Output = "table",
) -> None:
    """List audit records, newest first."""
    filters = {
        "actor": user,
        "action": action,
        "object_kind": kind,
        "object_id": object_id,
        "outcome": outcome,
        "since": since,
        "until": until,
    }
    wanted = {name: value for name, value in filters.items() if value}
    rows = client().request("GET", "audit", None, limit=str(limit), **wanted)["items"]
    show(rows, COLUMNS, output, WIDE)


@audit_app.command("show")
def audit_show(record_id: str, output: Output = "table") -> None:
    """Show an audit record."""
    api = client()
    path = f"audit/{id_of(api, 'audit', record_id)}"
    show_one(api.request("GET", path), COLUMNS, output, WIDE)


@audit_app.command("verify")
def audit_verify(output: Output = "table") -> None:
    """Verify the chain of sealed records. Fails and names the first bad record if there is one."""
    api, known = client(), {"after": "0", "after_hash": ""}
    while True:
        found = api.request("GET", "audit/verification", None, **known)
        if found["problem"] or found["sequence"] >= found["newest_sequence"]:
            break
        known = {"after": str(found["sequence"]), "after_hash": found["hash"]}
    if not print_structured(found, output):
        typer.echo(f"Verified up to record {found['sequence']}, SHA-256 {found['hash'] or '-'}.")
    if problem := found["problem"]:
        raise rest.ApiError(
            f"Record {problem['sequence']} was {problem['reason']} after it was sealed. Compare it "
            "with an export or a backup."
        )


@audit_app.command("export")
def audit_export(
    after: Annotated[
        int, typer.Option(min=0, help="Sequence number of the last record of the last export.")
    ] = 0,
) -> None:
    """Print sealed records as JSON lines, oldest first."""
    api = client()
    while lines := api.json_lines("audit/export", after=str(after)):
        for sequence, line in lines:
            typer.echo(line)
            after = sequence
