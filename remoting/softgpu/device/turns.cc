#include "softgpu/device/turns.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "softgpu/device/clock.h"

namespace softgpu {

namespace {
constexpr uint64_t kRefresh = 100'000'000;  // nanoseconds
constexpr long kPoll = 10'000'000;          // a new process may not know who waits for it

// The page of another process is mapped read-only, which is enough to wait.
int futex(const std::atomic<uint32_t>& word, int op, uint32_t value, const timespec* timeout) {
  return (int)syscall(SYS_futex, &word, op, value, timeout, nullptr, 0);
}

void ignore(Peer& peer, uint64_t at) {
  // NOLINTNEXTLINE(custom-unchecked-product): at most kLongestIgnored
  peer.ignored_for = std::clamp(peer.ignored_for * 2, kShortestIgnored, kLongestIgnored);
  peer.ignored_until = at + peer.ignored_for;
}
}  // namespace

uint64_t Turns::begin_of(const Peer& peer) const {
  return peer.page->devices[device_].waiting_since.load();
}

// Return the process that has the engine, or gets it next; null if that is this process.
Peer* Turns::first_before(uint64_t begin, uint64_t at) const {
  Peer* first = nullptr;
  for (Peer& p : pages_.peers()) {
    uint64_t theirs = begin_of(p);
    if (!theirs || theirs >= begin || p.ignored_until > at) continue;
    begin = theirs;
    first = &p;
  }
  return first;
}

// Return the process directly before this one; null if there is none.
const Peer* Turns::last_before(uint64_t begin, uint64_t at) const {
  const Peer* last = nullptr;
  uint64_t latest = 0;
  for (const Peer& p : pages_.peers()) {
    uint64_t theirs = begin_of(p);
    if (theirs <= latest || theirs >= begin || p.ignored_until > at) continue;
    latest = theirs;
    last = &p;
  }
  return last;
}

void Turns::refresh(uint64_t at) {
  if (at < next_refresh_) return;
  pages_.refresh();
  next_refresh_ = at + kRefresh;
}

void Turns::wait_for_end(const Peer& peer, uint64_t begin) const {
  const auto& ended = peer.page->devices[device_].ended_turns;
  uint32_t seen = ended.load();
  uint64_t theirs = begin_of(peer);
  if (!theirs || theirs >= begin) return;
  timespec timeout{0, kPoll};
  futex(ended, FUTEX_WAIT, seen, &timeout);
}

void Turns::wait_for_others(uint64_t begin) {
  for (Peer& p : pages_.peers()) p.waited = 0;
  for (uint64_t at = begin; at - begin < kLongestWait;) {
    refresh(at);
    Peer* first = first_before(begin, at);
    if (!first) return;
    const Peer* before = last_before(begin, at);
    if (before) wait_for_end(*before, begin);
    uint64_t waited = now() - at;
    at += waited;
    first->waited += waited;
    if (first->waited > kPatience) ignore(*first, at);
  }
}

void Turns::acquire() {
  uint64_t begin = now();
  refresh(begin);
  own_.waiting_since.store(begin);
  if (first_before(begin, begin)) wait_for_others(begin);
  own_.turns.fetch_add(1, std::memory_order_relaxed);
}

void Turns::release(uint64_t busy_nanoseconds) {
  own_.busy_nanoseconds.fetch_add(busy_nanoseconds, std::memory_order_relaxed);
  own_.waiting_since.store(0);
  own_.ended_turns.fetch_add(1);
  for (const Peer& p : pages_.peers())
    if (begin_of(p)) {
      futex(own_.ended_turns, FUTEX_WAKE, INT_MAX, nullptr);
      return;
    }
}

bool Turns::contended() const {
  uint64_t at = now();
  return std::ranges::any_of(
      pages_.peers(), [&](const Peer& p) { return p.ignored_until <= at && begin_of(p) != 0; });
}

}  // namespace softgpu
