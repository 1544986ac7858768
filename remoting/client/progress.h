// Progress of one stream.
//
// Thread safety: any thread. The link advances `completed`, submitting threads advance `last`.
#pragma once
#include <atomic>
#include <cstdint>

namespace busbar::client {

struct Progress {
  std::atomic<uint64_t> last{0};       // position of the newest submitted record
  std::atomic<uint64_t> completed{0};  // position that the session server has published

  bool reached(uint64_t position) const {
    return completed.load(std::memory_order_acquire) >= position;
  }
  bool done() const { return reached(last.load(std::memory_order_acquire)); }
};

}  // namespace busbar::client
