// Happens-before relation between the submission of a record and the reply to it.
//
// ThreadSanitizer does not see this relation, because it leads through the session server. Other
// builds compile the class to nothing.
//
// Thread safety: any thread.
#pragma once
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace busbar::client {

class ReplyOrder {
 public:
#ifdef __SANITIZE_THREAD__
  void before_submit() { __tsan_release(this); }
  void after_receive() { __tsan_acquire(this); }
#else
  void before_submit() {}
  void after_receive() {}
#endif
};

}  // namespace busbar::client
