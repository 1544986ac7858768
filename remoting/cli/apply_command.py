"""The command `busbar apply -f FILE`: makes objects equal to a file. Idempotent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from remoting.cli import api as rest
from remoting.cli.apply_changes import PRUNABLE, Change, change_for, deletions, read_objects
from remoting.cli.apply_file import Document, read_documents
from remoting.cli.apply_kinds import json_schema
from remoting.cli.confirmation import Yes, confirm
from remoting.cli.label_options import parse_labels
from remoting.cli.output import client

MAX_DRY_RUN = 100
"""Operations of one bulk request. A dry run is one, so that each sees the effect of the others."""
Files = Annotated[
    list[Path],
    typer.Option(
        "-f",
        "--file",
        help="YAML file; - for standard input. Can be repeated. Separate documents with ---.",
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Check and print the changes without making them.")
]
Prune = Annotated[
    bool,
    typer.Option(
        "--prune",
        help="Also delete projects and pools with the labels of -l, and their quotas and "
        "reservations, that are in no file.",
    ),
]
PruneLabels = Annotated[
    str, typer.Option("-l", "--labels", metavar="KEY=VALUE", help="Labels that limit --prune.")
]


def apply(
    files: Files,
    dry_run: DryRun = False,
    prune: Prune = False,
    labels: PruneLabels = "",
    yes: Yes = False,
) -> None:
    """Create and update objects to match YAML files. Objects that match are not changed.

    `busbar explain apply` prints the schema of the documents.
    """
    scope = parse_labels(labels.split(",")) if labels else {}
    if prune and not scope:
        raise rest.ApiError(
            "--prune needs -l KEY=VALUE, which limits what it deletes.", rest.EXIT_USAGE
        )
    if labels and not prune:
        raise rest.ApiError("-l limits --prune: add --prune.", rest.EXIT_USAGE)
    documents, api = read_documents(files), client()
    kinds = [d.kind_name for d in documents] + (list(PRUNABLE) if prune else [])
    objects = read_objects(api, kinds)
    changes = [change_for(document, objects) for document in documents]
    removed = deletions(documents, objects, scope) if prune else []
    if dry_run:
        try_changes(api, [c for c in changes if c is not None] + removed)
    elif removed:
        confirm_removal(removed, yes)
    report(api, documents, changes, removed, dry_run=dry_run)


def confirm_removal(removed: Sequence[Change], yes: bool) -> None:
    """List what is lost, and ask. Raises ApiError without a terminal, typer.Abort for no."""
    for change in removed:
        typer.echo(change.report.replace(": removed", ": will be removed"), err=True)
    confirm(f"Delete these {len(removed)} objects?", yes)


def report(
    api: rest.Api,
    documents: Sequence[Document],
    changes: Sequence[Change | None],
    removed: Sequence[Change],
    *,
    dry_run: bool,
) -> None:
    """Make the changes, unless they were tried, and print a line for each object."""
    for document, change in zip(documents, changes, strict=True):
        if change is None:
            typer.echo(f"{document.title}: unchanged")
        else:
            perform(api, change, dry_run=dry_run)
    for change in removed:
        perform(api, change, dry_run=dry_run)
    count = sum(change is not None for change in changes)
    typer.echo(f"{count} of {len(documents)} {'would change' if dry_run else 'changed'}.")
    if removed:
        typer.echo(f"{len(removed)} {'would be removed' if dry_run else 'removed'}.")


def perform(api: rest.Api, change: Change, *, dry_run: bool) -> None:
    if not dry_run:
        api.request(change.method, change.path, change.body)
    typer.echo(change.report)


def try_changes(api: rest.Api, changes: Sequence[Change]) -> None:
    """Run all changes in one transaction that is rolled back.

    An object may depend on one that an earlier document creates. Raises ApiError with the first
    change that fails.
    """
    if len(changes) > MAX_DRY_RUN:
        raise rest.ApiError(
            f"A dry run tries at most {MAX_DRY_RUN} changes (there are {len(changes)}). Split the "
            "file.",
            rest.EXIT_USAGE,
        )
    if not changes:
        return
    operations = [change.operation() for change in changes]
    results = api.request("POST", "bulk", {"operations": operations}, dry_run="true")["results"]
    for change, result in zip(changes, results, strict=True):
        if result["status"] >= 400:
            body = result["body"] or {}
            text = f"{change.report.rpartition(': ')[0]}: {problem_text(body)}"
            raise rest.ApiError(text, rest.exit_code_of(result["status"]), body.get("code", ""))


def problem_text(body: dict[str, Any]) -> str:
    lines = [str(body.get("detail", "refused"))]
    lines += [f"  {e['pointer']}: {e['message']}" for e in body.get("errors", [])]
    return "\n".join(lines)


def print_schema() -> None:
    """Print the JSON schema of a document of `busbar apply`."""
    typer.echo(json.dumps(json_schema(), indent=2))
