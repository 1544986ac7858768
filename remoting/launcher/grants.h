// The grants of this node, as the agent last sent them. They are kept on disk for a launcher that
// starts without an agent.
//
// Thread safety: any thread.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/arbiters.h"
#include "launcher/gpu_set.h"
#include "launcher/ledgers.h"
#include "launcher/ticket.h"
#include "mutex.h"

namespace busbar::launcher {

// Returns the memory of a partition without a context, which is what programs are offered.
uint64_t offered_bytes(const control::Allocation& allocation, uint32_t partition);
// Returns why no program can use the allocation: a partition cannot hold a context. Empty if it
// can.
std::string lack_of_memory(const control::Allocation& allocation);

class Grants {
 public:
  // Keeps the limits of `ledgers` and the shares of `arbiters` equal to the grants.
  Grants(std::string runtime, Ledgers& ledgers, Arbiters& arbiters)
      : runtime_(std::move(runtime)), ledgers_(ledgers), arbiters_(arbiters) {}

  // Reads the grants from disk. False if there are none.
  bool load();
  // Writes grants to disk, and replaces all by them. A grant with a wrong number of partitions is
  // left out. False if the message is malformed, or if there is no space: then all grants that fit
  // are in force, with the generation of the earlier ones.
  bool replace(const uint8_t* p, size_t n);

  // Checks signature, node, time, fence and GPUs of a ticket. False with a reason for the log. The
  // sizes in the ticket are those at its issue; those of the grant count.
  bool admit(const uint8_t* ticket, size_t n, Ticket& out, control::Allocation& grant,
             std::string& reason);
  // True if a session that was opened under this fence may continue.
  bool permits(const uint8_t* allocation, uint64_t epoch, uint64_t counter);
  uint64_t generation();
  // Returns the allocations that hold more memory than their partitions have: they have shrunk.
  std::vector<control::Holding> over();
  // Returns the allocations whose memory has changed since the last call, by the id in hexadecimal.
  std::set<std::string> take_resized();
  // Returns how many programs may soon start on the GPUs of each allocation: each GPU counts for
  // one set of GPUs, and each set for one program at least.
  std::map<GpuSet, size_t> expected_programs();

 private:
  struct Parsed {
    control::Grants head{};
    std::map<std::string, control::Allocation> grants;
  };
  static std::optional<Parsed> parse(const uint8_t* p, size_t n);
  bool apply(const Parsed& received) REQUIRES(mutex_);
  bool set_limits(const std::string& id, const control::Allocation& allocation);
  // Returns the allocations whose memory differs from that of the present grants.
  std::set<std::string> resized_by(const Parsed& received) const REQUIRES(mutex_);
  uint32_t copy_keys(control::TicketKey* keys);
  std::string reason_against(const Ticket& ticket) const REQUIRES(mutex_);
  int64_t appliance_seconds() const REQUIRES(mutex_);
  const std::string runtime_;
  Ledgers& ledgers_;
  Arbiters& arbiters_;
  Mutex mutex_;
  control::Grants head_ GUARDED_BY(mutex_){};
  // CLOCK_BOOTTIME of the newest message, in seconds.
  int64_t received_boottime_ GUARDED_BY(mutex_) = 0;
  // By the id in hexadecimal.
  std::map<std::string, control::Allocation> by_allocation_ GUARDED_BY(mutex_);
  std::set<std::string> resized_ GUARDED_BY(mutex_);  // since take_resized()
  bool received_ GUARDED_BY(mutex_) = false;
};

}  // namespace busbar::launcher
