// What kernels print. The driver writes it to this process's standard output, when it synchronises;
// from there it goes to the client's.
#pragma once
#include <mutex>

#include "server/session.h"

namespace busbar::server {

class Output {
 public:
  explicit Output(Link& link);  // takes descriptor 1 over
  void pass_on();               // everything that was written until now is sent

 private:
  Link& link_;
  int read_ = -1;
  std::mutex mutex_;  // bytes keep their order
};

}  // namespace busbar::server
