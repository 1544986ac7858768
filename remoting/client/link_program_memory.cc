// Writes to the program's memory, whose pages may be missing or read-only.
#include <errno.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstring>

#include "client/link.h"

namespace busbar::client {

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14; older kernels return EINVAL
#endif

// Return whether the range is pinned memory of this library. It stays mapped during the copy:
// cuMemFreeHost waits for copies in progress.
bool Link::is_pinned(const uint8_t* to, uint64_t bytes) const {
  Region r = addresses_.find((uint64_t)to);
  return r.kind == Region::pinned && (uint64_t)to + bytes <= r.base + r.bytes;
}

// An inaccessible page fails the session instead of crashing the program. Large writes populate the
// pages and copy directly; process_vm_writev, which is slower, serves small ones.
bool Link::write_program_memory(uint8_t* to, const uint8_t* from, uint64_t bytes) {
  constexpr uint64_t kLargeBytes = 64 << 10, kPage = 4096;
  uint64_t begin = (uint64_t)to & ~(kPage - 1);
  uint64_t end = ((uint64_t)to + bytes + kPage - 1) & ~(kPage - 1);
  if (is_pinned(to, bytes) ||
      (bytes >= kLargeBytes && madvise((void*)begin, end - begin, MADV_POPULATE_WRITE) == 0)) {
    std::memcpy(to, from, bytes);
    return true;
  }
  for (uint64_t done = 0; done < bytes;) {
    iovec source{(uint8_t*)from + done, bytes - done}, target{to + done, bytes - done};
    ssize_t n = process_vm_writev(getpid(), &source, 1, &target, 1, 0);
    if (n <= 0 && errno == EPERM) {  // some containers forbid the call
      std::memcpy(to + done, from + done, bytes - done);
      return true;
    }
    if (n <= 0) {
      fail(CUDA_ERROR_ILLEGAL_ADDRESS, "a copy to host memory reached an inaccessible page");
      return false;
    }
    done += (uint64_t)n;
  }
  return true;
}

}  // namespace busbar::client
