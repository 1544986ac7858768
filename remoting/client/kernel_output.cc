#include "client/kernel_output.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

namespace busbar::client {

namespace {
constexpr uint64_t kPieceBytes = 64 << 10;  // else each of many small ones would cost its overhead
}  // namespace

bool KernelOutput::empty() {
  MutexLock lock(mutex_);
  return pending_.empty() && !writing_;
}

// Call with the lock of stdout, which keeps the order.
void KernelOutput::write() {
  std::deque<std::string> pieces;
  uint64_t dropped;
  {
    MutexLock lock(mutex_);
    pieces.swap(pending_);
    dropped = std::exchange(dropped_bytes_, 0);
    pending_bytes_ = 0;
    writing_ = true;
  }
  if (dropped)
    dprintf(STDERR_FILENO, "busbar: %llu bytes that kernels printed are lost: stdout was in use\n",
            (unsigned long long)dropped);
  for (auto& piece : pieces) std::fwrite(piece.data(), 1, piece.size(), stdout);
  std::fflush(stdout);
  MutexLock lock(mutex_);
  writing_ = false;
}

void KernelOutput::drop_oldest() {
  uint64_t bytes = pending_.front().size();
  pending_.pop_front();
  pending_bytes_ -= bytes;
  dropped_bytes_ += bytes;
}

void KernelOutput::add(const uint8_t* bytes, uint64_t n) {
  {
    MutexLock lock(mutex_);
    if (pending_.empty() || pending_.back().size() + n > kPieceBytes) pending_.emplace_back();
    pending_.back().append((const char*)bytes, n);
    pending_bytes_ += n;
    while (pending_bytes_ > kMostBytes) drop_oldest();
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
