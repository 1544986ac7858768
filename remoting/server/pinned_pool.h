// A pool of pinned host memory, through which copies between host and device pass.
//
// The memory consists of slabs of 4 MiB. A slab in use is divided into slots of one size; a slab
// whose slots are all free can take another size. A copy of 64 bytes takes a slot of 64 bytes.
//
// A stream holds at most as many bytes as are still free, so that the copies of a stream that does
// not progress never use up the pool.
//
// Thread safety: any thread. No member waits for a buffer. grow() may wait for the GPU, so the
// thread `memory` calls it.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "server/driver.h"
#include "server/stream_use.h"

namespace busbar::server {

class PinnedPool;

// A slot of the pool, or nothing. The destructor returns it.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  PinnedBuffer(PinnedBuffer&& o) noexcept { swap(o); }
  PinnedBuffer& operator=(PinnedBuffer&& o) noexcept {
    PinnedBuffer(std::move(o)).swap(*this);
    return *this;
  }
  ~PinnedBuffer();
  uint8_t* data() const { return data_; }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  friend class PinnedPool;
  void swap(PinnedBuffer& o) noexcept {
    std::swap(pool_, o.pool_);
    std::swap(data_, o.data_);
    std::swap(slab_, o.slab_);
    std::swap(user_, o.user_);
  }
  PinnedPool* pool_ = nullptr;
  uint8_t* data_ = nullptr;
  uint32_t slab_ = 0;
  std::shared_ptr<StreamUse> user_;
};

enum class Growth {
  begin,       // the caller has grow() called
  due,         // another caller has begun
  impossible,  // the pool or the driver is at its limit
};

class PinnedPool {
 public:
  static constexpr uint64_t kSlabBytes = 4ull << 20;  // also the largest buffer
  static constexpr uint64_t kPoolBytes = 256ull << 20;

  explicit PinnedPool(Driver& cu) : cu_(cu) {}

  // Returns a buffer of at least `bytes` for work of a stream. Returns nothing if the stream holds
  // its share, or if no slab has room; `needs_slab` tells the two apart.
  PinnedBuffer acquire(uint64_t bytes, const std::shared_ptr<StreamUse>& user, bool& needs_slab);
  // Returns a buffer for bytes that no stream has requested yet. At most half of the pool is handed
  // out in this way.
  PinnedBuffer acquire_idle(uint64_t bytes);
  // Adds a slab. A context must be current. False at the limit of the pool or of the driver.
  bool grow();
  // Returns what a caller does that needs a slab. After the driver has refused one, growth is
  // impossible while buffers are handed out, and for the first caller after that.
  Growth begin_growth();
  bool unused();  // no buffer is handed out

 private:
  friend class PinnedBuffer;
  static constexpr int kSizes = 9;  // 64 B, 256 B, ... 4 MiB
  struct Slab {
    uint8_t* memory = nullptr;
    int size = -1;  // index of the slot size; -1: none
    uint32_t used = 0;
    uint32_t untouched = 0;      // slots from here on were never handed out
    std::vector<uint32_t> free;  // returned slots, the last one first
  };
  PinnedBuffer take(uint64_t bytes);
  int slab_with_room(int size);
  void release(PinnedBuffer& buffer);
  Driver& cu_;
  std::mutex mutex_;
  std::vector<Slab> slabs_;
  std::array<std::vector<uint32_t>, kSizes> partial_;  // slabs with a free slot
  std::vector<uint32_t> empty_;                        // slabs without a size
  uint64_t used_bytes_ = 0;
  bool exhausted_ = false;  // the driver has refused a slab
  bool growing_ = false;    // a call of grow() is due
};

}  // namespace busbar::server
