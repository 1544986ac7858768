"""Seeds of the fuzz target `records`: sessions that launch executable graphs and change them.

The driver of the target makes handles of graphs and nodes of the kinds of nodes
(remoting/fuzz/stub_driver.h).
"""

from __future__ import annotations

from tests.suites.fuzz_record_steps import (
    BLOCKING,
    EVENT,
    INDEPENDENT,
    LEGACY,
    Steps,
    u32,
    u64,
)

# Graphs by the kinds of their nodes. An executable graph has the handle of its graph.
KERNEL, CHILD, WAIT, RECORD = 1 << 0, 1 << 4, 1 << 6, 1 << 7
CHILD_NODE, WAIT_NODE, RECORD_NODE = 5, 7, 8
OTHER_EVENT = 9


def graphs() -> dict[str, Steps]:
    """Return sessions that launch executable graphs and change them."""
    return {
        "change behind a parked launch": (
            Steps()
            .copy_in(BLOCKING, transfer=5)
            .launch_graph(BLOCKING, 1)
            .change_graph(1)
            .change_graph(1, "copy_node")
            .change_graph(2, "host_node")
            .change_graph(0)
            .row("kernel_node", u64(1))
            .launch_graph(INDEPENDENT, 1)
            .launch_graph(LEGACY, 2)
            .arrive(5, 0, 64)
            .change_graph(1)
        ),
        "change between launches": (
            Steps()
            .change_graph(1)
            .launch_graph(BLOCKING, 1)
            .change_graph(1)
            .copy_in(BLOCKING, transfer=5)
            .launch_graph(BLOCKING, 1)
            .copy_in(INDEPENDENT, transfer=6)
            .launch_graph(INDEPENDENT, 1)
            .arrive(5, 0, 64)
            .change_graph(1)
            .launch_graph(BLOCKING, 1)
            .arrive(6, 0, 64)
            .launch_graph(BLOCKING, 1)
        ),
        "launch without a graph": Steps()
        .launch_graph(BLOCKING, 0)
        .row("launch_graph", bytes(2), stream=BLOCKING),
        "many graphs": many_launches(),
    }


def many_launches() -> Steps:
    """Launch many graphs on a stream that waits, and again on another one."""
    many = Steps().copy_in(BLOCKING, transfer=5)
    for exec_ in range(1, 100):
        many.launch_graph(BLOCKING, exec_)
    many.arrive(5, 0, 64)
    for exec_ in range(1, 100):
        many.launch_graph(INDEPENDENT, exec_)
    return many


def executable(kinds: int) -> Steps:
    """Create an executable graph that records the event, waits for it, or both."""
    return (
        Steps()
        .row("create_event", u32(OTHER_EVENT, 0))
        .call("cuGraphCreate", u32(kinds))
        .call("cuGraphAddEventRecordNode", u64(kinds, 0) + u32(EVENT))
        .call("cuGraphAddEventWaitNode", u64(kinds, 0) + u32(EVENT))
        .call("cuGraphGetNodes", u64(kinds) + b"\1" + u64(8))
        .row("instantiate", u64(1, kinds, 0))
        .finish_posted()
    )


def change_events(exec_: int) -> Steps:
    """Make each call that can change the events of an executable graph."""
    return (
        Steps()
        .call("cuGraphExecEventRecordNodeSetEvent", u64(exec_, RECORD_NODE) + u32(OTHER_EVENT))
        .call("cuGraphExecEventWaitNodeSetEvent", u64(exec_, WAIT_NODE) + u32(OTHER_EVENT))
        .call("cuGraphExecUpdate_v2", u64(exec_, exec_))
        .call("cuGraphExecChildGraphNodeSetParams", u64(exec_, CHILD_NODE, exec_))
        .finish_posted()
    )


def parked_launches(name: str, kinds: int) -> dict[str, Steps]:
    return {
        f"parked launch {name}": (
            executable(kinds)
            .copy_in(BLOCKING, transfer=5)
            .record_event(BLOCKING)
            .launch_graph(INDEPENDENT, kinds)
            .launch_graph(BLOCKING, kinds)
            .wait_event(INDEPENDENT)
            .wait_event(LEGACY)
            .arrive(5, 0, 64)
            .launch_graph(BLOCKING, kinds)
            .wait_event(INDEPENDENT)
        ),
        f"launch {name} beside other work": (
            executable(kinds)
            .copy_in(BLOCKING, transfer=5)
            .launch_graph(INDEPENDENT, kinds)
            .wait_event(BLOCKING)
            .record_event(BLOCKING)
            .arrive(5, 0, 64)
        ),
    }


def changed_launches(name: str, kinds: int) -> dict[str, Steps]:
    return {
        f"changed events of a parked launch {name}": (
            executable(kinds)
            .copy_in(BLOCKING, transfer=5)
            .launch_graph(BLOCKING, kinds)
            .append(change_events(kinds))
            .copy_in(INDEPENDENT, transfer=6)
            .record_event(INDEPENDENT, OTHER_EVENT)
            .launch_graph(BLOCKING, kinds)
            .wait_event(LEGACY)
            .wait_event(LEGACY, OTHER_EVENT)
            .arrive(5, 0, 64)
            .append(change_events(kinds))
            .launch_graph(INDEPENDENT, kinds)
            .arrive(6, 0, 64)
            .wait_event(BLOCKING)
        ),
        f"ended event of a launch {name}": (
            executable(kinds)
            .append(change_events(kinds))
            .row("destroy_event", u32(EVENT))
            .row("destroy_event", u32(OTHER_EVENT))
            .launch_graph(BLOCKING, kinds)
            .copy_in(BLOCKING, transfer=5)
            .launch_graph(BLOCKING, kinds)
            .launch_graph(INDEPENDENT, kinds)
            .arrive(5, 0, 64)
        ),
    }


def many_event_graphs() -> Steps:
    """Launch more graphs than the server remembers, while changes wait for some of them."""
    session = executable(RECORD | WAIT).copy_in(INDEPENDENT, transfer=6)
    for round_ in range(3):
        session.copy_in(BLOCKING, transfer=5)
        for exec_ in range(40):
            session.launch_graph(BLOCKING, 1000 * round_ + exec_)
        session.launch_graph(INDEPENDENT, RECORD | WAIT)
        session.append(change_events(RECORD | WAIT)).wait_event(LEGACY).arrive(5, 0, 64)
    return session.arrive(6, 0, 64).launch_graph(BLOCKING, RECORD | WAIT)


def event_graphs() -> dict[str, Steps]:
    """Return sessions with executable graphs that record events or wait for them."""
    sessions = {"many graphs with events": many_event_graphs()}
    for name, kinds in {
        "that records": RECORD,
        "that waits": WAIT,
        "that records and waits": RECORD | WAIT,
        "with a child graph": CHILD,
        "without events": KERNEL,
    }.items():
        sessions |= parked_launches(name, kinds) | changed_launches(name, kinds)
    return sessions
