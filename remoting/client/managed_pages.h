// Pages of one managed allocation in the program, and the faults of its threads.
//
// A range starts as zeros that the program may read. A fault of the program is an access that it
// does not have: it is passed to the resolver, on a thread of its own, and the thread that faulted
// waits. Faults come by userfaultfd: neither handlers nor masks of signals matter. Where the
// system does not permit that, they come by SIGSEGV (fault_signal.h).
//
// Thread safety: the caller serializes all calls but the destructor, and may hold a lock that the
// resolver takes.
#pragma once
#include <cstdint>
#include <memory>

namespace busbar::client {

constexpr uint64_t kManagedPage = 4096;
constexpr uint64_t kManagedFetchBytes = 2 << 20;  // that inbox() holds

struct PageFault {
  uint64_t address = 0;
  bool write = false;
  bool absent = false;  // the page may have no content yet
};
// Gives the access, or returns false if the thread is to get SIGSEGV.
using FaultResolver = bool (*)(const PageFault&);

// Offsets and sizes are multiples of pages within the range.
class ManagedPages {
 public:
  virtual ~ManagedPages() = default;  // returns the range to the reservation of the arena
  ManagedPages(const ManagedPages&) = delete;

  // Return memory that holds the new content of a range until make_readable().
  virtual uint8_t* inbox(uint64_t offset) = 0;
  // Replaces the content of a range without access by that of inbox(). No thread sees half of it.
  virtual bool make_readable(uint64_t offset, uint64_t bytes) = 0;
  // Makes absent pages of a range zeros that the program may read.
  virtual bool fill_absent(uint64_t offset, uint64_t bytes) = 0;
  virtual bool make_writable(uint64_t offset, uint64_t bytes) = 0;
  // Stops writes to a range. Returns memory with its content, readable until take(), or null.
  virtual const uint8_t* freeze(uint64_t offset, uint64_t bytes) = 0;
  // Ends all access of the program to a range. Its content is lost.
  virtual bool take(uint64_t offset, uint64_t bytes) = 0;
  // Makes threads that wait for an access to a range try again.
  virtual void wake(uint64_t offset, uint64_t bytes) = 0;
  // Makes accesses to a range without access end in SIGSEGV.
  virtual void refuse(uint64_t offset, uint64_t bytes) = 0;

 protected:
  ManagedPages(uint64_t base, uint64_t bytes) : base_(base), bytes_(bytes) {}
  const uint64_t base_, bytes_;
};

}  // namespace busbar::client
