// Limits of what a client may send to a session server: at, over and far over each of them. Prints
// one line for each expectation. The exit code is 1 if one is wrong.
#include <sys/socket.h>

#include <algorithm>
#include <cstdio>
#include <functional>

#include "control/messages.h"
#include "fuzz/world.h"

using namespace busbar;
using namespace busbar::server;
using fuzz::World;

namespace {
int g_wrong = 0;
void expect(bool holds, const char* expectation) {
  std::printf("%s: %s\n", expectation, holds ? "ok" : "WRONG");
  g_wrong += !holds;
}

// Returns a record. Its header claims `claimed` bytes unless that is 0.
std::vector<uint8_t> record(wire::Op op, const std::vector<uint8_t>& payload,
                            uint32_t stream = wire::kFirstStream + 2, uint32_t claimed = 0) {
  std::vector<uint8_t> r(sizeof(wire::RecordHeader) + ((payload.size() + 15) & ~15ull));
  wire::RecordHeader h{claimed ? claimed : (uint32_t)r.size(), (uint16_t)op, 0, 1, stream};
  std::memcpy(r.data(), &h, sizeof h);
  std::copy(payload.begin(), payload.end(), r.begin() + sizeof h);
  return r;
}

template <typename... T>
std::vector<uint8_t> bytes_of(T... values) {
  std::vector<uint8_t> out;
  (out.insert(out.end(), (const uint8_t*)&values, (const uint8_t*)&values + sizeof values), ...);
  return out;
}

// Runs `body` in a new session. Its argument sends a record and returns false if it is malformed.
void in_session(
    const std::function<void(const std::function<bool(const std::vector<uint8_t>&)>&)>& body) {
  static auto* world = new World;
  fuzz::g_failures = 0;
  fuzz::g_calls = 0;
  fuzz::Bulk bulk(world->pinned);
  Session s(world->cu, *world->link, world->pinned, bulk, world->account, {{0, 0, {}}, {1, 1, {}}},
            "");
  {
    Executor executor(s);
    fuzz::begin(executor, s);
    body([&](const std::vector<uint8_t>& r) {
      uint64_t used;
      return executor.process(r.data(), r.size(), used);
    });
  }
  world->release_charges(s);
}

bool accepted(const std::vector<uint8_t>& r) {
  bool ok = false;
  in_session([&](auto& send) { ok = send(r); });
  return ok;
}

void record_size() {
  auto sized = [](uint32_t bytes) {
    return record(wire::Op::completion_fence,
                  std::vector<uint8_t>(bytes - sizeof(wire::RecordHeader)));
  };
  expect(accepted(sized(wire::kMaxRecordBytes)), "the largest record");
  expect(!accepted(sized(wire::kMaxRecordBytes + 16)), "a record 16 bytes larger");
  expect(!accepted(record(wire::Op::completion_fence, {}, wire::kFirstStream + 2, 0xfffffff0)),
         "a record of 4 GiB");
  expect(!accepted(
             record(wire::Op::completion_fence, bytes_of(0ull, 0ull), wire::kFirstStream + 2, 24)),
         "a record of 24 bytes");
}

void parts() {
  in_session([](auto& send) {
    auto part = record(wire::Op::part, std::vector<uint8_t>(wire::kPartBytes));
    uint64_t bytes = 0;
    for (; send(part); bytes += wire::kPartBytes) {
    }
    expect(bytes <= wire::kMaxPayloadBytes && bytes > wire::kMaxPayloadBytes - wire::kPartBytes,
           "the maximum of bytes in parts");
    expect(!send(part), "one part more");
  });
}

void inline_bytes() {
  auto copy = [](uint64_t bytes, uint64_t sent) {
    auto payload = bytes_of((uint64_t)0x10000, bytes, (uint64_t)0);
    payload.resize(payload.size() + sent);
    return record(wire::Op::copy_in, payload);
  };
  expect(accepted(copy(wire::kMaxInlineBytes, wire::kMaxInlineBytes)),
         "the maximum of inline bytes");
  expect(!accepted(copy(wire::kMaxInlineBytes + 1, wire::kMaxInlineBytes + 1)),
         "one inline byte more");
  expect(!accepted(copy(64, 32)), "more bytes than the record has");
  expect(!accepted(copy(~0ull, 64)), "2^64 bytes");
}

void handles() {
  in_session([](auto& send) {
    auto event = [](uint32_t id) {
      return record(wire::Op::create_event, bytes_of(id, 2u));
    };
    bool all = true;
    for (uint32_t i = 1; all && i < wire::kMaxObjects; ++i)
      all = send(event(100 + i));  // one exists already
    expect(all, "the maximum of events");
    expect(!send(event(50)), "one event more");
  });
  Objects<Charge> objects;
  for (uint64_t i = 1; i < wire::kMaxObjects; ++i) objects.add(ObjectKind::graph, i);
  expect(objects.add(ObjectKind::graph, wire::kMaxObjects), "the maximum of graphs");
  expect(!objects.add(ObjectKind::graph, wire::kMaxObjects + 1) &&
             !objects.add(ObjectKind::graph, ~0ull),
         "more graphs");
  expect(objects.add(ObjectKind::node, 1), "a node, which has a limit of its own");
}

void pending_work() {
  in_session([](auto& send) {
    auto late = record(wire::Op::copy_in, bytes_of((uint64_t)0x10000, (uint64_t)8192,
                                                   (uint64_t)77));  // its bytes never arrive
    uint64_t bytes = 0;
    auto large = record(wire::Op::completion_fence,
                        std::vector<uint8_t>(wire::kMaxRecordBytes - sizeof(wire::RecordHeader)));
    for (bool all = send(late); all; all = send(large)) bytes += large.size();
    expect(bytes <= wire::kMaxHeldBytes && bytes > wire::kMaxHeldBytes * 9 / 10,
           "the maximum of parked bytes");
    expect(!send(large), "one parked record more");
  });
}

void names() {
  auto name = [](uint32_t claimed, const std::string& text) {
    auto payload = bytes_of(claimed);
    payload.insert(payload.end(), text.begin(), text.end());
    return record(wire::Op::unsupported_call, payload);
  };
  expect(accepted(name(wire::kMaxCallNameBytes, std::string(wire::kMaxCallNameBytes, 'x'))),
         "the longest name of a call");
  expect(
      !accepted(name(wire::kMaxCallNameBytes + 1, std::string(wire::kMaxCallNameBytes + 1, 'x'))),
      "a longer name");
  expect(!accepted(name(0, "")) && !accepted(name(~0u, "cuInit")) && !accepted(name(6, "cu\nnit")),
         "no name, a name of 4 GiB, a line break in it");
  in_session([](auto& send) {
    bool all = true;
    for (int i = 0; all && i < 1000; ++i) {
      std::string n = "cuCall" + std::to_string(i);
      auto p = bytes_of((uint32_t)n.size());
      p.insert(p.end(), n.begin(), n.end());
      all = send(record(wire::Op::unsupported_call, p));
    }
    expect(all, "a thousand names, of which those that do not fit are left out");
  });
}

void control_messages() {
  auto received = [](uint32_t claimed, uint32_t room) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return false;
    control::Header h{claimed, (uint32_t)control::Kind::grants};
    std::vector<uint8_t> sent(sizeof h + std::min(claimed, 2 * room)), body(room);
    std::memcpy(sent.data(), &h, sizeof h);
    std::thread sender([&] {
      for (size_t at = 0; at < sent.size();) {
        ssize_t n = ::send(pair[0], sent.data() + at, sent.size() - at, MSG_NOSIGNAL);
        if (n <= 0) break;
        at += (size_t)n;
      }
    });
    bool ok = control::receive_message(pair[1], h, body.data(), room, nullptr);
    close(pair[1]);
    sender.join();
    close(pair[0]);
    return ok;
  };
  expect(received(control::kMaxMessageBytes, control::kMaxMessageBytes),
         "the largest control message");
  expect(!received(control::kMaxMessageBytes + 1, control::kMaxMessageBytes),
         "a control message one byte larger");
  expect(!received(~0u, control::kMaxMessageBytes), "a control message of 4 GiB");
}
}  // namespace

int main() {
  record_size();
  parts();
  inline_bytes();
  handles();
  pending_work();
  names();
  control_messages();
  return g_wrong != 0;
}
