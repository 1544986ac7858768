// The output of kernels. The driver writes it to the standard output of this process when a context
// is synchronised; it is forwarded to the client's standard output.
//
// Thread safety: any thread.
#pragma once
#include <mutex>

#include "server/link.h"

namespace busbar::server {

class KernelOutput {
 public:
  explicit KernelOutput(Link& link);  // replaces descriptor 1 by a pipe
  // Sends everything that has been written. May wait until the pipe has room.
  void flush();

 private:
  void send_written();
  Link& link_;
  int read_end_ = -1;
  std::mutex mutex_;  // keeps the order of the bytes
};

}  // namespace busbar::server
