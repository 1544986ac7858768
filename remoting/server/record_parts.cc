#include "server/record_parts.h"

#include "checked_size.h"

namespace busbar::server {

bool RecordParts::add(const uint8_t* p, uint64_t n) {
  if (!(CheckedSize(collected_.size()) + n).within(wire::kMaxPayloadBytes)) return false;
  collected_.insert(collected_.end(), p, p + n);
  return true;
}

bool RecordParts::complete(Record& r, std::vector<uint8_t>& payload) {
  if (!add(r.payload, r.payload_bytes())) return false;
  payload.swap(collected_);
  r.payload = payload.data();
  r.head.bytes = (uint32_t)(CheckedSize(payload.size()) + sizeof r.head).value();
  return true;
}

}  // namespace busbar::server
