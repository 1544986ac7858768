#include "client/userfault_pages.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "client/fault_thread.h"

namespace busbar::client {

#ifndef USERFAULTFD_IOC_NEW  // headers before Linux 6.1
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0x00)
#endif

namespace {
constexpr uint64_t kZeroBytes = 64 << 10;
alignas(kManagedPage) const uint8_t kZeros[kZeroBytes] = {};
int g_userfault = -1;

void wake_range(uint64_t at, uint64_t bytes) {
  uffdio_range range{at, bytes};
  ioctl(g_userfault, UFFDIO_WAKE, &range);
}

bool write_protect(uint64_t at, uint64_t bytes, uint64_t mode) {
  uffdio_writeprotect w{{at, bytes}, mode};
  int r;
  do r = ioctl(g_userfault, UFFDIO_WRITEPROTECT, &w);
  while (r && errno == EAGAIN);
  return r == 0;
}

class UserfaultPages : public ManagedPages {
 public:
  UserfaultPages(uint64_t base, uint64_t bytes) : ManagedPages(base, bytes) {}
  ~UserfaultPages() override {
    (void)mmap((void*)base_, bytes_, PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    wake_range(base_, bytes_);
  }

  bool map() {
    void* p = mmap((void*)base_, bytes_, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    uffdio_register r{{base_, bytes_}, UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP, 0};
    // A child would read pages without access as zeros.
    return p != MAP_FAILED && !madvise(p, bytes_, MADV_DONTFORK) &&
           !ioctl(g_userfault, UFFDIO_REGISTER, &r) && take(0, bytes_);
  }

  // Never freed: a transfer that has failed may still arrive.
  uint8_t* inbox(uint64_t) override {
    static auto* buffer = new std::vector<uint8_t>(kManagedFetchBytes);
    return buffer->data();
  }
  bool make_readable(uint64_t offset, uint64_t bytes) override {
    return copy(offset, inbox(offset), bytes);
  }
  bool fill_absent(uint64_t offset, uint64_t bytes) override {
    for (uint64_t done = 0; done < bytes; done += kZeroBytes)
      if (!copy(offset + done, kZeros, std::min(kZeroBytes, bytes - done))) return false;
    return true;
  }
  bool make_writable(uint64_t offset, uint64_t bytes) override {
    return write_protect(base_ + offset, bytes, UFFDIO_WRITEPROTECT_MODE_DONTWAKE);
  }
  const uint8_t* freeze(uint64_t offset, uint64_t bytes) override {
    bool frozen = write_protect(base_ + offset, bytes, UFFDIO_WRITEPROTECT_MODE_WP);
    return frozen ? (const uint8_t*)base_ + offset : nullptr;
  }
  // The program may have locked the pages, or all its memory, by mlock.
  bool take(uint64_t offset, uint64_t bytes) override {
    void* p = (void*)(base_ + offset);
    return !madvise(p, bytes, MADV_DONTNEED) ||
           (!munlock(p, bytes) && !madvise(p, bytes, MADV_DONTNEED));
  }
  void wake(uint64_t offset, uint64_t bytes) override { wake_range(base_ + offset, bytes); }
  void refuse(uint64_t offset, uint64_t bytes) override {
    mprotect((void*)(base_ + offset), bytes, PROT_NONE);
    wake(offset, bytes);
  }

 private:
  // Fills absent pages with content that the program may read. Other pages keep theirs.
  bool copy(uint64_t offset, const uint8_t* from, uint64_t bytes) {
    for (uint64_t done = 0; done < bytes;) {
      uffdio_copy c{base_ + offset + done, (uint64_t)from + done, bytes - done,
                    UFFDIO_COPY_MODE_WP | UFFDIO_COPY_MODE_DONTWAKE, 0};
      if (ioctl(g_userfault, UFFDIO_COPY, &c) == 0) return true;
      if (c.copy > 0)
        done += (uint64_t)c.copy;
      else if (errno == EEXIST)
        done += kManagedPage;
      else if (errno != EAGAIN)
        return false;
    }
    return true;
  }
};

// A thread that tries again gets its access, another fault, or SIGSEGV.
void serve_userfaults(FaultResolver resolve) {
  uffd_msg m;
  while (read_whole(g_userfault, &m, sizeof m)) {
    if (m.event != UFFD_EVENT_PAGEFAULT) continue;
    uint64_t flags = m.arg.pagefault.flags, page = m.arg.pagefault.address & ~(kManagedPage - 1);
    bool protects = flags & UFFD_PAGEFAULT_FLAG_WP;
    if (!resolve({page, protects || (flags & UFFD_PAGEFAULT_FLAG_WRITE), !protects}))
      wake_range(page, kManagedPage);
  }
}

// Faults in system calls need a privilege, so they are never asked for. Containers that forbid the
// system call may have the device.
int open_userfault() {
  int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
  if (fd >= 0) return fd;
  int error = errno, device = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
  if (device >= 0) {
    fd = ioctl(device, USERFAULTFD_IOC_NEW, O_CLOEXEC | UFFD_USER_MODE_ONLY);
    close(device);
  }
  errno = error;
  return fd;
}
}  // namespace

int start_userfaults(FaultResolver resolve) {
  int fd = open_userfault();
  if (fd < 0) return errno;
  uffdio_api api{UFFD_API, UFFD_FEATURE_PAGEFAULT_FLAG_WP, 0};
  if (ioctl(fd, UFFDIO_API, &api)) {
    int error = errno;
    close(fd);
    return error;
  }
  g_userfault = fd;
  if (start_fault_thread([resolve] { serve_userfaults(resolve); })) return 0;
  g_userfault = -1;
  close(fd);
  return EAGAIN;  // what the system reports for a thread too many
}

std::unique_ptr<ManagedPages> map_userfault_pages(uint64_t base, uint64_t bytes) {
  auto pages = std::make_unique<UserfaultPages>(base, bytes);
  return pages->map() ? std::move(pages) : nullptr;
}

}  // namespace busbar::client
