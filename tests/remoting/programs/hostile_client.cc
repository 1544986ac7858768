// A client that opens a session, prints "ready" and waits to be ended.
//   hostile_client idle   Does nothing else.
//   hostile_client spin   Keeps itself and its session server busy.
//   hostile_client lie    Stops, and claims, for ever, that the stream of frames in shared memory
//   has no room.
//   hostile_client malformed   Sends a record that is none.
//   hostile_client exit   Ends in an orderly way after the next line of input.
#include <cuda.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "transport/shared_memory.h"
#include "wire/format.h"

namespace {

using busbar::transport::SharedHead;

constexpr unsigned long long kRecordsAt = 4096, kRecordBytes = 1 << 20;

// Returns the mapping of the session's shared memory that begins at an offset of its file. The
// first page is its head.
void* find_mapping(unsigned long long from) {
  FILE* maps = std::fopen("/proc/self/maps", "r");
  char line[512];
  unsigned long long begin = 0, end, offset;
  void* found = nullptr;
  while (maps && !found && std::fgets(line, sizeof line, maps))
    if (std::strstr(line, "memfd:busbar-session") &&
        std::sscanf(line, "%llx-%llx %*s %llx", &begin, &end, &offset) == 3 && offset == from)
      found = (void*)begin;
  if (maps) std::fclose(maps);
  return found;
}

// The session server looks for records each second, also without a wake.
void send_malformed(SharedHead* head, uint8_t* records) {
  busbar::wire::RecordHeader record{sizeof record, 0xffff, 0, 0, 0};
  uint64_t at = head->records.tail.fetch_add(sizeof record);
  std::memcpy(records + at % kRecordBytes, &record, sizeof record);
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
  auto is = [&](const char* mode) {
    return !std::strcmp(argv[1], mode);
  };
  auto* head = (SharedHead*)find_mapping(0);
  auto* records = (uint8_t*)find_mapping(kRecordsAt);
  if ((is("lie") && !head) || (is("malformed") && (!head || !records))) return 3;
  if (is("lie")) lie(head);
  if (is("malformed")) send_malformed(head, records);
  std::puts("ready");
  std::fflush(stdout);
  if (is("exit")) return std::getchar() == EOF;
  bool spins = is("spin") && !cuCtxSetCurrent(context);
  while (!spins || !cuCtxSynchronize())
    if (!spins) pause();
}
