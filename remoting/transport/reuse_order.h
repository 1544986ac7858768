// Happens-before relation between a record of a ring and later records in the same memory.
//
// ThreadSanitizer does not see this relation when the consumer is another process. Other builds
// compile the functions to nothing.
//
// Thread safety: any thread.
#pragma once
#include <cstdint>
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace busbar::transport {

#ifdef __SANITIZE_THREAD__
constexpr uint32_t kOrderedBytes = 16;  // the unit of record sizes

// Call with the memory of a record, before its bytes are written. The last record of a round
// continues in the second mapping.
inline void begin_reuse(uint8_t* memory, uint64_t position, uint32_t bytes, uint64_t capacity) {
  for (uint32_t at = 0; at < bytes; at += kOrderedBytes)
    __tsan_acquire(memory + (position + at) % capacity);
}
// Call after the record is written and before it is published.
inline void end_use(uint8_t* memory, uint64_t position, uint32_t bytes, uint64_t capacity) {
  for (uint32_t at = 0; at < bytes; at += kOrderedBytes)
    __tsan_release(memory + (position + at) % capacity);
}
#else
inline void begin_reuse(uint8_t*, uint64_t, uint32_t, uint64_t) {}
inline void end_use(uint8_t*, uint64_t, uint32_t, uint64_t) {}
#endif

}  // namespace busbar::transport
