// Happens-before relation between the submission of a record and the reply to it.
//
// ThreadSanitizer does not see this relation, because it leads through the session server. Other
// builds compile the class to nothing.
//
// Thread safety: any thread.
#pragma once
#include <cstdlib>
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace busbar::client {

class ReplyOrder {
 public:
#ifdef __SANITIZE_THREAD__
  void before_submit() {
    __tsan_release(this);
    if (planted_race_) ++unguarded_;
  }
  void after_receive() { __tsan_acquire(this); }

 private:
  // A deliberate race, which `./test --long tsan` must report.
  const bool planted_race_ = std::getenv("BUSBAR_FAILPOINT_RACE") != nullptr;
  long unguarded_ = 0;
#else
  void before_submit() {}
  void after_receive() {}
#endif
};

}  // namespace busbar::client
