// Futex waits and wakes on a 32-bit atomic word.
//
// Thread safety: any thread. A word in memory that two processes share needs Scope::shared.
#pragma once
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>

namespace busbar::transport {

enum class Scope { process, shared };

// Blocks while `word` holds `value`, until a wake or the timeout. May return spuriously.
inline void futex_wait(std::atomic<uint32_t>& word, uint32_t value, const timespec& timeout,
                       Scope scope) {
  int op = scope == Scope::process ? FUTEX_WAIT_PRIVATE : FUTEX_WAIT;
  syscall(SYS_futex, &word, op, value, &timeout, nullptr, 0);
}

// Wakes at most `count` waiters.
inline void futex_wake(std::atomic<uint32_t>& word, Scope scope, int count = INT_MAX) {
  int op = scope == Scope::process ? FUTEX_WAKE_PRIVATE : FUTEX_WAKE;
  syscall(SYS_futex, &word, op, count, nullptr, nullptr, 0);
}

inline timespec milliseconds(int ms) {
  return {ms / 1000, (ms % 1000) * 1'000'000L};
}

}  // namespace busbar::transport
