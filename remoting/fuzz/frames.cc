// libFuzzer target: frames that a client receives from a faulty or hostile session server.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#define private public  // parse_frames() is a private member
#include "client/link.h"
#undef private

using namespace busbar;
using namespace busbar::client;

namespace {
// The input is a list of frames: kind, length, bytes; or raw bytes when it begins with 0xff.
std::vector<uint8_t> frames_of(const uint8_t* p, size_t n) {
  std::vector<uint8_t> out;
  while (n >= 2) {
    wire::FrameHeader h{p[1], (uint16_t)(p[0] % 14), 0};
    p += 2;
    n -= 2;
    if (h.bytes > n) h.bytes = (uint32_t)n;
    size_t at = out.size();
    out.resize(at + sizeof h + h.bytes);
    std::memcpy(out.data() + at, &h, sizeof h);
    std::memcpy(out.data() + at + sizeof h, p, h.bytes);
    p += h.bytes;
    n -= h.bytes;
  }
  return out;
}

// The program's memory. Nothing may be written beside it.
struct ProgramMemory {
  uint8_t before[4096], bytes[4096], after[4096];
  bool intact() const {
    auto zero = [](uint8_t b) {
      return b == 0;
    };
    return std::all_of(std::begin(before), std::end(before), zero) &&
           std::all_of(std::begin(after), std::end(after), zero);
  }
};
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n) {
  static ProgramMemory program;
  uint8_t (&memory)[sizeof program.bytes] = program.bytes;
  static const FILE* nowhere = std::freopen("/dev/null", "w", stdout);  // what kernels print
  if (n < 2 || !nowhere) return 0;
  static const AddressMap addresses;  // empty: no pinned memory
  Link link(addresses);
  link.closing_ = true;  // suppresses messages
  // Created once: this takes longer than one run of the target.
  static transport::Ring ring(64 << 10);
  static transport::SharedMemory* memory_of_both = [] {
    int fd = -1;
    auto m = transport::SharedMemory::create(fd);
    close(fd);
    return m.release();
  }();
  link.records_ = &ring;
  if (data[0] & 1) link.shared_.reset(memory_of_both);
  Progress progress;
  Reply reply;
  link.track(1, &progress);
  link.replies_[1] = &reply;
  auto second = std::make_shared<std::vector<uint8_t>>(sizeof memory);
  link.incoming_[2] = {
      Rows::flat(memory, sizeof memory), 0, sizeof memory, sizeof memory, {second, memory}};
  link.incoming_[3] = {{memory, 16, 64, 8, 1024, 2}, 0, 256, 256};
  link.register_staging(4, Rows::flat(memory, 1024));
  link.incoming_[5] = {Rows::flat((void*)4096, 256), 0, 256, 256};  // an unmapped page
  if (!(data[0] & 2)) {
    link.on_host_function = [](uint64_t) {
    };
    link.on_graph_function = [](uint64_t, uint64_t) {
    };
  }
  if (data[1] == 0xff)
    link.inbox_.assign(data + 2, data + n);
  else
    link.inbox_ = frames_of(data + 1, n - 1);
  link.parse_frames();
  link.shared_.release();
  if (!program.intact()) abort();
  return 0;
}
