// The attempts of a request for device memory before it fails for lack of memory. ADR 5.
#pragma once

namespace busbar::client {

// A caller with a lock cannot wait for work, which may wait for another thread that needs the lock.
// It makes the attempts of request_with_lock(): the process's own freed memory comes first.
enum class Attempt {
  waits,  // for the work that delays the return of freed memory, then asks other sessions
  first,  // neither
  last,   // asks other sessions
};

}  // namespace busbar::client
