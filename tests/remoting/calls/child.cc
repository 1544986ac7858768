#include "child.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

Progress* const progress = (Progress*)mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE,
                                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);

namespace {
constexpr int kSecondsOfACall = 20;

// Execute `work` in a child from progress->next on until it is `end`. Return false after a crash.
bool run_child(const std::function<void(Objects&)>& work) {
  fflush(stdout);
  pid_t child = fork();
  if (!child) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    Objects objects;
    work(objects);
    fflush(stdout);
    _exit(0);
  }
  int descriptor = (int)syscall(SYS_pidfd_open, child, 0), status = 0;
  for (uint64_t seen = ~0ull;;) {
    pollfd p{descriptor, POLLIN, 0};
    if (poll(&p, 1, kSecondsOfACall * 1000)) break;
    if (seen == progress->calls) {
      kill(child, SIGKILL);
      printf("HANG %s\n", progress->doing);
      break;
    }
    seen = progress->calls;
  }
  waitpid(child, &status, 0);
  close(descriptor);
  if (status) printf("\nCRASH %s: status %x\n", progress->doing, status);
  return status == 0;
}

}  // namespace

void note(const Function& f, const char* parameter, const char* fault) {
  snprintf(progress->doing, sizeof progress->doing, "%s %s=%s", f.name, parameter, fault);
}

bool run_all(int end, int of_a_child, const std::function<void(int, Objects&)>& one) {
  bool crashed = false;
  for (progress->next = 0; progress->next < end;) {
    int last = std::min(end, progress->next + of_a_child);
    crashed |= !run_child([&](Objects& objects) {
      while (progress->next < last) one(progress->next++, objects);
    });
  }
  return crashed;
}
