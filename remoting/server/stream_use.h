// Resources of the session server that the unfinished work of one stream holds.
//
// Thread safety: any thread. The executor adds; the thread that publishes a completion subtracts.
#pragma once
#include <atomic>
#include <cstdint>

#include "server/backlog.h"

namespace busbar::server {

struct StreamUse {
  std::atomic<uint64_t> staging_bytes{0};  // of the pinned pool
  std::atomic<uint32_t> chunks{0};         // of shared memory, to the client
  uint64_t submitted = 0;                  // records given to the driver; executor thread only
  std::atomic<uint64_t> completed{0};      // of those, known to be complete
  std::atomic<uint64_t> ended_fence{0};    // number of the newest fence for the gate that completed
  Backlog backlog;
};

}  // namespace busbar::server
