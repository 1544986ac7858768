// A client that opens a session, prints "ready" and waits to be ended.
//   hostile_client idle   Does nothing else.
//   hostile_client spin   Keeps itself and its session server busy.
//   hostile_client lie    Stops, and claims, for ever, that the stream of frames in shared memory
//   has no room.
#include <cuda.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "transport/shared_memory.h"

namespace {

using busbar::transport::SharedHead;

// Returns the head of the session's shared memory, which is the first page of its file.
SharedHead* find_head() {
  FILE* maps = std::fopen("/proc/self/maps", "r");
  char line[512];
  unsigned long long begin = 0, end, offset;
  void* found = nullptr;
  while (maps && !found && std::fgets(line, sizeof line, maps))
    if (std::strstr(line, "memfd:busbar-session") &&
        std::sscanf(line, "%llx-%llx %*s %llx", &begin, &end, &offset) == 3 && offset == 0)
      found = (void*)begin;
  if (maps) std::fclose(maps);
  return (SharedHead*)found;
}

// Lies in a process of its own, because threads of the client library would notice it.
void lie(SharedHead* head) {
  if (fork()) {
    for (;;) pause();
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  kill(getppid(), SIGSTOP);
  head->frames.head.store(1ull << 50);
  std::puts("ready");
  std::fflush(stdout);
  for (;;) {
    head->frames.head.store(1ull << 50);
    usleep(1000);
  }
}

}  // namespace

int main(int argc, char** argv) {
  CUdevice device;
  CUcontext context;
  if (argc != 2 || cuInit(0) || cuDeviceGet(&device, 0) ||
      cuDevicePrimaryCtxRetain(&context, device))
    return 2;
  bool lies = !std::strcmp(argv[1], "lie");
  SharedHead* head = lies ? find_head() : nullptr;
  if (lies && !head) return 3;
  if (lies) lie(head);
  std::puts("ready");
  std::fflush(stdout);
  bool spins = !std::strcmp(argv[1], "spin") && !cuCtxSetCurrent(context);
  while (!spins || !cuCtxSynchronize())
    if (!spins) pause();
}
