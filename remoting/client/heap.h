// The plain arena of a device: addresses are chosen here, backed by leases from the node, and
// reused only when all work that could touch them is done.
#pragma once
#include <cuda.h>

#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "wire/format.h"

namespace busbar::client {

class Heap {
 public:
  // Asks the node for memory at an address. CUDA_SUCCESS or CUDA_ERROR_OUT_OF_MEMORY.
  using Lease = std::function<CUresult(uint64_t at, uint64_t bytes)>;
  using Return = std::function<void(uint64_t at, uint64_t bytes)>;
  using Done = std::function<bool()>;

  Heap(uint64_t base, uint64_t bytes, Lease lease, Return give_back)
      : end_(base + bytes),
        cursor_(base),
        lease_(std::move(lease)),
        return_(std::move(give_back)) {}

  // Local while a lease has room; else a request to the node, which blocks. `drain` waits for
  // pending frees.
  CUresult allocate(uint64_t bytes, const std::function<void()>& drain, uint64_t& at);
  // The range goes back once `done` holds.
  void release(uint64_t at, uint64_t bytes, Done done);
  uint64_t allocated_bytes();
  uint64_t leased_bytes();  // what of it the node counts

 private:
  bool take(uint64_t bytes, uint64_t& at);
  bool grow(uint64_t bytes);
  void settle();
  void put_back(uint64_t at, uint64_t bytes);
  void return_empty_leases();
  std::mutex mutex_;
  const uint64_t end_;
  uint64_t cursor_, allocated_ = 0;
  Lease lease_;
  Return return_;
  std::map<uint64_t, uint64_t> free_;  // address to bytes, merged with neighbours of the same lease
  std::map<uint64_t, uint64_t> leases_;
  std::map<uint64_t, uint64_t> gaps_;  // addresses of returned leases
  struct Pending {
    uint64_t at, bytes;
    Done done;
  };
  std::vector<Pending> pending_;
};

}  // namespace busbar::client
