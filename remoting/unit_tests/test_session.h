// A session over a driver without a GPU, whose client end is in the test.
#pragma once
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "fuzz/own_launcher.h"
#include "fuzz/stub_driver.h"
#include "server/session.h"

namespace busbar::server {

// A folder that is removed with its files.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    char name[] = "/tmp/busbar-unit-XXXXXX";
    path_ = mkdtemp(name);
  }
  ~TemporaryFolder() {
    unlink(ledger().c_str());
    rmdir(path_.c_str());
  }
  const std::string& path() const { return path_; }
  std::string ledger() const { return path_ + "/ledger"; }

 private:
  std::string path_;
};

struct ReceivedFrame {
  wire::Frame kind;
  std::vector<uint8_t> body;
  template <typename T>
  T field(size_t offset) const {
    T v;
    std::memcpy(&v, body.data() + offset, sizeof v);
    return v;
  }
  // Of a completion.
  uint32_t stream() const { return field<uint32_t>(0); }
  uint32_t error() const { return field<uint32_t>(4); }
  uint64_t position() const { return field<uint64_t>(8); }
};

class TestSession {
 public:
  static constexpr uint64_t kLimitBytes = 1 << 30;
  TestSession() {
    fuzz::g_failures = 0;
    fuzz::OwnLauncher(folder_.path(), {kLimitBytes}).connect(account);
    int fd = -1;
    client = transport::SharedMemory::create(fd);
    // The link lives as long as the process: a thread of it watches the connection.
    link = new Link(-1, transport::SharedMemory::attach(fd));
    close(fd);
    session = std::make_unique<Session>(cu, *link, pinned, bulk, account,
                                        std::vector<DeviceState>{{0, 0, {}}}, "");
    session->charged_contexts = 1;
  }

  // Returns a buffer that counts for no stream of a test.
  PinnedBuffer staging(uint64_t bytes) {
    bool needs_slab = false;
    if (pinned.unused()) pinned.grow();
    return pinned.acquire(bytes, std::make_shared<StreamUse>(), needs_slab);
  }

  // Removes and returns the frames that the client has received. Another thread may be sending one:
  // its first bytes stay for the next call.
  std::vector<ReceivedFrame> frames() {
    std::vector<uint8_t> bytes;
    client->read(bytes, 1 << 20);
    received_.insert(received_.end(), bytes.begin(), bytes.end());
    std::vector<ReceivedFrame> list;
    size_t at = 0;
    for (wire::FrameHeader h; received_.size() - at >= sizeof h; at += sizeof h + h.bytes) {
      std::memcpy(&h, received_.data() + at, sizeof h);
      if (received_.size() - at - sizeof h < h.bytes) break;
      auto body = received_.begin() + (ptrdiff_t)(at + sizeof h);
      list.push_back({(wire::Frame)h.kind, {body, body + (ptrdiff_t)h.bytes}});
    }
    received_.erase(received_.begin(), received_.begin() + (ptrdiff_t)at);
    return list;
  }

  // The positions of the completions among them.
  std::vector<uint64_t> completed_positions() {
    std::vector<uint64_t> positions;
    for (auto& f : frames())
      if (f.kind == wire::Frame::completion) positions.push_back(f.position());
    return positions;
  }

 private:
  TemporaryFolder folder_;
  std::vector<uint8_t> received_;  // the beginning of a frame

 public:
  Driver cu = fuzz::stub_driver();
  PinnedPool pinned{cu};
  BulkTransfers bulk{pinned, [] {}};
  Account account{{kLimitBytes}};
  std::unique_ptr<transport::SharedMemory> client;
  Link* link = nullptr;
  std::unique_ptr<Session> session;
};

}  // namespace busbar::server
