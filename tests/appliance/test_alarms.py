"""Alarms: what raises each kind of condition, where definitions hold, and when alarms clear."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from appliance.accounts.models import User
from appliance.activity.events import emit
from appliance.activity.models import Event
from appliance.alarms import evaluator as evaluation
from appliance.alarms.builtin import DEFINITIONS, ensure_builtin_definitions
from appliance.alarms.evaluator import Evaluator
from appliance.alarms.models import Alarm, AlarmDefinition
from appliance.allocations import idleness, scheduler
from appliance.allocations.models import Allocation, AllocationState
from appliance.db.change_log import NO_ID
from appliance.db.writer import write_transaction
from appliance.fleet.models import NodeCertificate
from appliance.inventory.models import Gpu, Node, NodeState, Site
from appliance.pools.models import Pool
from appliance.runtime import disk_space
from appliance.telemetry import reachability, series
from nodes.protocol.metrics import METRICS
from tests.appliance.conftest import Cast, applied, body

Clients = Callable[[User | None], Any]
AddNode = Callable[..., Node]
pytestmark = pytest.mark.django_db(databases=list(settings.DATABASES))
NAMES = tuple(m.name for m in METRICS)


class Clock:
    seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def evaluator(clock: Clock) -> Evaluator:
    return Evaluator(clock)


@pytest.fixture(autouse=True)
def no_samples(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(series, "_latest", {})
    yield


def define(**values: Any) -> AlarmDefinition:
    common: dict[str, Any] = {"name": "a", "severity": "warning", "clear_after_seconds": 0}
    return AlarmDefinition.objects.create(**common | values)


def sample(gpu: Gpu, seconds: float = 1.0, **values: float) -> None:
    series.record(NAMES, {gpu.pk: [values.get(n, float("nan")) for n in NAMES]}, seconds)


def raised(evaluator: Evaluator) -> list[str]:
    """Evaluate and return the names of the objects with an open alarm."""
    evaluator.evaluate()
    return sorted(Alarm.objects.open().values_list("object_name", flat=True))


def add_allocation(cast: Cast, client_of: Clients, node: Node, **request: Any) -> Allocation:
    content = {"percent": 10, "name": "train", **request}
    made = client_of(cast.alice).post("/api/v1/allocations", content, format="json")
    scheduler.run_tick()
    applied(node)
    return Allocation.objects.get(pk=body(made)["id"])


def set_node(node: Node, **values: Any) -> None:
    Node.objects.filter(pk=node.pk).update(**values)


@pytest.mark.parametrize(
    ("state", "change"),
    [
        ("cordoned", {"state": NodeState.CORDONED}),
        ("maintenance", {"state": NodeState.MAINTENANCE}),
        ("draining", {"state": NodeState.DRAINING}),
        ("not_applied", {"generation": 9, "applied_generation": 8}),
    ],
)
def test_state_of_a_node_raises_and_clears(
    add_node: AddNode, cast: Cast, evaluator: Evaluator, state: str, change: dict[str, Any]
) -> None:
    node = add_node(name="n1")
    add_node(name="n2")
    define(object_kind="node", condition="state", states=[state])
    Node.objects.update(generation=1, applied_generation=1)
    assert raised(evaluator) == []
    set_node(node, **change)
    assert raised(evaluator) == ["n1"]
    set_node(node, state=NodeState.READY, generation=1, applied_generation=1)
    assert raised(evaluator) == []


def test_locked_node_raises_with_the_reason(
    add_node: AddNode, cast: Cast, evaluator: Evaluator
) -> None:
    define(object_kind="node", condition="state", states=["locked"])
    set_node(add_node(name="n1"), locked_at=timezone.now(), lock_reason="two agents")
    assert raised(evaluator) == ["n1"]
    assert Alarm.objects.get().message == "Node n1 is locked: two agents"


def test_unreachable_node_is_found_by_its_heartbeats(
    add_node: AddNode, cast: Cast, evaluator: Evaluator
) -> None:
    define(object_kind="node", condition="state", states=["unreachable"])
    node, other = add_node(name="n1"), add_node(name="n2")
    reachability.record_heartbeat(node.pk)
    reachability.record_heartbeat(other.pk)
    assert raised(evaluator) == []
    reachability.forget_node(node.pk)
    assert raised(evaluator) == ["n1"]
    reachability.record_heartbeat(node.pk)
    assert raised(evaluator) == []


@pytest.mark.parametrize(
    ("state", "change"),
    [("missing", {"present": False}), ("held", {"held": True}), ("mig", {"mig": True})],
)
def test_state_of_a_gpu_raises(
    add_node: AddNode, cast: Cast, evaluator: Evaluator, state: str, change: dict[str, Any]
) -> None:
    node = add_node(name="n1", gpus=2)
    define(object_kind="gpu", condition="state", states=[state])
    assert raised(evaluator) == []
    Gpu.objects.filter(node=node, index=1).update(**change)
    assert raised(evaluator) == ["n1/1"]
    alarm = Alarm.objects.get()
    assert (alarm.node_id, alarm.object_kind) == (node.pk, "gpu")


@pytest.mark.parametrize(
    ("state", "free", "expected"),
    [
        ("disk_low", 500.0, ["appliance"]),
        ("disk_full", 500.0, []),
        ("disk_full", 10.0, ["appliance"]),
        ("disk_low", 1e6, []),
    ],
)
def test_disk_of_the_appliance_raises(
    db: None,
    evaluator: Evaluator,
    monkeypatch: pytest.MonkeyPatch,
    state: str,
    free: float,
    expected: list[str],
) -> None:
    monkeypatch.setattr(disk_space, "free_mib", lambda: free)
    define(object_kind="appliance", condition="state", states=[state])
    assert raised(evaluator) == expected


def test_metric_raises_after_its_window_and_clears_below_the_second_threshold(
    add_node: AddNode, cast: Cast, evaluator: Evaluator, clock: Clock
) -> None:
    gpu = Gpu.objects.get(node=add_node(name="n1"))
    reachability.record_heartbeat(gpu.node_id)
    define(
        object_kind="gpu",
        condition="metric",
        metric="temperature_celsius",
        threshold=85,
        clear_threshold=80,
        raise_after_seconds=60,
        clear_after_seconds=30,
    )
    steps = [
        (0, 90, []),  # beyond the threshold, not long enough
        (59, 86, []),
        (1, 90, ["n1/0"]),
        (10, 83, ["n1/0"]),  # between the thresholds: stays
        (100, 83, ["n1/0"]),
        (1, 79, ["n1/0"]),  # below both, not long enough
        (29, 81, ["n1/0"]),  # begins anew
        (1, 70, ["n1/0"]),
        (30, 70, []),
        (100, 83, []),  # between the thresholds: does not raise
        (60, 83, []),
    ]
    for at, (seconds, value, expected) in enumerate(steps):
        clock.seconds += seconds
        sample(gpu, at + 1.0, temperature_celsius=value)
        assert raised(evaluator) == expected, (at, value)
    assert Alarm.objects.count() == 1


def test_interrupted_condition_begins_its_window_anew(
    add_node: AddNode, cast: Cast, evaluator: Evaluator, clock: Clock
) -> None:
    node = add_node(name="n1")
    define(object_kind="node", condition="state", states=["cordoned"], raise_after_seconds=60)
    for state, seconds, expected in (
        (NodeState.CORDONED, 0, []),
        (NodeState.READY, 50, []),
        (NodeState.CORDONED, 1, []),
        (NodeState.CORDONED, 59, []),
        (NodeState.CORDONED, 1, ["n1"]),
    ):
        clock.seconds += seconds
        set_node(node, state=state)
        assert raised(evaluator) == expected


def test_metric_below_and_values_that_are_missing(
    add_node: AddNode, cast: Cast, evaluator: Evaluator
) -> None:
    low, unknown = Gpu.objects.filter(node=add_node(name="n1", gpus=2)).order_by("index")
    reachability.record_heartbeat(low.node_id)
    define(
        object_kind="gpu", condition="metric", metric="fan_percent", comparison="below", threshold=5
    )
    sample(low, fan_percent=1)
    sample(unknown, power_watts=1)
    assert raised(evaluator) == ["n1/0"]
    assert Alarm.objects.get().message == "GPU n1/0: fan_percent is 1 percent, below 5 percent."


def test_old_values_of_an_unreachable_node_raise_nothing_and_clear_nothing(
    add_node: AddNode, cast: Cast, evaluator: Evaluator
) -> None:
    hot, hotter = (Gpu.objects.get(node=add_node(name=name)) for name in ("n1", "n2"))
    define(object_kind="gpu", condition="metric", metric="power_watts", threshold=100)
    reachability.record_heartbeat(hot.node_id)
    sample(hot, power_watts=200)
    sample(hotter, power_watts=200)
    reachability.forget_node(hotter.node_id)
    assert raised(evaluator) == ["n1/0"]
    reachability.forget_node(hot.node_id)
    assert raised(evaluator) == ["n1/0"]


def test_without_a_reply_about_samples_alarms_stay(
    add_node: AddNode, cast: Cast, evaluator: Evaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = Gpu.objects.get(node=add_node(name="n1"))
    reachability.record_heartbeat(gpu.node_id)
    define(object_kind="gpu", condition="metric", metric="power_watts", threshold=100)
    sample(gpu, power_watts=200)
    assert raised(evaluator) == ["n1/0"]
    monkeypatch.setattr(series, "values_beyond", lambda *a, **k: None)
    assert raised(evaluator) == ["n1/0"]


@pytest.mark.parametrize(
    ("xid", "xid_class", "expected"),
    [
        (48, "memory", ["n1/0"]),
        (79, "memory", []),
        (79, "bus", ["n1/0"]),
        (13, "application", ["n1/0"]),
        (13, "engine", []),
        (999, "any", ["n1/0"]),
        (0, "any", []),
    ],
)
def test_xid_raises_by_its_class(
    add_node: AddNode,
    cast: Cast,
    evaluator: Evaluator,
    xid: int,
    xid_class: str,
    expected: list[str],
) -> None:
    gpu = Gpu.objects.get(node=add_node(name="n1"))
    define(object_kind="gpu", condition="xid", xid_class=xid_class)
    sample(gpu, xid=xid)
    assert raised(evaluator) == expected


def test_events_raise_by_their_number_within_the_window(
    add_node: AddNode, cast: Cast, evaluator: Evaluator
) -> None:
    node, other = add_node(name="n1"), add_node(name="n2")
    define(
        object_kind="node",
        condition="event",
        event_kind="node.unreachable",
        threshold=3,
        window_seconds=600,
    )

    @write_transaction
    def lose(lost: Node) -> Event:
        return emit("node.unreachable", path=lost.path, object_id=lost.pk, message="m")

    lose(node), lose(node), lose(other), lose(other)
    assert raised(evaluator) == []
    lose(node)
    assert raised(evaluator) == ["n1"]
    Event.objects.all().delete()
    assert raised(evaluator) == []


def test_events_of_all_objects_count_for_the_appliance(cast: Cast, evaluator: Evaluator) -> None:
    define(
        object_kind="appliance",
        condition="event",
        event_kind="allocation.evicting",
        threshold=2,
        window_seconds=600,
    )
    write_transaction(lambda: emit("allocation.evicting", path="x", message="m"))()
    assert raised(evaluator) == []
    write_transaction(lambda: emit("allocation.evicting", path="y", message="m"))()
    assert raised(evaluator) == ["appliance"]
    assert Alarm.objects.get().object_id == NO_ID


def test_certificate_that_was_not_renewed_raises(
    add_node: AddNode, cast: Cast, evaluator: Evaluator
) -> None:
    node = add_node(name="n1")
    define(object_kind="node", condition="certificate_age", threshold=7200)

    def certify(serial: str, hours: int) -> None:
        NodeCertificate.objects.create(
            serial=serial,
            node=node,
            purpose="agent",
            not_after=timezone.now() + timedelta(hours=hours),
        )

    certify("1", 3)
    assert raised(evaluator) == []
    NodeCertificate.objects.update(not_after=timezone.now() + timedelta(hours=1))
    assert raised(evaluator) == ["n1"]
    certify("2", 24)
    assert raised(evaluator) == []


def test_certificate_of_the_appliance_raises(cast: Cast, evaluator: Evaluator) -> None:
    definition = define(object_kind="appliance", condition="certificate_age", threshold=3600)
    assert raised(evaluator) == []
    definition.threshold = 50 * 365 * 86_400
    definition.save()
    assert raised(evaluator) == ["appliance"]


def test_long_wait_raises_for_the_queued_allocation(
    cast: Cast, client_of: Clients, add_node: AddNode, evaluator: Evaluator
) -> None:
    node = add_node()
    waiting = add_allocation(cast, client_of, node, gpu_count=8, allow_pending=True)
    define(object_kind="allocation", condition="queue_wait", threshold=3600)
    assert raised(evaluator) == []
    earlier = timezone.now() - timedelta(seconds=3700)
    Allocation.objects.filter(pk=waiting.pk).update(created_at=earlier)
    assert raised(evaluator) == ["train of alice"]
    assert Alarm.objects.get().project_id == waiting.project_id


def test_idle_allocation_raises_until_it_works(
    cast: Cast,
    client_of: Clients,
    add_node: AddNode,
    evaluator: Evaluator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    allocation = add_allocation(cast, client_of, add_node())
    assert allocation.state == AllocationState.ACTIVE
    define(object_kind="allocation", condition="idle_held", threshold=600)
    earlier = timezone.now() - timedelta(seconds=3600)
    Allocation.objects.filter(pk=allocation.pk).update(active_at=earlier)
    assert raised(evaluator) == []
    monkeypatch.setattr(idleness, "idle_seconds", lambda pk: 601.0)
    assert raised(evaluator) == ["train of alice"]
    monkeypatch.setattr(idleness, "idle_seconds", lambda pk: 1.0)
    assert raised(evaluator) == []


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("", ["n1/0", "n1/1", "n2/0"]),
        ("site", ["n1/0", "n1/1"]),
        ("node", ["n2/0"]),
        ("gpu", ["n1/1"]),
        ("pool", ["n1/0"]),
    ],
)
def test_definition_holds_at_its_place_and_below(
    add_node: AddNode, cast: Cast, evaluator: Evaluator, place: str, expected: list[str]
) -> None:
    first, second = add_node(name="n1", gpus=2), add_node(name="n2", gpus=1)
    site, pool = Site.objects.create(name="s"), Pool.objects.create(name="p")
    set_node(first, site=site)
    zero, one = Gpu.objects.filter(node=first).order_by("index")
    Gpu.objects.filter(pk=zero.pk).update(pool=pool)
    places = {"site": site, "node": second, "gpu": one, "pool": pool}
    where = {place: places[place]} if place else {}
    define(object_kind="gpu", condition="state", states=["mig"], **where)
    Gpu.objects.update(mig=True)
    assert raised(evaluator) == expected


def test_disabled_and_deleted_definitions_clear_their_alarms(
    add_node: AddNode, cast: Cast, evaluator: Evaluator
) -> None:
    set_node(add_node(name="n1"), state=NodeState.CORDONED)
    first = define(object_kind="node", condition="state", states=["cordoned"])
    second = define(name="b", object_kind="node", condition="state", states=["cordoned"])
    assert raised(evaluator) == ["n1", "n1"]
    AlarmDefinition.objects.filter(pk=first.pk).update(enabled=False)
    second.delete()
    assert raised(evaluator) == []
    assert {e.message for a in Alarm.objects.all() for e in a.history.filter(kind="cleared")} == {
        "The definition is disabled or deleted."
    }


def test_definition_that_fails_leaves_the_others_alone(
    add_node: AddNode,
    cast: Cast,
    evaluator: Evaluator,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    set_node(add_node(name="n1"), state=NodeState.CORDONED)
    define(name="a", object_kind="gpu", condition="metric", metric="power_watts", threshold=1)
    define(name="b", object_kind="node", condition="state", states=["cordoned"])

    def fail(definition: AlarmDefinition) -> Any:
        raise ValueError("planted")

    monkeypatch.setitem(evaluation.FIND, evaluation.Condition.METRIC, fail)
    assert raised(evaluator) == ["n1"]
    assert "alarms: definition a could not be evaluated" in caplog.text


def test_removed_node_clears_its_alarms(
    add_node: AddNode, cast: Cast, evaluator: Evaluator
) -> None:
    node = add_node(name="n1")
    set_node(node, state=NodeState.CORDONED)
    define(object_kind="node", condition="state", states=["cordoned"])
    assert raised(evaluator) == ["n1"]
    set_node(node, state=NodeState.REMOVED)
    assert raised(evaluator) == []


def test_queries_do_not_depend_on_the_number_of_objects(
    add_node: AddNode, cast: Cast, evaluator: Evaluator
) -> None:
    ensure_builtin_definitions()
    add_node(name="n0", gpus=1)
    counts = []
    for name in ("n1", "n2"):
        node = add_node(name=name, gpus=8)
        for gpu in Gpu.objects.filter(node=node):
            sample(gpu, temperature_celsius=40, xid=0)
        Node.objects.update(applied_generation=1, generation=1)
        for node_id in Node.objects.values_list("pk", flat=True):
            reachability.record_heartbeat(node_id)
        evaluator.evaluate()
        with CaptureQueriesContext(connection) as captured:
            evaluator.evaluate()
        counts.append(len(captured))
    assert counts[0] == counts[1] <= len(DEFINITIONS) + 2


def test_evaluation_reads_rows_of_new_alarms_only(
    add_node: AddNode, cast: Cast, evaluator: Evaluator
) -> None:
    node = add_node(name="n1", gpus=8)
    reachability.record_heartbeat(node.pk)
    define(object_kind="gpu", condition="metric", metric="temperature_celsius", threshold=85)
    gpus = list(Gpu.objects.filter(node=node).order_by("index"))
    for gpu in gpus[:7]:
        sample(gpu, temperature_celsius=90)
    assert len(raised(evaluator)) == 7
    read = []
    for _ in range(2):
        with CaptureQueriesContext(connection) as captured:
            evaluator.evaluate()
        read.append([q["sql"] for q in captured if '"inventory_gpu"."model"' in q["sql"]])
        sample(gpus[7], temperature_celsius=90)
    assert read[0] == []
    assert len(read[1]) == 1
    assert gpus[7].pk.hex in read[1][0] and gpus[0].pk.hex not in read[1][0]
