#include "server/kernel_output.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <thread>

#include "server/handlers.h"
#include "server/pipeline.h"
#include "server/submit.h"

namespace busbar::server {

namespace {
constexpr size_t kReadBytes = 16 << 10;
}  // namespace

KernelOutput::KernelOutput(Link& link) : link_(link) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC)) return;
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  dup2(ends[1], STDOUT_FILENO);
  close(ends[1]);
  read_end_ = ends[0];
  std::thread([this] {
    pollfd p{read_end_, POLLIN, 0};
    while (poll(&p, 1, -1) >= 0) send_written();
  }).detach();
}

void KernelOutput::flush() {
  std::fflush(stdout);
  send_written();
}

// Takes no lock of the C library: a thread that waits for room in the pipe holds it.
void KernelOutput::send_written() {
  std::lock_guard lock(mutex_);
  char bytes[kReadBytes];
  for (ssize_t n; read_end_ >= 0 && (n = read(read_end_, bytes, sizeof bytes)) > 0;)
    link_.send(wire::Frame::kernel_output, bytes, (size_t)n);
}

// -> nothing, once the output of all kernels of this context has been sent. During a capture the
// context cannot be synchronised: the reply is sent at once.
bool handlers::flush_output(Pipeline& p, const Record& r) {
  Session& s = p.session;
  uint64_t reply = r.decoder().get<uint64_t>();
  if (s.active_captures) {
    s.reply(reply, CUDA_SUCCESS);
    return true;
  }
  post(p, p.workers.synchronize, 0, [&s, reply] {
    CUresult status = s.cu.cuCtxSynchronize();
    if (s.output) s.output->flush();
    s.reply(reply, status);
  });
  return true;
}

}  // namespace busbar::server
