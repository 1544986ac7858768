#include "client/kernel_output.h"

#include <cstdio>

namespace busbar::client {

bool KernelOutput::empty() {
  std::lock_guard lock(mutex_);
  return pending_.empty() && !writing_;
}

// Call with the lock of stdout, which keeps the order.
void KernelOutput::write() {
  std::string text;
  {
    std::lock_guard lock(mutex_);
    text.swap(pending_);
    writing_ = true;
  }
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
  std::lock_guard lock(mutex_);
  writing_ = false;
}

void KernelOutput::add(const uint8_t* bytes, uint64_t n) {
  {
    std::lock_guard lock(mutex_);
    pending_.append((const char*)bytes, n);
  }
  try_flush();
}

// Another thread that writes here may not have seen the newest bytes, so it looks again when it has
// released stdout.
void KernelOutput::try_flush() {
  while (!empty() && ftrylockfile(stdout) == 0) {
    write();
    funlockfile(stdout);
  }
}

void KernelOutput::flush() {
  while (!empty()) {
    flockfile(stdout);
    write();
    funlockfile(stdout);
  }
}

}  // namespace busbar::client
