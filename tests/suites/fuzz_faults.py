"""Faults that tests plant to show that each fuzz target finds errors of its kind.

A fault replaces one place of a source or header. Only the named sources are compiled with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from deploy.supervisor import ROOT

REMOTING = ROOT / "remoting"


@dataclass(frozen=True)
class Fault:
    file: str
    """Below `remoting`."""
    correct: str
    faulty: str = ""
    sources: tuple[str, ...] = ()
    """The sources that are compiled with a faulty header."""

    def text(self) -> str:
        """Return the faulty text of the file.

        Raises:
            ValueError: if the file has the place not exactly once.
        """
        text = (REMOTING / self.file).read_text()
        if text.count(self.correct) != 1:
            raise ValueError(f"{self.file} must have this once:\n{self.correct}")
        return text.replace(self.correct, self.faulty)

    def compiled(self) -> set[Path]:
        """Return the sources that have the fault."""
        return {REMOTING / name for name in self.sources or (self.file,)}


FAULTS = {
    "ptx": {
        "text behind the last quote": Fault(
            "softgpu/ptx/lexer.cc",
            """while (at < text.size() && text[at] != '"') {""",
            """while (text[at] != '"') {""",
        ),
    },
    "records": {
        "bytes behind the record": Fault(
            "wire/decode.h",
            "    if (left_ < n) {\n      fail();\n      return nullptr;\n    }\n    const uint8_t*",
            "    const uint8_t*",
            sources=("server/copy.cc",),
        ),
    },
    "frames": {
        "bytes beyond the transfer": Fault(
            "client/link_frames.cc",
            " || offset > it->second.bytes || bytes > it->second.bytes - offset",
        ),
    },
    "images": {
        "section behind the file": Fault(
            "images/elf.cc",
            "  for (auto& s : all)\n"
            "    if (has_bytes(s) && !inside(file, s.sh_offset, s.sh_size)) return false;\n",
        ),
    },
    "ring": {
        "record below a header": Fault(
            "transport/ring_reader.cc", "record < sizeof(wire::RecordHeader) || "
        ),
    },
    "control": {
        "body larger than the room": Fault("control/messages.cc", "h.body_bytes <= room && "),
        "cut request to the spawner": Fault(
            "spawner/requests.cc", " && !(m.msg_flags & (MSG_TRUNC | MSG_CTRUNC))"
        ),
        "charge over the limit": Fault(
            "launcher/ledger.cc",
            "  if (bytes <= room(partition, contexts(partition))) return true;\n"
            "  end_dead_sessions();\n",
            "  return true;\n",
        ),
        "text behind the reply": Fault(
            "softgpu/jit/messages.h",
            "if (bad || bytes.size() - at < n) {",
            "if (bad) {",
            sources=("softgpu/jit/messages.cc",),
        ),
    },
    "ticket": {
        "partitions behind the ticket": Fault(
            "launcher/ticket.cc", "  if (n != signed_bytes + kSignatureBytes) return false;\n"
        ),
    },
    "connections": {
        "ticket over the limit": Fault(
            "launcher/first_bytes.cc", " ||\n      head.bytes > wire::kMaxTicketBytes"
        ),
        "bytes of TLS": Fault(
            "launcher/first_bytes.cc",
            "sizeof head + head.bytes - bytes.size()",
            "sizeof head + head.bytes + 1 - bytes.size()",
        ),
        "short request for a bulk connection": Fault(
            "launcher/first_bytes.cc",
            "      if (head.bytes != sizeof first.bulk) return std::nullopt;\n",
        ),
    },
    "session_replies": {
        "description longer than the reply": Fault(
            "launcher/session_start.cc",
            " &&\n      h.body_bytes == offsetof(control::SessionReady, description)"
            " + ready->bytes",
        ),
    },
    "bulk": {
        "gap in a transfer": Fault(
            "server/bulk_transfers.cc", "bool in_order = offset == in.bytes", "bool in_order = true"
        ),
        "chunk at another offset": Fault(
            "client/link_bulk.cc",
            "deliver_transfer(h.transfer, h.offset + at,",
            "deliver_transfer(h.transfer, at,",
        ),
    },
}
