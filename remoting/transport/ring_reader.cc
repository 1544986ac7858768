// The consumer side of a ring whose producer is in another process.
#include <cstring>

#include "transport/ring.h"
#include "wire/format.h"

namespace busbar::transport {

// Each length is read once and checked. The caller parses the copy, which the producer cannot
// change.
bool Ring::read_records(std::vector<uint8_t>& out, uint64_t max_bytes) {
  uint64_t head = head_->head.load(std::memory_order_relaxed), at = 0;
  if (head % 16) return false;
  const uint8_t* begin = memory_ + head % capacity_;
  while (at < max_bytes) {
    uint64_t word =
        reinterpret_cast<const std::atomic<uint64_t>*>(begin + at)->load(std::memory_order_acquire);
    if (!word) break;
    uint32_t record = (uint32_t)word;
    if (record < sizeof(wire::RecordHeader) || record > wire::kMaxRecordBytes || record % 16 ||
        at + record > capacity_)
      return false;
    size_t before = out.size();
    out.resize(before + record);
    std::memcpy(out.data() + before, &word, 8);
    std::memcpy(out.data() + before + 8, begin + at + 8, record - 8);
    at += record;
  }
  if (at) consume(at);
  return true;
}

}  // namespace busbar::transport
