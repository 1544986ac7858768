// Limits of contexts that reserve device memory for kernels: stacks of threads, heap, and buffer of
// printf. What the driver takes by default belongs to the context; more is charged.
//
// Thread safety: thread `code`, since a charge waits for the launcher.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <map>
#include <utility>

#include "server/account.h"
#include "server/driver.h"

namespace busbar::server {

class ContextLimits {
 public:
  ContextLimits(Driver& cu, Account& account) : cu_(cu), account_(account) {}

  // Sets a limit of the current context, whose device has this partition. Charges the change first
  // if it grows, and releases it afterwards if it shrinks. `asks` as in Account::reserve().
  CUresult set(uint32_t partition, CUlimit limit, uint64_t value, bool asks = true);

  // Charges the stacks for a function, since the driver enlarges them when it is launched.
  CUresult admit(uint32_t partition, CUfunction f, bool asks = true);

 private:
  struct State {
    uint64_t initial = 0;  // the driver's value
    uint64_t charged_bytes = 0;
    uint64_t kernel_bytes = 0;  // of it for admitted functions
  };
  State* state_of(uint32_t partition, CUlimit limit);
  CUresult charge(State& s, uint32_t partition, uint64_t bytes, bool asks);
  uint64_t device_bytes(CUlimit limit, uint64_t value) const;
  uint64_t extra_bytes(CUlimit limit, const State& s, uint64_t value) const;

  Driver& cu_;
  Account& account_;
  std::map<std::pair<uint32_t, CUlimit>, State> states_;  // by partition and limit
};

}  // namespace busbar::server
