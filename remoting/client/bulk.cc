// The bulk connection of a link: large host bytes, both ways, opened when the first need it.
#include <linux/futex.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "client/link.h"
#include "client/no_sigpipe.h"

namespace busbar::client {

using transport::Tls;

namespace {
constexpr size_t kPartBytes = 128 << 10;
long futex(std::atomic<uint32_t>* word, int op, uint32_t value, const timespec* t) {
  return syscall(SYS_futex, word, op, value, t, nullptr, 0);
}
}  // namespace

bool Link::open_bulk() {
  std::lock_guard one(bulk_send_mutex_);
  if (bulk_open_) return true;
  NoSigpipe quiet;
  std::string error;
  int fd = transport::connect_tcp(endpoint_.address, endpoint_.port, 5000, error);
  if (fd < 0) return false;
  struct {
    wire::Preamble p;
    uint8_t id[16];
  } hello{{{}, (uint32_t)wire::Purpose::bulk, 16}, {}};
  std::memcpy(hello.p.magic, wire::kMagic, sizeof hello.p.magic);
  std::memcpy(hello.id, session_id_, sizeof hello.id);
  Tls tls;
  if (::send(fd, &hello, sizeof hello, MSG_NOSIGNAL) != (ssize_t)sizeof hello) {
    ::close(fd);
    return false;
  }
  if (!Tls::with_key(fd, transport::Role::client, session_key_, 15'000, tls, error)) return false;
  tls.batch_writes();
  {
    std::lock_guard lock(bulk_mutex_);
    bulk_ = std::move(tls);
  }
  bulk_open_ = true;
  start([this] {
    while (receive_bulk_frame()) announce();
    bulk_open_ = false;
    bulk_lost();
  });
  return true;
}

// Until so many bytes have come over the bulk connection.
void Link::wait_for_bulk(uint64_t bulk) {
  while (bulk_received_.load() < bulk && bulk_open_ && !this->error()) {
    uint32_t epoch = epoch_.load();
    timespec patience{0, 1'000'000};
    if (bulk_received_.load() < bulk) futex(&epoch_, FUTEX_WAIT_PRIVATE, epoch, &patience);
  }
}

// Both connections break when a session ends; the link's last frame says why, so it has the first
// word.
void Link::bulk_lost() {
  timespec pause{0, 2'000'000};
  for (int i = 0; i < 150 && !error(); ++i) nanosleep(&pause, nullptr);
  fail(CUDA_ERROR_DEVICE_UNAVAILABLE, "the bulk connection to the node broke");
}

bool Link::receive_bulk_frame() {
  auto read = [&](void* p, size_t n) {
    auto* at = (uint8_t*)p;
    while (n) {
      ssize_t k;
      {
        std::lock_guard lock(bulk_mutex_);
        k = bulk_.read_some(at, n);
      }
      if (k < 0 || error() == CUDA_ERROR_DEVICE_UNAVAILABLE) return false;
      if (k == 0) {
        transport::socket_ready(bulk_.fd(), false, 1000);
        continue;
      }
      at += k;
      n -= (size_t)k;
    }
    return true;
  };
  wire::BulkHeader h;
  if (!read(&h, sizeof h) || h.bytes > wire::kMaxChunkBytes) return false;
  thread_local std::vector<uint8_t> part(
      kPartBytes);  // small enough to stay in a cache until it is where it belongs
  for (uint64_t at = 0; at < h.bytes; at += kPartBytes) {
    uint64_t n = std::min<uint64_t>(kPartBytes, h.bytes - at);
    if (!read(part.data(), n) || !deliver(h.transfer, h.offset + at, part.data(), n)) return false;
  }
  bulk_received_ += h.bytes;
  return true;
}

bool Link::write_bulk(const void* p, size_t n) {
  auto* at = (const uint8_t*)p;
  while (n) {
    ssize_t k;
    {
      std::lock_guard lock(bulk_mutex_);
      k = bulk_.write_some(at, n);
    }
    if (k < 0 || error()) return false;
    if (k == 0) {
      transport::socket_ready(bulk_.fd(), true, 1000);
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
      std::lock_guard lock(bulk_mutex_);
      done = bulk_.flush();
    }
    if (done) return done > 0;
    if (error()) return false;
    transport::socket_ready(bulk_.fd(), true, 1000);
  }
}

uint64_t Link::upload(const void* data, uint64_t bytes) {
  if (!open_bulk()) {
    fail(CUDA_ERROR_DEVICE_UNAVAILABLE, "the bulk connection to the node cannot be opened");
    return 0;
  }
  std::lock_guard one(bulk_send_mutex_);
  NoSigpipe quiet;
  uint64_t transfer = next_id(), offset = 0;
  while (offset < bytes) {
    uint64_t n = std::min<uint64_t>(bytes - offset, wire::kMaxChunkBytes);
    // An image waits at the node until it is whole, so only what is ahead of this transfer counts
    // against the credit.
    uint64_t before = bulk_sent_ - offset;
    if (wait([&] { return before < bulk_credit_.load() + wire::kBulkCreditBytes; })) return 0;
    wire::BulkHeader h{transfer, offset, n};
    if (!write_bulk(&h, sizeof h) || !write_bulk((const uint8_t*)data + offset, n) ||
        !flush_bulk()) {
      bulk_lost();
      return 0;
    }
    offset += n;
    bulk_sent_ += n;
  }
  return transfer;
}

uint64_t Link::expect(const Rows& to, uint64_t offset, uint64_t bytes) {
  if (bytes > wire::kMaxRecordBytes && !shared_)
    open_bulk();  // without it the bytes come over the link
  std::lock_guard lock(mutex_);
  uint64_t id = next_id();
  incoming_[id] = {to, offset, bytes, bytes};
  return id;
}

}  // namespace busbar::client
