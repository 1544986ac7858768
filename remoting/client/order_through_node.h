// For ThreadSanitizer, which cannot see it: what a thread did before a record is over before the
// node's answer to it is read. Other builds have nothing of this.
#pragma once
#include <cstdlib>
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace busbar::client {

class OrderThroughNode {
 public:
#ifdef __SANITIZE_THREAD__
  void leave() {
    __tsan_release(this);
    if (planted_race_) ++unguarded_;
  }
  void arrive() { __tsan_acquire(this); }

 private:
  const bool planted_race_ =
      std::getenv("BUSBAR_FAILPOINT_RACE") != nullptr;  // what `./test --long tsan` must notice
  long unguarded_ = 0;
#else
  void leave() {}
  void arrive() {}
#endif
};

}  // namespace busbar::client
