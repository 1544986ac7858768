// The bulk connection of a link: large host data in both directions. It opens on first use.
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "client/link.h"
#include "client/sigpipe_guard.h"
#include "transport/clock.h"
#include "transport/futex.h"
#include "transport/session_keys.h"
#include "transport/tcp.h"

namespace busbar::client {

using transport::Tls;

namespace {
constexpr int kConnectMs = 5000, kHandshakeMs = 15'000, kReadyMs = 1000;
// For the bulk connection in total: as long as TCP keeps a connection whose network is away.
constexpr int kOpenMs = 105'000, kRetryMs = 100;
// Bytes that are received before they are delivered: few enough to stay in the cache.
constexpr size_t kPartBytes = 128 << 10;

// Sends the preamble and the proof that this client holds the key of the session.
bool send_preamble(int fd, const uint8_t (&session_id)[16], uint64_t counter,
                   const transport::Secret& session_key) {
  struct {
    wire::Preamble preamble;
    wire::BulkRequest request;
  } message{{{}, (uint32_t)wire::Purpose::bulk, sizeof(wire::BulkRequest)}, {{}, counter, {}}};
  std::memcpy(message.preamble.magic, wire::kMagic, sizeof message.preamble.magic);
  std::memcpy(message.request.session, session_id, sizeof message.request.session);
  transport::add_proof(message.request,
                       transport::derive_key(session_key, transport::kAttachPurpose));
  return ::send(fd, &message, sizeof message, MSG_NOSIGNAL) == (ssize_t)sizeof message;
}
}  // namespace

// Tries for `patience_ms`: the launcher may restart or the network be away, and the session itself
// goes on. Never waits for a transfer. False when the session or the time is over.
bool Link::open_bulk(int patience_ms) {
  if (bulk_open_) return true;
  MutexLock one(bulk_open_mutex_);
  SigpipeGuard no_sigpipe;
  int64_t end_ms = transport::now_ms() + patience_ms;
  while (!bulk_open_ && !connect_bulk()) {
    if (error() || transport::now_ms() >= end_ms) return false;
    timespec pause = transport::milliseconds(kRetryMs);
    nanosleep(&pause, nullptr);
  }
  return true;
}

bool Link::connect_bulk() {
  std::string error;
  int fd = transport::connect_tcp(endpoint_.address, endpoint_.port, kConnectMs, error);
  if (fd < 0) return false;
  Tls tls;
  if (!send_preamble(fd, session_id_, ++bulk_counter_, session_key_)) {
    ::close(fd);
    return false;
  }
  transport::Secret key = transport::derive_key(session_key_, transport::kBulkPurpose);
  if (!Tls::open_with_key(fd, transport::Role::client, key, kHandshakeMs, tls, error)) return false;
  tls.batch_writes();
  {
    MutexLock lock(bulk_mutex_);
    bulk_ = std::move(tls);
  }
  bulk_open_ = true;
  start_thread([this] {
    while (receive_bulk_chunk()) wake_waiters();
    bulk_open_ = false;
    fail_bulk();
  });
  return true;
}

// Waits until `bytes` bytes have arrived since the start of the session.
void Link::wait_for_bulk(uint64_t bytes) {
  while (bulk_received_.load() < bytes && bulk_open_ && !error()) {
    uint32_t epoch = epoch_.load();
    if (bulk_received_.load() < bytes)
      transport::futex_wait(epoch_, epoch, transport::milliseconds(1), transport::Scope::process);
  }
}

// Both connections break when a session ends. The last frame of the link holds the reason, so it
// gets 300 ms to arrive first.
void Link::fail_bulk() {
  timespec pause = transport::milliseconds(2);
  for (int i = 0; i < 150 && !error(); ++i) nanosleep(&pause, nullptr);
  fail(CUDA_ERROR_DEVICE_UNAVAILABLE, "the bulk connection to the node broke");
}

// The connection is another one after a break.
int Link::bulk_fd() {
  MutexLock lock(bulk_mutex_);
  return bulk_.fd();
}

bool Link::read_bulk(void* p, size_t n) {
  auto* at = (uint8_t*)p;
  while (n) {
    ssize_t k;
    {
      MutexLock lock(bulk_mutex_);
      k = bulk_.read_some(at, n);
    }
    if (k < 0 || error() == CUDA_ERROR_DEVICE_UNAVAILABLE) return false;
    if (k == 0) {
      transport::socket_ready(bulk_fd(), false, kReadyMs);
      continue;
    }
    at += k;
    n -= (size_t)k;
  }
  return true;
}

bool Link::receive_bulk_chunk() {
  wire::BulkHeader h;
  if (!read_bulk(&h, sizeof h) || h.bytes > wire::kMaxChunkBytes) return false;
  thread_local std::vector<uint8_t> part(kPartBytes);
  for (uint64_t at = 0; at < h.bytes; at += kPartBytes) {
    uint64_t n = std::min<uint64_t>(kPartBytes, h.bytes - at);
    if (!read_bulk(part.data(), n) || !deliver_transfer(h.transfer, h.offset + at, part.data(), n))
      return false;
  }
  bulk_received_ += h.bytes;
  return true;
}

bool Link::write_bulk(const void* p, size_t n) {
  auto* at = (const uint8_t*)p;
  while (n) {
    ssize_t k;
    {
      MutexLock lock(bulk_mutex_);
      k = bulk_.write_some(at, n);
    }
    if (k < 0 || error()) return false;
    if (k == 0) {
      transport::socket_ready(bulk_fd(), true, kReadyMs);
      continue;
    }
    at += k;
    n -= (size_t)k;
  }
  return true;
}

bool Link::flush_bulk() {
  for (;;) {
    int done;
    {
      MutexLock lock(bulk_mutex_);
      done = bulk_.flush();
    }
    if (done) return done > 0;
    if (error()) return false;
    transport::socket_ready(bulk_fd(), true, kReadyMs);
  }
}

uint64_t Link::upload(const void* data, uint64_t bytes) {
  if (!open_bulk(kOpenMs)) {
    fail(CUDA_ERROR_DEVICE_UNAVAILABLE, "the bulk connection to the node cannot be opened");
    return 0;
  }
  MutexLock one(bulk_send_mutex_);
  SigpipeGuard no_sigpipe;
  uint64_t transfer = next_id(), offset = 0;
  while (offset < bytes) {
    uint64_t n = std::min<uint64_t>(bytes - offset, wire::kMaxChunkBytes);
    // The node keeps an image until it is complete, so only the bytes ahead of this transfer count
    // against the credit.
    uint64_t before = bulk_sent_ - offset;
    if (wait_until([&] { return before < bulk_credit_.load() + wire::kBulkCreditBytes; })) return 0;
    wire::BulkHeader h{transfer, offset, n};
    if (!write_bulk(&h, sizeof h) || !write_bulk((const uint8_t*)data + offset, n) ||
        !flush_bulk()) {
      fail_bulk();
      return 0;
    }
    offset += n;
    bulk_sent_ += n;
  }
  return transfer;
}

// Without a bulk connection, large transfers arrive as data frames.
uint64_t Link::expect_transfer(const Rows& to, uint64_t offset, uint64_t bytes,
                               const SecondTarget& second) {
  if (bytes > wire::kMaxRecordBytes && !shared_) open_bulk(0);
  MutexLock lock(mutex_);
  uint64_t id = next_id();
  incoming_[id] = {to, offset, bytes, bytes, second};
  return id;
}

}  // namespace busbar::client
