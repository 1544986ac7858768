#include "client/protected_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include "client/fault_signal.h"

namespace busbar::client {

namespace {
class ProtectedPages : public ManagedPages {
 public:
  ProtectedPages(uint64_t base, uint64_t bytes) : ManagedPages(base, bytes) {}
  ~ProtectedPages() override {
    (void)mmap((void*)base_, bytes_, PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    if (alias_ != MAP_FAILED) munmap(alias_, bytes_);
  }

  // Maps the range and its alias to the same pages.
  bool map() {
    int fd = memfd_create("busbar-managed", MFD_CLOEXEC);
    if (fd < 0) return false;
    bool mapped =
        ftruncate(fd, (off_t)bytes_) == 0 &&
        mmap((void*)base_, bytes_, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED &&
        !madvise((void*)base_, bytes_, MADV_DONTFORK);
    if (mapped) alias_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    add_fault_range(base_, bytes_);
    return alias_ != MAP_FAILED;
  }

  uint8_t* inbox(uint64_t offset) override { return (uint8_t*)alias_ + offset; }
  bool make_readable(uint64_t offset, uint64_t bytes) override {
    return protect(offset, bytes, PROT_READ);
  }
  bool fill_absent(uint64_t, uint64_t) override { return true; }
  bool make_writable(uint64_t offset, uint64_t bytes) override {
    return protect(offset, bytes, PROT_READ | PROT_WRITE);
  }
  const uint8_t* freeze(uint64_t offset, uint64_t bytes) override {
    return take(offset, bytes) ? inbox(offset) : nullptr;
  }
  bool take(uint64_t offset, uint64_t bytes) override { return protect(offset, bytes, PROT_NONE); }
  void wake(uint64_t, uint64_t) override {}
  void refuse(uint64_t, uint64_t) override {}

 private:
  bool protect(uint64_t offset, uint64_t bytes, int protection) {
    return mprotect((void*)(base_ + offset), bytes, protection) == 0;
  }

  void* alias_ = MAP_FAILED;
};
}  // namespace

std::unique_ptr<ManagedPages> map_protected_pages(uint64_t base, uint64_t bytes) {
  auto pages = std::make_unique<ProtectedPages>(base, bytes);
  return pages->map() ? std::move(pages) : nullptr;
}

}  // namespace busbar::client
