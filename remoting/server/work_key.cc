#include "server/work_key.h"

#include <bit>
#include <cstddef>
#include <cstring>

#include "wire/launch_fields.h"
#include "wire/opcodes.h"

namespace busbar::server {

namespace {
// The function, the grid, the block and the shared memory of a launch.
constexpr uint64_t kLaunchBytes =
    offsetof(wire::LaunchFields, config) + offsetof(wire::LaunchConfig, attributes);
constexpr uint64_t kWord = sizeof(uint64_t);
static_assert(kLaunchBytes % kWord == 0);

uint64_t mix(uint64_t hash, uint64_t word) {
  constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;  // 2^64 divided by the golden ratio
  hash = (hash ^ word) * kGolden;                   // NOLINT(custom-unchecked-product): a hash
  return hash ^ hash >> 32;
}

uint64_t word_at(const uint8_t* p) {
  uint64_t word;
  std::memcpy(&word, p, sizeof word);
  return word;
}

uint64_t mix_bytes(uint64_t hash, const uint8_t* p, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += kWord) hash = mix(hash, word_at(p + at));
  return hash;
}
}  // namespace

// The size is the last argument of a copy or fill on the GPU, and the second one of a copy from or
// to the client.
uint64_t work_key(const Record& r) {
  uint64_t hash = r.head.opcode, bytes = r.payload_bytes();
  auto op = (wire::Op)r.head.opcode;
  if (op == wire::Op::launch && bytes >= kLaunchBytes)
    hash = mix_bytes(hash, r.payload, kLaunchBytes);
  else if (op == wire::Op::launch_graph && bytes >= kWord)
    hash = mix(hash, word_at(r.payload));
  else if ((op == wire::Op::copy_in || op == wire::Op::copy_out) && bytes >= 2 * kWord)
    hash = mix(hash, (uint64_t)std::bit_width(word_at(r.payload + kWord)));
  else if (r.head.opcode < wire::kFirstOpcode && bytes >= kWord)
    hash = mix(hash, (uint64_t)std::bit_width(word_at(r.payload + bytes - kWord)));
  return hash ? hash : 1;
}

}  // namespace busbar::server
