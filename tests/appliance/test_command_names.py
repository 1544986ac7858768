"""Commands take objects by id, by the first characters of an id as lists print it, or by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import httpx
import pytest
from django.conf import settings
from django.utils import timezone

from appliance.accounts.models import User
from appliance.allocations.eviction import release
from appliance.allocations.models import Allocation
from appliance.db.identifiers import uuid7
from appliance.pools.models import Reservation
from remoting.cli import object_ids
from remoting.cli.allocation_request import AllocationRequest
from tests.appliance.commands_in_process import Busbar, BusbarOf, InProcessApi
from tests.appliance.conftest import Cast
from tests.appliance.suspending_client import Client, report

Clients = Callable[[User | None], Any]
pytestmark = pytest.mark.django_db(databases=list(settings.DATABASES))


def reserve(client: Any, name: str, project: str) -> Any:
    times = {"starts_at": "2099-01-01T08:00:00Z", "ends_at": "2099-01-01T09:00:00Z"}
    body = {"name": name, "project": project, "pool": "default", "gpu_count": 1, **times}
    made = client.post("/api/v1/reservations", body | {"allow_pending": True}, format="json")
    assert made.status_code == 201, made.content
    return made.json()


def named(alice: Client, name: str) -> str:
    pk = alice.allocate()
    Allocation.objects.filter(pk=pk).update(name=name)
    return pk


def copy_of(pk: str, new: UUID, **changes: Any) -> None:
    row = Allocation.objects.get(pk=pk)
    for name, value in {"pk": new, **changes}.items():
        setattr(row, name, value)
    row.save(force_insert=True)


@pytest.mark.parametrize("form", ["name", "whole", "beginning", "capitals"])
def test_allocation_is_found_by_name_id_and_beginning(
    alice: Client, busbar_of_alice: Busbar, form: str
) -> None:
    pk = named(alice, "train")
    given = {"name": "train", "whole": pk, "beginning": pk[:30], "capitals": pk[:8].upper()}[form]
    for line in (["allocation", "show"], ["explain"], ["allocation", "suspend"]):
        done = busbar_of_alice(*line, given)
        assert (done.status, done.err) == (0, ""), done
    assert busbar_of_alice("allocation", "resume", given).status == 0
    done = busbar_of_alice("allocation", "release", given)
    assert "released" in done.out.replace("releasing", "released")


def test_resize_takes_a_name(alice: Client, busbar_of_alice: Busbar) -> None:
    named(alice, "train")
    done = busbar_of_alice("resize", "train", "-p", "5", "--wait", "0")
    assert done.status == 0 and "5 % of the compute" in done.out, done


def test_resize_changes_the_mode(alice: Client, busbar_of_alice: Busbar) -> None:
    pk = alice.allocate(percent=20)
    done = busbar_of_alice("resize", pk, "--mode", "capped", "--wait", "0")
    assert done.status == 0 and done.out.startswith("node/0: 20 % of the compute, "), done
    assert ", capped\n" in done.out and "Resize applying: " in done.out, done
    alice.allocate(percent=50)
    waits = busbar_of_alice("resize", pk, "--mode", "exclusive", "--wait", "0")
    assert ", capped\n" in waits.out and "Resize queued: The resize adds 80 %" in waits.out, waits
    assert busbar_of_alice("explain", pk).out.startswith("capacity: ")
    shown = busbar_of_alice("allocation", "show", pk).out
    assert "exclusive" in shown and "capped" in shown, shown
    assert busbar_of_alice("resize", pk, "--mode", "best").err.startswith("busbar: --mode: "), (
        "unknown mode"
    )
    nothing = busbar_of_alice("resize", pk)
    assert nothing.status == 2 and "--mode" in nothing.err


def test_resize_of_whole_gpus_needs_a_mode(alice: Client, busbar_of_alice: Busbar) -> None:
    pk = alice.allocate(compute_mode="exclusive")
    refused = busbar_of_alice("resize", pk, "-p", "50")
    assert refused.status == 4 and "Give another --mode with the size" in refused.err, refused
    done = busbar_of_alice("resize", pk, "-p", "50", "--mode", "shared", "--wait", "0")
    assert done.status == 0 and "50 % of the compute" in done.out, done


def test_size_beside_the_mode_exclusive_is_ignored_with_a_notice(
    alice: Client, busbar_of_alice: Busbar
) -> None:
    pk = alice.allocate(percent=20)
    done = busbar_of_alice("resize", pk, "--mode", "exclusive", "-p", "50", "--wait", "0")
    assert done.status == 0 and "percent and memory are ignored" in done.err, done
    assert "100 % of the compute" in done.out, done


def test_resize_that_another_has_replaced_fails(
    alice: Client, busbar_of_alice: Busbar, monkeypatch: pytest.MonkeyPatch
) -> None:
    pk = alice.allocate(percent=20)
    patch = InProcessApi.respond

    def respond(api: InProcessApi, method: str, *given: Any) -> Any:
        response = patch(api, method, *given)
        if method != "PATCH":
            return response
        other = alice.client.patch(f"/api/v1/allocations/{pk}", {"percent": 28}, format="json")
        return httpx.Response(202, content=other.content)

    monkeypatch.setattr(InProcessApi, "respond", respond)
    done = busbar_of_alice("resize", pk, "-p", "26", "--wait", "0")
    assert done.status == 4 and "28 % of the compute" in done.out, done
    assert "Another resize has replaced this one" in done.err, done


def test_list_shows_a_resize_in_progress(alice: Client, busbar_of_alice: Busbar) -> None:
    pk = alice.allocate(percent=50)
    alice.allocate(percent=40)
    busbar_of_alice("resize", pk, "-p", "80", "--wait", "0")
    assert "active, queued" in busbar_of_alice("allocation", "list").out


def test_queued_resize_is_shown_once(alice: Client, busbar_of_alice: Busbar) -> None:
    pk = alice.allocate(percent=50)
    alice.allocate(percent=40)
    busbar_of_alice("resize", pk, "-p", "80", "--wait", "0")
    shown = busbar_of_alice("allocation", "show", pk).out
    assert "queued: The resize adds 30 %" in shown and "requested_at" not in shown, shown
    assert shown.count("The resize adds") == 1, shown


def test_resize_shows_what_was_returned(alice: Client, busbar_of_alice: Busbar) -> None:
    pk = alice.allocate(percent=50)
    busbar_of_alice("resize", pk, "-p", "25", "--wait", "0")
    report(alice.node, over={pk: [(2 << 30) + (819 << 20)]})
    done = busbar_of_alice("resize", pk, "-p", "25", "--wait", "0")
    assert "Resize shrinking: 1.2 of 2 GiB returned." in done.out, done
    shown = busbar_of_alice("allocation", "show", pk).out
    assert "shrinking: 1.2 of 2 GiB returned." in shown and "over_bytes" not in shown
    report(alice.node, over={pk: [(2 << 30) + (40 << 20)]})
    assert "1.9 of 2 GiB returned." in busbar_of_alice("allocation", "show", pk).out
    report(alice.node)
    assert "returned" not in busbar_of_alice("allocation", "show", pk).out


def test_ambiguous_beginning_lists_the_candidates(alice: Client, busbar_of_alice: Busbar) -> None:
    pks = [named(alice, "first"), str(UUID(int=0))]
    pks[1] = f"{pks[0][:8]}{pks[1][8:]}"
    copy_of(pks[0], UUID(pks[1]), name="second")
    done = busbar_of_alice("allocation", "show", pks[0][:8])
    assert done.status == 4 and all(text in done.err for text in (*pks, "first", "second"))


def test_ambiguous_name_lists_the_candidates(alice: Client, busbar_of_alice: Busbar) -> None:
    pks = [named(alice, "train"), named(alice, "train")]
    done = busbar_of_alice("allocation", "release", "train")
    assert done.status == 4 and all(pk in done.err for pk in pks)
    assert "Give more of the id" in done.err


def test_name_stands_for_the_allocation_that_has_not_ended(
    alice: Client, busbar_of_alice: Busbar
) -> None:
    ended, pk = named(alice, "train"), named(alice, "train")
    release(allocation_id=Allocation.objects.get(pk=ended).pk, actor="alice")
    Allocation.objects.filter(pk=ended).update(state="released", ended_at="2026-11-29T00:00:00Z")
    assert pk in busbar_of_alice("allocation", "show", "train").out


@pytest.mark.parametrize(
    "line",
    [
        ["allocation", "show"],
        ["allocation", "release"],
        ["allocation", "attach"],
        ["explain"],
        ["resize", "-p", "5"],
        ["session", "show"],
        ["task", "log"],
        ["task", "cancel"],
        ["gpu", "label", "", "a=b"],
        ["token", "revoke"],
        ["reservation", "delete"],
        ["role-binding", "delete"],
        ["audit", "show"],
        ["metrics", "gpu"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("given", ["../x", "..", "", "a?b", "gpus", "x" * 10_000])
def test_text_that_is_no_id_is_not_found(busbar: Busbar, line: list[str], given: str) -> None:
    line = [given if word == "" else word for word in line]
    done = busbar(*line, *([] if given in line else [given]))
    assert done.status == 3 and "not found" in done.err, done
    assert " list" in done.err and len(done.err) < 400


@pytest.mark.parametrize("kind", ["token", "reservation"])
def test_objects_with_names_are_found_by_name(
    busbar_of_alice: Busbar, cast: Cast, client_of: Clients, kind: str
) -> None:
    body: dict[str, Any] = {"name": "night"}
    if kind == "reservation":
        times = {"starts_at": "2099-01-01T08:00:00Z", "ends_at": "2099-01-01T09:00:00Z"}
        body |= {"project": "default", "pool": "default", "gpu_count": 1, **times}
    made = client_of(cast.alice if kind == "token" else cast.admin).post(
        f"/api/v1/{kind}s", body, format="json"
    )
    assert made.status_code == 201, made.content
    done = busbar_of_alice(kind, "show", "night")
    assert done.status == 0 and made.json()["id"] in done.out, done
    if kind == "reservation":
        dry = ["--dry-run", "--allow-pending", "--", "true"]
        assert busbar_of_alice("run", "--reservation", "night", *dry).status == 0
        assert busbar_of_alice("run", "--reservation", "../x", *dry).status == 3


def test_newest_name_that_is_live_is_found_without_reading_all_that_ended(
    alice: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_ids, "PAGE_SIZE", "2")
    live = named(alice, "train")
    ended = Allocation.objects.get(pk=named(alice, "train"))
    release(allocation_id=ended.pk, actor="alice")
    Allocation.objects.filter(pk=ended.pk).update(state="released", ended_at=timezone.now())
    for _ in range(9):
        copy_of(str(ended.pk), uuid7())
    api = InProcessApi(alice.client)
    assert object_ids.id_of(api, "allocations", "train") == live
    assert not [line for line in api.requests if "cursor=" in line]


def test_command_that_changes_does_not_take_the_allocation_of_another_user(
    alice: Client, busbar: Busbar
) -> None:
    """The administrator's own allocation of the name had ended."""
    pk = named(alice, "train")
    lines = [
        ["allocation", "release", "--yes"],
        ["allocation", "suspend"],
        ["allocation", "resume"],
        ["resize", "-p", "5"],
    ]
    for line in lines:
        for given in ("train", pk[:30]):
            done = busbar(*line, given)
            assert done.status == 4 and "is an allocation of alice" in done.err, done
            assert pk in done.err and "Give its whole id" in done.err
    assert alice.read(pk)["state"] == "active"
    assert busbar("allocation", "release", "--yes", pk).status == 0


def test_user_who_may_not_change_an_allocation_is_told_so_at_once(
    alice: Client, cast: Cast, client_of: Clients, busbar_of: BusbarOf
) -> None:
    pk = named(alice, "train")
    busbar = busbar_of(client_of(cast.bob))
    for given in ("train", pk[:30]):
        done = busbar("allocation", "release", "--yes", given)
        assert done.status == 5 and "is an allocation of alice" in done.err, done
        assert "Only its owner or an operator may do this." in done.err
        assert "Give its whole id" not in done.err


def test_texts_about_several_objects_tell_names_from_ids(
    alice: Client, busbar_of_alice: Busbar
) -> None:
    pk = named(alice, "train")
    copy_of(pk, UUID(pk[:-12] + "0" * 12))
    done = busbar_of_alice("allocation", "show", "train")
    assert done.status == 4 and 'More than one allocation has the name "train".' in done.err, done
    done = busbar_of_alice("allocation", "show", pk[:20])
    assert f'allocation has an id that begins with "{pk[:20]}".' in done.err, done


def test_alarm_is_not_looked_for_by_name(busbar: Busbar) -> None:
    done = busbar("alarm", "show", "disk_nearly_full")
    text = '"disk_nearly_full" not found: give its id, or 8 or more of its first characters. List'
    assert done.status == 3 and text in done.err, done


def test_beginning_that_all_ids_have_is_not_found(alice: Client, busbar_of_alice: Busbar) -> None:
    pk = named(alice, "train")
    done = busbar_of_alice("allocation", "release", "--yes", pk[:2])
    assert done.status == 3 and alice.read(pk)["state"] == "active", done


def test_deletion_asks_with_the_object_that_was_found(
    cast: Cast, client_of: Clients, busbar: Busbar
) -> None:
    made = reserve(client_of(cast.admin), "night", "default")
    done = busbar("reservation", "delete", made["id"][:30])
    assert f"Delete reservation {made['id']}  night" in done.err, done


def test_reservation_of_a_request_is_one_of_its_project_that_is_not_over(
    cast: Cast, client_of: Clients
) -> None:
    admin = client_of(cast.admin)
    over, wanted = (reserve(admin, "night", "default") for _ in range(2))
    Reservation.objects.filter(pk=over["id"]).update(
        starts_at="2025-01-01T08:00:00Z", ends_at="2025-01-01T09:00:00Z"
    )
    made = admin.post("/api/v1/projects", {"name": "other"}, format="json")
    assert made.status_code == 201, made.content
    reserve(admin, "night", "other")
    body = AllocationRequest(reservation="night", project="default").body(InProcessApi(admin))
    assert body["reservation_id"] == wanted["id"]


def test_reservations_of_one_name_in_several_projects_are_listed_with_their_projects(
    cast: Cast, client_of: Clients, busbar: Busbar
) -> None:
    admin = client_of(cast.admin)
    assert admin.post("/api/v1/projects", {"name": "other"}, format="json").status_code == 201
    rows = [reserve(admin, "night", project) for project in ("default", "other")]
    done = busbar("run", "--reservation", "night", "--", "true")
    assert done.status == 4 and 'More than one reservation has the name "night".' in done.err, done
    for row in rows:
        assert f"{row['id']}  night  {row['project']}  {row['pool']}" in done.err, done
