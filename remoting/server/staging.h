// Host bytes on their way: chunks from the client's bulk connection, and pinned memory for copies
// to and from the GPU.
#pragma once
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "server/driver.h"
#include "transport/tls.h"
#include "wire/format.h"

namespace busbar::server {

// A pinned buffer of the pool; `data` is null when there is none.
struct Pinned {
  uint8_t* data = nullptr;
  uint64_t bytes = 0;
};

class Staging;

// Bytes of a transfer. In pinned memory when the pool has some to spare, so that the driver takes
// them from where they were decrypted.
class Chunk {
 public:
  Chunk(Staging& owner, Pinned pinned, uint64_t bytes)
      : owner_(&owner),
        pinned_(pinned),
        heap_(pinned.data ? nullptr : new uint8_t[bytes]),
        bytes_(bytes) {}
  Chunk(Chunk&& o) noexcept
      : owner_(o.owner_), pinned_(o.keep()), heap_(std::move(o.heap_)), bytes_(o.bytes_) {}
  ~Chunk();
  uint8_t* data() { return pinned_.data ? pinned_.data : heap_.get(); }
  uint64_t size() const { return bytes_; }
  Pinned keep() {
    Pinned p = pinned_;
    pinned_ = {};
    return p;
  }  // the caller gives it back; nothing when the bytes are elsewhere

 private:
  Staging* owner_;
  Pinned pinned_;
  std::unique_ptr<uint8_t[]> heap_;
  uint64_t bytes_;
};

class Staging {
 public:
  Staging(Driver& cu, std::function<void()> arrived) : cu_(cu), arrived_(std::move(arrived)) {}

  // Pinned memory; blocks while more than the pool's share is out. The context must be current.
  Pinned take(uint64_t bytes);
  void give(Pinned p);

  // Bulk connection: its reader thread runs receive() until the connection ends.
  void receive(transport::Tls tls);
  bool has(uint64_t transfer, uint64_t bytes);    // all of it has come
  std::vector<Chunk> collect(uint64_t transfer);  // its chunks, in order; removes them
  bool wait(uint64_t transfer, uint64_t bytes, int timeout_ms);

  // False when there is no bulk connection: the caller sends on the link instead.
  bool send_bulk(uint64_t transfer, uint64_t offset, const void* data, uint64_t bytes,
                 uint64_t& total_sent);
  void close();

 private:
  bool read_frame(transport::Tls& tls);
  Pinned spare(uint64_t bytes);
  Driver& cu_;
  std::function<void()> arrived_;
  std::mutex pool_mutex_;
  std::condition_variable pool_changed_;
  std::multimap<uint64_t, uint8_t*> free_;
  uint64_t out_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  struct Incoming {
    std::vector<Chunk> chunks;
    uint64_t bytes = 0;
  };
  std::map<uint64_t, Incoming> incoming_;
  uint64_t held_bytes_ = 0;
  std::mutex bulk_mutex_;  // guards bulk_ between reader and senders
  transport::Tls bulk_;
  uint64_t bulk_sent_ = 0;
  bool closed_ = false;
};

}  // namespace busbar::server
