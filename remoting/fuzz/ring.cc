// libFuzzer target: the ring of records in memory that a hostile client shares with the node.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

#include "transport/ring.h"
#include "wire/decode.h"

using namespace busbar;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n) {
  constexpr uint64_t kBytes = 128 << 10;
  static uint8_t* memory = [] {
    int fd = memfd_create("ring", 0);
    if (ftruncate(fd, kBytes)) _exit(1);
    return transport::map_twice(fd, 0, kBytes, false);
  }();
  if (n < 16) return 0;
  transport::RingHead head;
  uint64_t words[2];
  std::memcpy(words, data, 16);
  head.head = words[0];
  head.tail = words[1];
  std::memset(memory, 0, kBytes);
  std::memcpy(memory + words[0] % kBytes / 16 * 16, data + 16, n - 16 < kBytes ? n - 16 : kBytes);
  transport::Ring ring(&head, memory, kBytes);
  std::vector<uint8_t> out;
  for (int i = 0; i < 4 && ring.read_records(out, 4096); ++i) {
    uint64_t at = 0;
    wire::RecordHeader h;
    while (at < out.size()) {
      if (wire::next_record(out.data() + at, out.size() - at, h) != 1) __builtin_trap();
      at += h.bytes;
    }  // only whole records may be returned
    out.clear();
  }
  return 0;
}
