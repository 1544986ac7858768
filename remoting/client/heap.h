// Allocator of the arena of a device.
//
// Addresses are chosen in the client and backed by memory leases of the node. Large allocations
// have leases of their own, at the end of the addresses, which go back with them. Others share
// leases that continue each other from the begin, and may span them. A freed range is reused only
// after all work that may access it.
//
// Thread safety: all members may be called from any thread. When no lease has room, allocate()
// blocks until the node has answered. One thread at a time calls `lease`, without the mutex, so
// that others allocate and free meanwhile. The mutex is held during the callbacks `return_lease`
// and `done`.
#pragma once
#include <cuda.h>

#include <functional>
#include <map>
#include <vector>

#include "mutex.h"
#include "wire/format.h"

namespace busbar::client {

class Heap {
 public:
  // Requests a lease at an address. With `asks`, the other sessions of the allocation are asked for
  // unused memory if there is not enough. Returns CUDA_SUCCESS or CUDA_ERROR_OUT_OF_MEMORY.
  using Lease = std::function<CUresult(uint64_t at, uint64_t bytes, bool asks)>;
  using ReturnLease = std::function<void(uint64_t at, uint64_t bytes)>;
  // Returns whether all work that may access a freed range is complete.
  using Done = std::function<bool()>;

  Heap(uint64_t base, uint64_t bytes, Lease lease, ReturnLease return_lease)
      : lease_(std::move(lease)), return_lease_(std::move(return_lease)), gaps_{{base, bytes}} {}

  // Allocates a range, rounded up to 512 bytes. `drain` waits for the work that blocks freed
  // ranges; it is called without the mutex, if the memory does not suffice otherwise. It may be
  // null. With `asks`, the last request for a lease asks other sessions.
  CUresult allocate(uint64_t bytes, const std::function<void()>& drain, uint64_t& at,
                    bool asks = true);
  // Frees a range. It is reused after `done` has returned true. Unused leases of kLeaseBytes in all
  // are kept for the next allocations, unless the partition is exceeded.
  void release(uint64_t at, uint64_t bytes, Done done, bool is_exceeded);
  // Returns the leases that hold nothing. Returns false if there are none.
  bool return_unused();
  uint64_t freed();  // number of ranges that have been freed
  // Number of those among the first `count` that work may still access.
  size_t pending(uint64_t count);
  // Leased memory that is free, without remainders that are smaller than a lease.
  uint64_t unused_bytes();

 private:
  using Ranges = std::map<uint64_t, uint64_t>;  // address to bytes
  // An address for a lease that makes room for an allocation, and the bytes that it needs and can
  // have. `least` is 0 if there is none.
  struct Place {
    uint64_t at = 0, least = 0, most = 0;
  };
  static void add(Ranges& ranges, uint64_t at, uint64_t bytes);
  static void remove(Ranges& ranges, uint64_t at, uint64_t bytes);
  bool is_for_large(uint64_t at) const REQUIRES(mutex_);
  bool allocate_free(uint64_t bytes, uint64_t& at, bool anywhere) REQUIRES(mutex_);
  Place best_place(uint64_t bytes) const REQUIRES(mutex_);
  bool allocate_leased(uint64_t bytes, uint64_t& at, bool is_last, bool asks) EXCLUDES(mutex_);
  bool take_lease(uint64_t at, uint64_t bytes, bool asks) REQUIRES(mutex_);
  bool add_own_lease(uint64_t bytes) REQUIRES(mutex_);
  bool add_shared_lease(uint64_t bytes, uint64_t growth) REQUIRES(mutex_);
  bool add_lease(uint64_t bytes) REQUIRES(mutex_);
  bool add_last_lease(uint64_t bytes, bool asks) REQUIRES(mutex_);
  void reclaim_completed() REQUIRES(mutex_);
  void drain_pending(const std::function<void()>& drain);
  bool return_empty_leases(uint64_t keep) REQUIRES(mutex_);
  bool return_surplus(uint64_t keep) REQUIRES(mutex_);
  const Lease lease_;
  const ReturnLease return_lease_;
  Mutex growth_mutex_;  // held by the thread that requests leases; taken before `mutex_`
  Mutex mutex_;
  uint64_t leased_ GUARDED_BY(mutex_) = 0;        // bytes of `leases_`
  uint64_t free_bytes_ GUARDED_BY(mutex_) = 0;    // bytes of `free_`
  uint64_t large_leases_ GUARDED_BY(mutex_) = 0;  // number of those of large allocations
  // Ranges became free since unused leases were searched.
  bool reclaimed_ GUARDED_BY(mutex_) = false;
  Ranges leases_ GUARDED_BY(mutex_);
  // Leased and unused; neither leased nor requested. Neighbours are merged.
  Ranges free_ GUARDED_BY(mutex_), gaps_ GUARDED_BY(mutex_);
  struct Pending {
    uint64_t at, bytes;
    uint64_t number;  // of freed ranges before this one
    Done done;
  };
  std::vector<Pending> pending_ GUARDED_BY(mutex_);  // freed, possibly still accessed
  uint64_t freed_ GUARDED_BY(mutex_) = 0;
};

}  // namespace busbar::client
