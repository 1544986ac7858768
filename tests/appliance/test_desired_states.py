"""Desired states on their way to the gateway: none is lost, and few writes are queued for them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any
from uuid import UUID

import pytest
from django.db import DatabaseError
from django.db.models import F

from appliance.db.writer import commit_batch, run_in_transaction
from appliance.fleet import desired_state
from appliance.fleet.desired_state import MAX_STATES_PER_WRITE, DesiredStateSender
from appliance.inventory.generations import all_generations
from appliance.inventory.models import Node
from appliance.ipc.frames import Frame
from nodes.protocol import fleet_pb2

pytestmark = pytest.mark.django_db
AddNode = Callable[..., Node]


class HeldWriter:
    """A writer that runs a queued write when a test calls `build`.

    The write commits when the test calls the function that `build` returns.
    """

    def __init__(self) -> None:
        self.queue: list[tuple[Callable[[], Any], Future[Any]]] = []
        self.longest = 0

    def submit(self, work: Callable[[], Any], *, must: bool) -> Future[Any]:
        self.queue.append((work, Future()))
        self.longest = max(self.longest, len(self.queue))
        return self.queue[-1][1]

    def build(self) -> Callable[[], None]:
        """Run the first write; return a function that commits it."""
        work, write = self.queue.pop(0)
        result = run_in_transaction(work)
        return lambda: write.set_result(result)

    def run_all(self) -> None:
        while self.queue:
            self.build()()


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> HeldWriter:
    held = HeldWriter()
    monkeypatch.setattr(desired_state, "submit_write", held.submit)
    return held


class Sent(list[tuple[UUID, int]]):
    """Nodes and generations of the sent desired states."""

    def add(self, frame: Frame) -> None:
        generation = fleet_pb2.DesiredState.FromString(frame.body).generation
        self.append((UUID(bytes=frame.node), generation))


def change(sender: DesiredStateSender, *nodes: Node) -> None:
    """Change the desired states one after the other, as the change log announces them."""
    for node in nodes:
        Node.objects.filter(pk=node.pk).update(generation=F("generation") + 1)
        sender.send_changed(node.pk)


def sender_to(sent: Sent, writer: HeldWriter, *nodes: Node) -> DesiredStateSender:
    """Return a sender that has sent the first desired states of these nodes."""
    sender = DesiredStateSender(sent.add)
    for node in nodes:
        sender.begin(node.pk)
    writer.run_all()
    assert sorted(sent) == sorted((node.pk, node.generation) for node in nodes)
    sent.clear()
    return sender


def test_many_nodes_that_change_at_once_are_all_served_by_one_queued_write_at_a_time(
    writer: HeldWriter,
) -> None:
    nodes = Node.objects.bulk_create([Node(name=f"node{n}") for n in range(300)])
    sent = Sent()
    sender = sender_to(sent, writer, *nodes)
    change(sender, *nodes)
    while writer.queue:
        before = len(sent)
        writer.build()()
        assert len(sent) - before <= MAX_STATES_PER_WRITE
    assert writer.longest == 1
    assert sorted(sent) == sorted((node.pk, node.generation + 1) for node in nodes)


def test_changes_of_a_node_while_a_write_is_queued_make_one_desired_state(
    add_node: AddNode, writer: HeldWriter
) -> None:
    node, sent = add_node(), Sent()
    sender = sender_to(sent, writer, node)
    for _ in range(3):
        change(sender, node)
    writer.run_all()
    assert sent == [(node.pk, node.generation + 3)]


def test_change_while_the_desired_state_is_built_is_sent_after_it(
    add_node: AddNode, writer: HeldWriter
) -> None:
    node, sent = add_node(), Sent()
    sender = sender_to(sent, writer, node)
    change(sender, node)
    commit = writer.build()
    change(sender, node)
    commit()
    writer.run_all()
    assert sent == [(node.pk, node.generation + 1), (node.pk, node.generation + 2)]


def test_desired_state_of_a_transaction_that_was_rolled_back_is_not_sent_but_built_again(
    add_node: AddNode, writer: HeldWriter
) -> None:
    """Its generation may come again with other grants."""
    node, sent = add_node(), Sent()
    sender = sender_to(sent, writer, node)
    change(sender, node)
    work, write = writer.queue.pop()
    work()
    write.set_exception(OSError("the commit failed"))
    assert not sent and not writer.queue
    sender.compare(all_generations())
    writer.run_all()
    assert sent == [(node.pk, node.generation + 1)]


def test_desired_state_that_was_sent_is_not_built_again(
    add_node: AddNode, writer: HeldWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, sent = add_node(), Sent()
    built: list[UUID] = []
    sender = sender_to(sent, writer, node)
    read_by_a_poll = all_generations()
    change(sender, node)
    writer.run_all()
    monkeypatch.setattr(desired_state, "build_desired_state", built.append)
    sender.compare(all_generations())
    assert not writer.queue
    sender.compare(read_by_a_poll)
    writer.run_all()
    assert not built


def test_sent_generation_that_comes_again_after_lost_commits_is_sent(
    add_node: AddNode, writer: HeldWriter
) -> None:
    """The database lost the commit, and no poll saw the lower generation."""
    node, sent = add_node(), Sent()
    sender = sender_to(sent, writer, node)
    Node.objects.filter(pk=node.pk).update(generation=node.generation - 1)
    change(sender, node)
    writer.run_all()
    assert sent == [(node.pk, node.generation)]


def test_error_of_a_write_or_of_the_connection_stops_no_later_desired_state(
    add_node: AddNode, writer: HeldWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good, sent = add_node("bad"), add_node("good"), Sent()
    failing = [bad.pk.bytes]

    def send(frame: Frame) -> None:
        if frame.node in failing:
            raise ValueError("a state cannot be sent")
        sent.add(frame)

    sender = DesiredStateSender(send)
    monkeypatch.setattr(desired_state, "submit_write", None)
    with pytest.raises(TypeError):
        sender.begin(bad.pk)
    monkeypatch.setattr(desired_state, "submit_write", writer.submit)
    sender.begin(good.pk)
    writer.run_all()
    assert sent == [(good.pk, good.generation)]
    failing.clear()
    sender.compare(all_generations())
    writer.run_all()
    assert sent[1:] == [(bad.pk, bad.generation)]


def test_failed_write_is_logged_and_what_waits_is_sent(
    add_node: AddNode, writer: HeldWriter, caplog: pytest.LogCaptureFixture
) -> None:
    first, second, sent = add_node("first"), add_node("second"), Sent()
    sender = DesiredStateSender(sent.add)
    sender.begin(first.pk)
    sender.begin(second.pk)
    writer.queue.pop()[1].set_exception(OSError("the commit failed"))
    writer.run_all()
    assert sent == [(second.pk, second.generation)]
    assert "the commit failed" in caplog.text


def test_nothing_is_built_for_an_ended_connection(add_node: AddNode, writer: HeldWriter) -> None:
    first, second, sent = add_node("first"), add_node("second"), Sent()
    sender = DesiredStateSender(sent.add)
    sender.begin(first.pk)
    sender.begin(second.pk)
    commit = writer.build()
    sender.close()
    commit()
    change(sender, first, second)
    assert not writer.queue and not sent


def test_desired_state_that_cannot_be_built_delays_no_other_and_is_built_later(
    add_node: AddNode, writer: HeldWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good, sent = add_node("bad"), add_node("good"), Sent()
    sender = sender_to(sent, writer, bad, good)
    build = desired_state.build_desired_state

    def fail_for_one(node_id: UUID) -> fleet_pb2.DesiredState:
        if node_id == bad.pk:
            raise ValueError("a row cannot be read")
        return build(node_id)

    monkeypatch.setattr(desired_state, "build_desired_state", fail_for_one)
    change(sender, bad, good)
    batch = [writer.queue.pop()]
    assert commit_batch(batch), "other writes of the transaction are not repeated"
    writer.queue = batch
    writer.run_all()
    assert sent == [(good.pk, good.generation + 1)]
    monkeypatch.undo()
    monkeypatch.setattr(desired_state, "submit_write", writer.submit)
    sender.compare(all_generations())
    writer.run_all()
    assert sent[1:] == [(bad.pk, bad.generation + 1)]


def test_rows_that_cannot_be_read_are_read_at_each_poll_and_logged_once(
    add_node: AddNode,
    writer: HeldWriter,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    bad, sent = add_node("bad"), Sent()
    sender = sender_to(sent, writer, bad)
    read: list[UUID] = []

    def fail(node_id: UUID) -> fleet_pb2.DesiredState:
        read.append(node_id)
        raise DatabaseError("database disk image is malformed")

    monkeypatch.setattr(desired_state, "build_desired_state", fail)
    change(sender, bad)
    writer.run_all()
    for _ in range(3):
        sender.compare(all_generations())
        writer.run_all()
    assert len(read) == 4 and not sent
    assert caplog.text.count("reading of desired state failed") == 1


def test_stream_that_begins_while_the_state_is_sent_to_the_one_before_gets_it(
    add_node: AddNode, writer: HeldWriter
) -> None:
    """A state that the gateway has read before the stream began went to the one before."""
    node, sent = add_node(), Sent()

    def send(frame: Frame) -> None:
        sent.add(frame)
        if len(sent) == 1:
            sender.begin(node.pk)

    sender = DesiredStateSender(send)
    sender.begin(node.pk)
    writer.run_all()
    assert sent == [(node.pk, node.generation)] * 2


def test_node_without_a_stream_causes_no_write(add_node: AddNode, writer: HeldWriter) -> None:
    node, sent = add_node(), Sent()
    sender = DesiredStateSender(sent.add)
    change(sender, node)
    sender.compare(all_generations())
    assert not writer.queue
