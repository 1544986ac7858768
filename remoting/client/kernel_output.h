// Buffers the output of printf() in kernels until it is written to the standard output.
//
// Thread safety: any thread. add() never waits for the lock of stdout: a thread of the program may
// hold it while it waits for a frame or for a page of managed memory, and frames are read by the
// caller of add(). mutex_ is taken under that lock, never the other way round.
//
// The buffer is bounded. When it is full, it drops its oldest bytes, as the buffer of a GPU does; a
// line on standard error says how many.
#pragma once
#include <cstdint>
#include <deque>
#include <string>

#include "mutex.h"

namespace busbar::client {

class KernelOutput {
 public:
  static constexpr uint64_t kMostBytes = 64 << 20;  // that wait; a GPU has 1 MiB by default
  // Writes the bytes through stdout, in order with the program's own output. If a thread uses
  // stdout, they stay here until the next call of any member.
  void add(const uint8_t* bytes, uint64_t n);
  void try_flush();  // writes what is left, unless a thread uses stdout
  // Writes what is left. Waits for a thread that uses stdout, so the caller must not read frames.
  void flush();

 private:
  bool empty();
  void write();
  void drop_oldest() REQUIRES(mutex_);
  Mutex mutex_;
  std::deque<std::string> pending_ GUARDED_BY(mutex_);  // of one add(), or of several small ones
  uint64_t pending_bytes_ GUARDED_BY(mutex_) = 0;
  uint64_t dropped_bytes_ GUARDED_BY(mutex_) = 0;  // before `pending_`
  // A thread with the lock of stdout writes what was pending.
  bool writing_ GUARDED_BY(mutex_) = false;
};

}  // namespace busbar::client
