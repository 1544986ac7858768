// Allocator of the arena of a device.
//
// Addresses are chosen in the client and backed by memory leases of the node. A freed range is
// reused only after all work that may access it.
//
// Thread safety: all members may be called from any thread. The mutex is held during the callbacks
// `lease`, `return_lease` and `done`; allocate() blocks for a round trip when no lease has room.
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
  // Requests a lease at an address. Returns CUDA_SUCCESS or CUDA_ERROR_OUT_OF_MEMORY.
  using Lease = std::function<CUresult(uint64_t at, uint64_t bytes)>;
  using ReturnLease = std::function<void(uint64_t at, uint64_t bytes)>;
  // Returns whether all work that may access a freed range is complete.
  using Done = std::function<bool()>;

  Heap(uint64_t base, uint64_t bytes, Lease lease, ReturnLease return_lease)
      : end_(base + bytes),
        cursor_(base),
        lease_(std::move(lease)),
        return_lease_(std::move(return_lease)) {}

  // Allocates a range, rounded up to 512 bytes. `drain` waits for the work that blocks freed
  // ranges; it is called without the mutex, if the memory does not suffice otherwise.
  CUresult allocate(uint64_t bytes, const std::function<void()>& drain, uint64_t& at);
  // Frees a range. It is reused after `done` has returned true. An unused lease is kept for the
  // next allocation, unless the partition is exceeded.
  void release(uint64_t at, uint64_t bytes, Done done, bool is_exceeded);
  void return_unused();  // returns the leases that hold nothing
  uint64_t allocated_bytes();
  uint64_t leased_bytes();

 private:
  bool allocate_free(uint64_t bytes, uint64_t& at);
  bool add_lease(uint64_t bytes);
  void reclaim_completed();
  void insert_free(uint64_t at, uint64_t bytes);
  void return_empty_leases(bool keep_one);
  std::mutex mutex_;
  const uint64_t end_;
  uint64_t cursor_;  // end of the addresses leased so far
  uint64_t allocated_ = 0;
  Lease lease_;
  ReturnLease return_lease_;
  // Address to bytes. Free ranges are merged with neighbours of the same lease.
  std::map<uint64_t, uint64_t> free_, leases_;
  std::map<uint64_t, uint64_t> gaps_;  // addresses of returned leases
  struct Pending {
    uint64_t at, bytes;
    Done done;
  };
  std::vector<Pending> pending_;  // freed, possibly still accessed
};

}  // namespace busbar::client
