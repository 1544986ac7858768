#include "launcher/sealed_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace busbar::launcher {

namespace {
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
// The mapping of the launcher stays writable; no later one is. The size is fixed, so an access of
// the launcher cannot fail.
constexpr int kSeals = F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
}  // namespace

std::unique_ptr<SealedMemory> SealedMemory::create(const char* name, size_t bytes) {
  int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return nullptr;
  void* at = ftruncate(fd, (off_t)bytes)
                 ? MAP_FAILED
                 : mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at != MAP_FAILED && fcntl(fd, F_ADD_SEALS, kSeals) == 0)
    return std::unique_ptr<SealedMemory>(new SealedMemory(fd, at, bytes));
  if (at != MAP_FAILED) munmap(at, bytes);
  ::close(fd);
  return nullptr;
}

SealedMemory::~SealedMemory() {
  munmap(data_, bytes_);
  ::close(fd_);
}

}  // namespace busbar::launcher
