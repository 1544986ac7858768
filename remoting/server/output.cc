#include "server/output.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <thread>

namespace busbar::server {

constexpr size_t kPartBytes = 16 << 10;

Output::Output(Link& link) : link_(link) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC)) return;
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  dup2(ends[1], STDOUT_FILENO);
  close(ends[1]);
  read_ = ends[0];
  std::thread([this] {
    pollfd p{read_, POLLIN, 0};
    while (poll(&p, 1, -1) >= 0) pass_on();
  }).detach();
}

void Output::pass_on() {
  std::fflush(stdout);
  std::lock_guard lock(mutex_);
  char part[kPartBytes];
  for (ssize_t n; read_ >= 0 && (n = read(read_, part, sizeof part)) > 0;)
    link_.send(wire::Frame::output, part, (size_t)n);
}

void flush_output(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  CUresult r = s.cu.cuCtxSynchronize();
  if (s.output) s.output->pass_on();
  s.reply(reply, r);
}

}  // namespace busbar::server
