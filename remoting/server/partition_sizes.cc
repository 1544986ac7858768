#include "server/partition_sizes.h"

#include "server/session.h"

namespace busbar::server {

void announce_partition_sizes(Session& s) {
  bool exceeded = false;
  for (uint32_t index = 0; index < s.devices.size(); ++index) {
    DeviceState& d = s.devices[index];
    uint64_t bytes = s.account.limit(d.partition);
    bool is_exceeded = s.account.charged(d.partition) > bytes;
    exceeded |= is_exceeded;
    if (bytes == d.known_bytes && is_exceeded == d.known_as_exceeded) continue;
    if (is_exceeded) s.memory_wanted = true;
    d.known_bytes = bytes;
    d.known_as_exceeded = is_exceeded;
    struct {
      uint32_t device, is_exceeded;
      uint64_t bytes;
    } body{index, is_exceeded, bytes};
    s.link.send(wire::Frame::partition_size, &body, sizeof body);
  }
  s.exceeds_partition = exceeded;
}

void ask_for_unused_memory(Session& s) {
  if (s.memory_wanted.exchange(false)) s.link.send(wire::Frame::memory_wanted, nullptr, 0);
}

}  // namespace busbar::server
