// Transfers of host memory over the bulk connection of a session.
//
// Thread safety: any thread. receive() belongs to one reader thread; send() and wait() may block.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "server/pinned_pool.h"
#include "transport/tls.h"
#include "wire/format.h"

namespace busbar::server {

// Bytes of a transfer. They lie in pinned memory if the pool has some to spare: the driver then
// copies them from the place where they were decrypted.
class Chunk {
 public:
  Chunk(PinnedBuffer pinned, uint64_t bytes)
      : pinned_(std::move(pinned)), heap_(pinned_ ? nullptr : new uint8_t[bytes]), bytes_(bytes) {}
  uint8_t* data() { return pinned_ ? pinned_.data() : heap_.get(); }
  uint64_t size() const { return bytes_; }
  bool pinned() const { return (bool)pinned_; }
  PinnedBuffer take_pinned() { return std::move(pinned_); }

 private:
  PinnedBuffer pinned_;
  std::unique_ptr<uint8_t[]> heap_;
  uint64_t bytes_;
};

class BulkTransfers {
 public:
  // `arrived` is called by the reader thread after each chunk.
  BulkTransfers(PinnedPool& pool, std::function<void()> arrived)
      : pool_(pool), arrived_(std::move(arrived)) {}

  // Reads chunks until the connection ends, breaks the protocol, or is replaced by a newer one:
  // by one with a higher counter, as handshakes may end in another order than they began.
  void receive(uint64_t counter, transport::Tls tls);

  // Takes a chunk that has arrived. False when it is not the next one of its transfer, or when too
  // much is held; receive() waits before that.
  bool add(uint64_t transfer, uint64_t offset, Chunk chunk);

  bool has(uint64_t transfer, uint64_t bytes);  // true once so many bytes have arrived
  // Waits for so many bytes. False after `timeout_ms` or close().
  bool wait(uint64_t transfer, uint64_t bytes, int timeout_ms);
  std::vector<Chunk> collect(uint64_t transfer);  // removes the chunks, in order
  // Removes a transfer of one chunk in pinned memory and returns its buffer. Without data if
  // there are fewer than `bytes`, or they lie elsewhere.
  PinnedBuffer collect_pinned(uint64_t transfer, uint64_t bytes);

  // Sends a part of a transfer and sets `total_sent` to the bytes sent since the start. False
  // without a bulk connection, or when it is lost: the caller uses the link instead.
  bool send(uint64_t transfer, uint64_t offset, const void* data, uint64_t bytes,
            uint64_t& total_sent);

  void close();  // ends every wait

 private:
  struct Incoming {
    std::vector<Chunk> chunks;
    uint64_t bytes = 0;
  };
  bool read_chunk(uint64_t connection);
  bool wait_for_budget(uint64_t bytes);
  bool read_exactly(uint64_t connection, void* p, size_t n);
  // With `connection_mutex_` held; each releases it while the socket has no room.
  bool wait_for_room();
  bool write_exactly(const void* p, size_t n);
  bool flush();

  PinnedPool& pool_;
  std::function<void()> arrived_;
  std::mutex mutex_;  // guards incoming_ and held_bytes_
  std::condition_variable changed_;
  std::map<uint64_t, Incoming> incoming_;
  uint64_t held_bytes_ = 0;
  std::mutex connection_mutex_;  // guards connection_, newest_ and sent_bytes_
  transport::Tls connection_;
  uint64_t newest_ = 0;  // counter of the connection
  uint64_t sent_bytes_ = 0;
  std::atomic<bool> closed_{false};
};

}  // namespace busbar::server
