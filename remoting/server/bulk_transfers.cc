#include "server/bulk_transfers.h"

#include <algorithm>
#include <chrono>

#include "checked_size.h"
#include "transport/tcp.h"

namespace busbar::server {

namespace {
constexpr int kPollMs = 1000;
constexpr uint64_t kHeldBytes = wire::kMaxImageBytes + 2 * wire::kBulkCreditBytes;
}  // namespace

bool BulkTransfers::read_exactly(uint64_t connection, void* p, size_t n) {
  auto* at = (uint8_t*)p;
  while (n) {
    ssize_t k;
    {
      std::lock_guard lock(connection_mutex_);
      if (connection != newest_) return false;
      k = connection_.read_some(at, n);
    }
    if (k < 0) return false;
    if (k == 0) {
      transport::socket_ready(connection_.fd(), false, kPollMs);
      if (closed_) return false;
      continue;
    }
    at += k;
    n -= (size_t)k;
  }
  return true;
}

bool BulkTransfers::read_chunk(uint64_t connection) {
  wire::BulkHeader h;
  if (!read_exactly(connection, &h, sizeof h) || h.bytes == 0 || h.bytes > wire::kMaxChunkBytes)
    return false;
  if (!wait_for_budget(h.bytes)) return false;
  Chunk chunk(pool_.acquire_idle(h.bytes), h.bytes);
  return read_exactly(connection, chunk.data(), chunk.size()) &&
         add(h.transfer, h.offset, std::move(chunk));
}

// The budget exceeds what the credit of the client permits, so only a client that ignores its
// credit waits here. False after close().
bool BulkTransfers::wait_for_budget(uint64_t bytes) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock,
                [&] { return closed_ || (CheckedSize(held_bytes_) + bytes).within(kHeldBytes); });
  return !closed_;
}

bool BulkTransfers::add(uint64_t transfer, uint64_t offset, Chunk chunk) {
  std::lock_guard lock(mutex_);
  auto& in = incoming_[transfer];
  bool in_order = offset == in.bytes;
  if (!in_order || !(CheckedSize(held_bytes_) + chunk.size()).within(kHeldBytes)) return false;
  in.bytes += chunk.size();
  held_bytes_ += chunk.size();
  in.chunks.push_back(std::move(chunk));
  changed_.notify_all();
  return true;
}

void BulkTransfers::receive(uint64_t counter, transport::Tls tls) {
  tls.batch_writes();
  {
    std::lock_guard lock(connection_mutex_);
    if (counter <= newest_) return;
    connection_ = std::move(tls);
    newest_ = counter;
  }
  while (read_chunk(counter)) arrived_();
  std::lock_guard lock(connection_mutex_);
  if (counter == newest_) connection_.close();
}

bool BulkTransfers::has(uint64_t transfer, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  auto it = incoming_.find(transfer);
  return it != incoming_.end() && it->second.bytes >= bytes;
}

bool BulkTransfers::wait(uint64_t transfer, uint64_t bytes, int timeout_ms) {
  std::unique_lock lock(mutex_);
  bool ended = changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [&] {
    auto it = incoming_.find(transfer);
    return closed_ || (it != incoming_.end() && it->second.bytes >= bytes);
  });
  return ended && !closed_;
}

std::vector<Chunk> BulkTransfers::collect(uint64_t transfer) {
  std::lock_guard lock(mutex_);
  auto it = incoming_.find(transfer);
  if (it == incoming_.end()) return {};
  auto chunks = std::move(it->second.chunks);
  held_bytes_ -= it->second.bytes;
  incoming_.erase(it);
  changed_.notify_all();
  return chunks;
}

PinnedBuffer BulkTransfers::collect_pinned(uint64_t transfer, uint64_t bytes) {
  {
    std::lock_guard lock(mutex_);
    auto it = incoming_.find(transfer);
    if (it == incoming_.end()) return {};
    auto& chunks = it->second.chunks;
    if (chunks.size() != 1 || !chunks.front().pinned() || it->second.bytes < bytes) return {};
  }
  return collect(transfer).front().take_pinned();
}

bool BulkTransfers::wait_for_room() {
  int fd = connection_.fd();
  connection_mutex_.unlock();
  transport::socket_ready(fd, true, kPollMs);
  connection_mutex_.lock();
  return (bool)connection_;
}

bool BulkTransfers::write_exactly(const void* p, size_t n) {
  auto* at = (const uint8_t*)p;
  while (n) {
    ssize_t k = connection_.write_some(at, n);
    if (k < 0 || closed_) return false;
    if (k == 0) {
      if (!wait_for_room()) return false;
      continue;
    }
    at += k;
    n -= (size_t)k;
  }
  return true;
}

bool BulkTransfers::flush() {
  for (;;) {
    int done = connection_.flush();
    if (done || closed_) return done > 0;
    if (!wait_for_room()) return false;
  }
}

bool BulkTransfers::send(uint64_t transfer, uint64_t offset, const void* data, uint64_t bytes,
                         uint64_t& total_sent) {
  auto* at = (const uint8_t*)data;
  std::unique_lock lock(connection_mutex_);
  if (!connection_) return false;
  while (bytes) {
    uint64_t n = std::min<uint64_t>(bytes, wire::kMaxChunkBytes);
    wire::BulkHeader h{transfer, offset, n};
    if (!write_exactly(&h, sizeof h) || !write_exactly(at, n) || !flush()) return false;
    at += n;
    offset += n;
    bytes -= n;
    sent_bytes_ += n;
  }
  total_sent = sent_bytes_;
  return true;
}

void BulkTransfers::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

}  // namespace busbar::server
