// Writing into the program's memory, which may not be there.
#include <errno.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstring>

#include "client/session.h"

namespace busbar::client {

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14; older kernels say EINVAL
#endif

// Memory that this library gave out and that only it can take back, which waits for the copies
// under way.
static bool is_ours(const uint8_t* to, uint64_t bytes) {
  if (!session()) return false;
  Region r = session()->addresses.find((uint64_t)to);
  return r.kind == Region::pinned && (uint64_t)to + bytes <= r.base + r.bytes;
}

// Into the program's memory. An unmapped page is an error of the session, never a crash of the
// program.
bool Link::write_program_memory(uint8_t* to, const uint8_t* from, uint64_t bytes) {
  // Pages that are there and writable are written like any memory; the kernel's own copy is slow
  // and kept for small pieces.
  constexpr uint64_t kLargeBytes = 64 << 10, kPage = 4096;
  uint64_t begin = (uint64_t)to & ~(kPage - 1),
           end = ((uint64_t)to + bytes + kPage - 1) & ~(kPage - 1);
  if (is_ours(to, bytes) ||
      (bytes >= kLargeBytes && madvise((void*)begin, end - begin, MADV_POPULATE_WRITE) == 0)) {
    std::memcpy(to, from, bytes);
    return true;
  }
  for (uint64_t done = 0; done < bytes;) {
    iovec source{(uint8_t*)from + done, bytes - done}, target{to + done, bytes - done};
    ssize_t n = process_vm_writev(getpid(), &source, 1, &target, 1, 0);
    if (n <= 0 && errno == EPERM) {
      std::memcpy(to + done, from + done, bytes - done);
      return true;
    }  // forbidden in some containers
    if (n <= 0) {
      fail(CUDA_ERROR_ILLEGAL_ADDRESS, "a copy to host memory met an unmapped page");
      return false;
    }
    done += (uint64_t)n;
  }
  return true;
}

}  // namespace busbar::client
