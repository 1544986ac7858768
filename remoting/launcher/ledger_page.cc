#include "launcher/ledger_page.h"

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

std::unique_ptr<LedgerPage> LedgerPage::create() {
  constexpr size_t kBytes = sizeof(control::LedgerPage);
  int fd = memfd_create("busbar-ledger", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return nullptr;
  void* at = ftruncate(fd, kBytes)
                 ? MAP_FAILED
                 : mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at != MAP_FAILED && fcntl(fd, F_ADD_SEALS, kSeals) == 0)
    return std::unique_ptr<LedgerPage>(new LedgerPage(fd, (control::LedgerPage*)at));
  if (at != MAP_FAILED) munmap(at, kBytes);
  ::close(fd);
  return nullptr;
}

LedgerPage::~LedgerPage() {
  munmap(values_, sizeof *values_);
  ::close(fd_);
}

}  // namespace busbar::launcher
