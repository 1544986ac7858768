"""A client of debugpy's adapter, as VS Code's debugger for Python is (Debug Adapter Protocol)."""

from __future__ import annotations

import json
import os
import select
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.packages.accounts import Account
from tests.remoting.node import EVENT_SECONDS

Message = dict[str, Any]


class Debugger:
    """A debugging session of one program of a user. `python` runs the adapter."""

    def __init__(self, user: Account, python: str) -> None:
        self._user, self._sent = user, 0
        self._received = b""
        self._events: list[Message] = []
        self._terminals: list[subprocess.Popen[str]] = []
        self._adapter = subprocess.Popen(
            user.command(f"exec {python} -m debugpy.adapter", network=True),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def _send(self, kind: str, **content: Any) -> int:
        self._sent += 1
        body = json.dumps({"seq": self._sent, "type": kind, **content}).encode()
        assert self._adapter.stdin
        self._adapter.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self._adapter.stdin.flush()
        return self._sent

    def _receive(self) -> Message:
        while b"\r\n\r\n" not in self._received:
            self._read()
        header, _, self._received = self._received.partition(b"\r\n\r\n")
        fields = dict(line.lower().split(b":", 1) for line in header.splitlines())
        length = int(fields[b"content-length"])
        while len(self._received) < length:
            self._read()
        message: Message = json.loads(self._received[:length])
        self._received = self._received[length:]
        return message

    def _read(self) -> None:
        stream = self._adapter.stdout
        assert stream
        assert select.select([stream], [], [], EVENT_SECONDS)[0], "the adapter sends nothing"
        received = os.read(stream.fileno(), 65536)
        assert received, "the adapter has ended"
        self._received += received

    def _next(self) -> Message:
        """Return the next message; run what the adapter wants to run in a terminal."""
        message = self._receive()
        if message["type"] == "request":
            assert message["command"] == "runInTerminal", message
            self._open_terminal(message["arguments"])
            answer = {"request_seq": message["seq"], "command": "runInTerminal"}
            self._send("response", success=True, body={}, **answer)
            return self._next()
        return message

    def _open_terminal(self, wanted: Message) -> None:
        line = f"cd {wanted['cwd']} && exec {shlex.join(wanted['args'])}"
        self._terminals.append(self._user.start(line, **wanted["env"]))

    def start(self, command: str, **arguments: Any) -> int:
        return self._send("request", command=command, arguments=arguments)

    def request(self, command: str, **arguments: Any) -> Message:
        """Send a request and return the body of its successful response."""
        return self.response(self.start(command, **arguments))

    def response(self, number: int) -> Message:
        """Return the body of the successful response to a request."""
        while (message := self._next()).get("request_seq") != number:
            self._keep(message)
        assert message["success"], message
        body: Message = message.get("body", {})
        return body

    def _keep(self, message: Message) -> None:
        """Keep an event for `event`. A failed request of the session ends the test."""
        assert message.get("success", True), message
        self._events.append(message)

    def event(self, name: str) -> Message:
        """Return the body of the first event of a name that was not returned yet."""
        while not (found := [e for e in self._events if e.get("event") == name]):
            self._keep(self._next())
        self._events.remove(found[0])
        body: Message = found[0].get("body", {})
        return body

    def run_to(self, configuration: Message, line: int) -> int:
        """Start a program and stop before a line of it. Return the frame there."""
        self.request("initialize", adapterID="python", supportsRunInTerminalRequest=True)
        launched = self.start("launch", **configuration)
        self.event("initialized")
        source = {"path": configuration["program"]}
        self.request("setBreakpoints", source=source, breakpoints=[{"line": line}])
        self.start("configurationDone")
        self.response(launched)
        thread = self.event("stopped")["threadId"]
        return int(self.request("stackTrace", threadId=thread)["stackFrames"][0]["id"])

    def value_of(self, expression: str, frame: int) -> str:
        return str(self.request("evaluate", expression=expression, frameId=frame)["result"])

    def close(self) -> None:
        self._adapter.kill()
        self._adapter.communicate()
        for process in self._terminals:
            process.kill()
            process.communicate()


@contextmanager
def debugger(user: Account, python: str = "/usr/bin/python3") -> Iterator[Debugger]:
    found = Debugger(user, python)
    try:
        yield found
    finally:
        found.close()
