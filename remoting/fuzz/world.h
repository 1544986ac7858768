// The environment of a session server without a client: a stub driver, an account, and shared
// memory whose frames are discarded.
#pragma once
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "fuzz/own_launcher.h"
#include "fuzz/stub_driver.h"
#include "server/executor.h"
#include "wire/format.h"

namespace busbar::fuzz {

using namespace busbar::server;

struct World {
  Driver cu = fuzz::stub_driver();
  Account account{{1 << 30, 1 << 20}};
  std::unique_ptr<transport::SharedMemory> client;
  Link* link = nullptr;
  PinnedPool pinned{cu};
  World() {
    char folder[] = "/tmp/busbar-fuzz-XXXXXX";
    OwnLauncher launcher(mkdtemp(folder), {1 << 30, 1 << 20});
    launcher.connect(account);
    unlink((std::string(folder) + "/ledger").c_str());
    rmdir(folder);
    int fd = -1;
    client = transport::SharedMemory::create(fd);
    link = new Link(-1, transport::SharedMemory::attach(fd));
    close(fd);
    // Discards frames and chunks, as a client would consume them.
    std::thread([this] {
      std::vector<uint8_t> frames;
      for (;; frames.clear()) {
        client->read(frames, 1 << 20);
        for (uint32_t i = 0; i < transport::kSharedChunks; ++i) client->release_chunk(false, i);
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
    }).detach();
  }
  // Releases what a session has charged and not released.
  void release_charges(const Session& session) {
    for (auto& d : session.devices) account.release(d.partition, account.charged_here(d.partition));
    account.wait_until_answered();
  }
};

// The bulk transfers of one session. There is no connection, so every wait for bytes ends at once.
struct Bulk : BulkTransfers {
  explicit Bulk(PinnedPool& pool) : BulkTransfers(pool, [] {}) { close(); }
};

// Creates a context with two streams and an event, as programs do at their start.
inline void begin(Executor& executor, Session& session) {
  session.charged_contexts = 3;
  auto submit = [&](wire::Op op, std::initializer_list<uint32_t> words) {
    std::vector<uint8_t> r(sizeof(wire::RecordHeader) + ((words.size() * 4 + 15) & ~15u));
    wire::RecordHeader h{(uint32_t)r.size(), (uint16_t)op, 0, 1, 0};
    std::memcpy(r.data(), &h, sizeof h);
    std::memcpy(r.data() + sizeof h, words.begin(), words.size() * 4);
    uint64_t used;
    executor.process(r.data(), r.size(), used);
  };
  submit(wire::Op::create_context, {1, 0, 1, 0, wire::kFirstStream + 1});
  submit(wire::Op::create_stream, {wire::kFirstStream + 2, 0, 0});
  submit(wire::Op::create_stream, {wire::kFirstStream + 3, 1, 0});
  submit(wire::Op::create_event, {7, 0});
}

}  // namespace busbar::fuzz
