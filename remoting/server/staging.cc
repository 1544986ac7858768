#include "server/staging.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>

namespace busbar::server {

namespace {
constexpr uint64_t kPoolBytes = 256ull << 20;
uint64_t size_class(uint64_t n) {
  uint64_t c = 64 << 10;
  while (c < n) c *= 2;
  return c;
}
}  // namespace

Pinned Staging::take(uint64_t bytes) {
  uint64_t c = size_class(bytes);
  {
    std::unique_lock lock(pool_mutex_);
    pool_changed_.wait(lock, [&] { return out_ == 0 || out_ + c <= kPoolBytes || closed_; });
    out_ += c;
    if (auto it = free_.find(c); it != free_.end()) {
      Pinned p{it->second, c};
      free_.erase(it);
      return p;
    }
  }
  void* p = nullptr;
  if (!cu_.cuMemHostAlloc(&p, c, 0)) return {(uint8_t*)p, c};
  std::lock_guard lock(pool_mutex_);
  out_ -= c;
  pool_changed_.notify_all();
  return {};
}

// What lies idle in the pool, for bytes that arrive; half of it at the most. Nothing is allocated:
// the reader has no context.
Pinned Staging::spare(uint64_t bytes) {
  uint64_t c = size_class(bytes);
  std::lock_guard lock(pool_mutex_);
  auto it = free_.find(c);
  if (it == free_.end() || out_ + c > kPoolBytes / 2) return {};
  out_ += c;
  Pinned p{it->second, c};
  free_.erase(it);
  return p;
}

Chunk::~Chunk() {
  owner_->give(pinned_);
}

void Staging::give(Pinned p) {
  if (!p.data) return;
  std::lock_guard lock(pool_mutex_);
  out_ -= p.bytes;
  free_.emplace(p.bytes, p.data);
  pool_changed_.notify_all();
}

bool Staging::read_frame(transport::Tls& tls) {
  wire::BulkHeader h;
  auto read = [&](void* p, size_t n) {
    auto* at = (uint8_t*)p;
    while (n) {
      ssize_t k;
      {
        std::lock_guard lock(bulk_mutex_);
        k = tls.read_some(at, n);
      }
      if (k < 0) return false;
      if (k == 0) {
        transport::socket_ready(tls.fd(), false, 1000);
        if (closed_) return false;
        continue;
      }
      at += k;
      n -= (size_t)k;
    }
    return true;
  };
  if (!read(&h, sizeof h) || h.bytes == 0 || h.bytes > wire::kMaxChunkBytes) return false;
  Chunk chunk(*this, spare(h.bytes), h.bytes);
  if (!read(chunk.data(), chunk.size())) return false;
  std::lock_guard lock(mutex_);
  auto& in = incoming_[h.transfer];
  if (h.offset != in.bytes || held_bytes_ + h.bytes > 2 * wire::kMaxImageBytes)
    return false;  // in order, and bounded
  in.bytes += h.bytes;
  held_bytes_ += h.bytes;
  in.chunks.push_back(std::move(chunk));
  changed_.notify_all();
  return true;
}

void Staging::receive(transport::Tls tls) {
  tls.batch_writes();
  {
    std::lock_guard lock(bulk_mutex_);
    bulk_ = std::move(tls);
  }
  while (read_frame(bulk_)) arrived_();
  std::lock_guard lock(bulk_mutex_);
  bulk_.close();
}

bool Staging::has(uint64_t transfer, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  auto it = incoming_.find(transfer);
  return it != incoming_.end() && it->second.bytes >= bytes;
}

bool Staging::wait(uint64_t transfer, uint64_t bytes, int timeout_ms) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [&] {
    auto it = incoming_.find(transfer);
    return closed_ || (it != incoming_.end() && it->second.bytes >= bytes);
  }) && !closed_;
}

std::vector<Chunk> Staging::collect(uint64_t transfer) {
  std::lock_guard lock(mutex_);
  auto it = incoming_.find(transfer);
  if (it == incoming_.end()) return {};
  auto chunks = std::move(it->second.chunks);
  held_bytes_ -= it->second.bytes;
  incoming_.erase(it);
  return chunks;
}

bool Staging::send_bulk(uint64_t transfer, uint64_t offset, const void* data, uint64_t bytes,
                        uint64_t& total) {
  auto* at = (const uint8_t*)data;
  auto wait_for_room = [&] {
    int fd = bulk_.fd();
    bulk_mutex_.unlock();
    transport::socket_ready(fd, true, 1000);
    bulk_mutex_.lock();
    return (bool)bulk_;
  };
  auto write = [&](const void* p, size_t n) {
    auto* q = (const uint8_t*)p;
    while (n) {
      ssize_t k = bulk_.write_some(q, n);
      if (k < 0 || closed_) return false;
      if (k == 0) {
        if (!wait_for_room()) return false;
        continue;
      }
      q += k;
      n -= (size_t)k;
    }
    return true;
  };
  std::unique_lock lock(bulk_mutex_);
  if (!bulk_) return false;
  auto flush = [&] {
    for (;;) {
      int done = bulk_.flush();
      if (done || closed_) return done > 0;
      if (!wait_for_room()) return false;
    }
  };
  while (bytes) {
    uint64_t n = std::min<uint64_t>(bytes, wire::kMaxChunkBytes);
    wire::BulkHeader h{transfer, offset, n};
    if (!write(&h, sizeof h) || !write(at, n) || !flush()) return false;
    at += n;
    offset += n;
    bytes -= n;
    bulk_sent_ += n;
  }
  total = bulk_sent_;
  return true;
}

void Staging::close() {
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }
  std::lock_guard lock(pool_mutex_);
  pool_changed_.notify_all();
}

}  // namespace busbar::server
