#include "server/pinned_pool.h"

#include <algorithm>

#include "checked_size.h"

namespace busbar::server {

namespace {
constexpr uint64_t kSmallestBytes = 64;
constexpr int kSizeShift = 2;  // each slot size is four times the previous one

constexpr uint64_t slot_bytes(int size) {
  // NOLINTNEXTLINE(custom-unchecked-product): there are few sizes
  return kSmallestBytes << (kSizeShift * size);
}
int size_of(uint64_t bytes) {
  int size = 0;
  while (slot_bytes(size) < bytes) ++size;
  return size;
}
}  // namespace

PinnedBuffer::~PinnedBuffer() {
  if (data_) pool_->release(*this);
}

// Returns a slab with a free slot of the size, or -1. Call with the lock.
int PinnedPool::slab_with_room(int size) {
  auto& partial = partial_[(size_t)size];
  if (partial.empty()) {
    if (empty_.empty()) return -1;
    uint32_t fresh = empty_.back();
    empty_.pop_back();
    Slab& slab = slabs_[fresh];
    slab.size = size;
    slab.untouched = 0;
    slab.free.clear();
    partial.push_back(fresh);
  }
  return (int)partial.back();
}

// Call with the lock.
PinnedBuffer PinnedPool::take(uint64_t bytes) {
  PinnedBuffer buffer;
  if (bytes > kSlabBytes) return buffer;
  int size = size_of(bytes), index = slab_with_room(size);
  if (index < 0) return buffer;
  Slab& slab = slabs_[(size_t)index];
  uint32_t slot = slab.untouched;
  if (slab.free.empty()) {
    ++slab.untouched;
  } else {
    slot = slab.free.back();
    slab.free.pop_back();
  }
  if (++slab.used == kSlabBytes / slot_bytes(size)) partial_[(size_t)size].pop_back();
  used_bytes_ += slot_bytes(size);
  buffer.pool_ = this;
  buffer.data_ = slab.memory + (CheckedSize(slot) * slot_bytes(size)).value();
  buffer.slab_ = (uint32_t)index;
  return buffer;
}

PinnedBuffer PinnedPool::acquire(uint64_t bytes, const std::shared_ptr<StreamUse>& user,
                                 bool& needs_slab) {
  std::lock_guard lock(mutex_);
  uint64_t held = user->staging_bytes.load(std::memory_order_relaxed);
  needs_slab = false;
  if (held && !(CheckedSize(held) + bytes).within(kPoolBytes - used_bytes_)) return {};
  PinnedBuffer buffer = take(bytes);
  needs_slab = !buffer;
  if (!buffer) return buffer;
  user->staging_bytes += slot_bytes(slabs_[buffer.slab_].size);
  buffer.user_ = user;
  return buffer;
}

PinnedBuffer PinnedPool::acquire_idle(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  return (CheckedSize(used_bytes_) + bytes).within(kPoolBytes / 2) ? take(bytes) : PinnedBuffer();
}

void PinnedPool::release(PinnedBuffer& buffer) {
  std::lock_guard lock(mutex_);
  Slab& slab = slabs_[buffer.slab_];
  uint64_t bytes = slot_bytes(slab.size);
  if (buffer.user_) buffer.user_->staging_bytes -= bytes;
  used_bytes_ -= bytes;
  auto& partial = partial_[(size_t)slab.size];
  if (slab.used-- == kSlabBytes / bytes) partial.push_back(buffer.slab_);
  slab.free.push_back((uint32_t)((uint64_t)(buffer.data_ - slab.memory) / bytes));
  if (slab.used) return;
  std::erase(partial, buffer.slab_);
  slab.size = -1;
  empty_.push_back(buffer.slab_);
}

Growth PinnedPool::begin_growth() {
  std::lock_guard lock(mutex_);
  if (growing_) return Growth::due;
  if (exhausted_ && !used_bytes_)
    exhausted_ = false;
  else if (!exhausted_ && slabs_.size() < kPoolBytes / kSlabBytes)
    growing_ = true;
  return growing_ ? Growth::begin : Growth::impossible;
}

bool PinnedPool::grow() {
  {
    std::lock_guard lock(mutex_);
    growing_ = slabs_.size() < kPoolBytes / kSlabBytes;
    if (!growing_) return false;
  }
  void* memory = nullptr;
  bool allocated = cu_.cuMemHostAlloc(&memory, kSlabBytes, 0) == CUDA_SUCCESS;
  std::lock_guard lock(mutex_);
  growing_ = false;
  exhausted_ = !allocated;
  if (!allocated) return false;
  empty_.push_back((uint32_t)slabs_.size());
  slabs_.push_back({(uint8_t*)memory, -1, 0, 0, {}});
  return true;
}

bool PinnedPool::unused() {
  std::lock_guard lock(mutex_);
  return used_bytes_ == 0;
}

}  // namespace busbar::server
