// A turn for the clearing of new memory, which is work of the GPU that no record submits.
//
// Thread safety: thread `memory` only.
#pragma once
#include "server/session.h"

namespace busbar::server {

class ClearingTurn {
 public:
  // Blocks until the turn has begun, a second at most. Does nothing if the driver clears new memory
  // itself.
  ClearingTurn(Session& s, uint32_t partition)
      : turns_(s.cu.fresh_memory_is_zero ? nullptr : s.turns), partition_(partition) {
    if (turns_) turns_->begin_outside(partition_);
  }
  ~ClearingTurn() {
    if (turns_) turns_->end_outside(partition_);
  }
  ClearingTurn(const ClearingTurn&) = delete;

 private:
  Turns* const turns_;
  const uint32_t partition_;
};

}  // namespace busbar::server
