// Number of host mirrors: managed allocations and mapped host memory.
//
// Thread safety: any thread. The check on the launch path is one relaxed load.
#pragma once
#include <atomic>

namespace busbar::client {

inline std::atomic<int> g_host_mirrors{0};

inline bool has_host_mirrors() {
  return g_host_mirrors.load(std::memory_order_relaxed) > 0;
}

}  // namespace busbar::client
