"""busbar apply: layers, standard input, pruning and the schema of its documents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from appliance.accounts.models import Project
from appliance.audit.models import AuditRecord
from appliance.pools.models import Pool, Quota, Reservation
from remoting.cli.apply_changes import compared
from remoting.cli.apply_kinds import KINDS
from tests.appliance.commands_in_process import Busbar
from tests.appliance.test_api_contract import api, resolved

LAYERS = """
kind: quota
subject_kind: project
subject: vision
limit_gpus: 4
---
kind: pool
name: night
projects: [vision]
labels: {team: vision}
---
kind: reservation
name: course
pool: night
project: vision
gpu_count: 1
starts_at: 2099-03-01T09:00:00Z
ends_at: 2099-03-01T17:00:00Z
allow_pending: true
---
kind: project
name: vision
department: research
labels: {team: vision}
---
kind: department
name: research
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "vision.yaml"
    path.write_text(LAYERS)
    return path


def test_dry_run_of_objects_that_depend_on_each_other_succeeds_and_changes_nothing(
    busbar: Busbar, file: Path
) -> None:
    records = AuditRecord.objects.count()
    done = busbar("apply", "-f", str(file), "--dry-run")
    assert (done.status, done.err) == (0, ""), done
    assert "reservation course: created" in done.out and "5 of 5 would change." in done.out
    assert not Project.objects.filter(name="vision").exists()
    assert AuditRecord.objects.count() == records


def test_dry_run_names_the_document_that_would_fail(busbar: Busbar, file: Path) -> None:
    file.write_text(LAYERS.replace("department: research\nlabels", "department: absent\nlabels"))
    done = busbar("apply", "-f", str(file), "--dry-run")
    assert done.status == 3 and 'project vision: Department "absent" not found' in done.err


def test_file_and_standard_input_are_applied_once(busbar: Busbar, file: Path) -> None:
    assert busbar("apply", "-f", str(file)).status == 0
    again = busbar("apply", "-f", "-", stdin=LAYERS)
    assert again.status == 0 and "0 of 5 changed." in again.out
    assert Project.objects.get(name="vision").labels == {"team": "vision"}
    other = "kind: site\nname: hall\n"
    both = busbar("apply", "-f", str(file), "-f", "-", stdin=other)
    assert "site hall: created" in both.out and "1 of 6 changed." in both.out


def test_limit_of_0_and_no_limit_are_different(busbar: Busbar, file: Path) -> None:
    busbar("apply", "-f", str(file))
    quota = "kind: quota\nsubject_kind: project\nsubject: vision\nlimit_gpus: "
    for value, report in (("null", "from 4.0 to none"), ("0", "from none to 0"), ("0.0", "0 of 1")):
        done = busbar("apply", "-f", "-", stdin=quota + value)
        assert done.status == 0 and report in done.out, done
    assert "from 0.0 to none" in busbar("apply", "-f", "-", stdin=quota + "null").out


def test_period_of_0_equals_none(busbar: Busbar, file: Path) -> None:
    busbar("apply", "-f", str(file))
    pool = "kind: pool\nname: night\nmax_idle_seconds: 0\n"
    assert "0 of 1 changed." in busbar("apply", "-f", "-", stdin=pool).out


def test_no_answer_equals_no() -> None:
    assert compared("borrows", None) == compared("borrows", False)


def test_prune_lists_asks_and_removes_what_has_the_labels_and_is_in_no_file(
    busbar: Busbar, file: Path
) -> None:
    busbar("apply", "-f", str(file))
    other = Pool.objects.create(name="other", labels={"team": "audio"})
    line = ("apply", "-f", "-", "--prune", "-l", "team=vision")
    rest_of_it = "kind: project\nname: vision\n"
    tried = busbar(*line, "--dry-run", stdin=rest_of_it)
    assert tried.status == 0 and "3 would be removed." in tried.out, tried
    asked = busbar(*line, stdin=rest_of_it)
    assert asked.status == 2 and "pool night: will be removed" in asked.err
    assert "quota project vision: will be removed" in asked.err and "--yes" in asked.err
    assert Pool.objects.filter(name="night").exists()
    done = busbar(*line, "--yes", stdin=rest_of_it)
    assert done.status == 0 and "3 removed." in done.out, done
    assert not Reservation.objects.exists() and not Quota.objects.exists()
    assert list(Pool.objects.exclude(name="default")) == [other]
    assert Project.objects.filter(name="vision").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--prune"], "--prune needs -l"),
        (["-l", "a=b"], "add --prune"),
        (["--prune", "-l", "a"], "KEY=VALUE"),
    ],
)
def test_pruning_without_a_limit_is_refused(
    busbar: Busbar, file: Path, options: list[str], message: str
) -> None:
    done = busbar("apply", "-f", str(file), *options)
    assert done.status == 2 and message in done.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "kind: pool\nname: a\npolicy: [pack]\n",
            'pool has no field "policy". Did you mean "policies"?',
        ),
        ("kind: pool\nname: a\n---\nkind: pool\nname: a\n", "pool a is in document 1"),
        ("kind: quota\nsubject: a\n", "quota needs subject_kind"),
        ("kind: [pool]\n", "kind must be one of"),
        ("- 1\n", "kind must be one of"),
        ("kind: node\nname: absent\n", "cannot create a node"),
        ("{", "cannot be read"),
    ],
)
def test_invalid_document_is_named(busbar: Busbar, text: str, message: str) -> None:
    done = busbar("apply", "-f", "-", stdin=text)
    assert done.status in (2, 3) and message in done.err


def test_dry_run_of_too_many_changes_says_so(busbar: Busbar) -> None:
    text = "---\n".join(f"kind: site\nname: s{n}\n" for n in range(101))
    done = busbar("apply", "-f", "-", "--dry-run", stdin=text)
    assert done.status == 2 and "at most 100 changes" in done.err


def test_schema_accepts_the_documents_that_apply_accepts(busbar: Busbar) -> None:
    jsonschema = pytest.importorskip("jsonschema_rs")
    schema = json.loads(busbar("explain", "apply").out)
    for document in yaml.safe_load_all(LAYERS):
        text = json.loads(json.dumps(document, default=lambda time: time.isoformat()))
        assert jsonschema.is_valid(schema, text), text
        assert not jsonschema.is_valid(schema, text | {"absent": "x"})


@pytest.mark.parametrize("name", KINDS)
def test_schema_names_the_fields_of_the_operations(name: str) -> None:
    document, kind = api(), KINDS[name]
    known: set[str] = set()
    for path, methods in document["paths"].items():
        if path.removeprefix("/api/v1/").split("/{")[0] == kind.path and path.count("/") <= 4:
            for operation in methods.values():
                for media in operation.get("requestBody", {}).get("content", {}).values():
                    known |= set(resolved(document, media["schema"]).get("properties", {}))
    assert set(kind.fields) <= known | set(kind.key)
