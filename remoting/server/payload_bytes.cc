#include "server/payload_bytes.h"

namespace busbar::server {

const uint8_t* shared_chunk(Session& s, uint64_t transfer, uint64_t bytes) {
  uint32_t chunk = (uint32_t)transfer;
  if (!(transfer & wire::kSharedChunkFlag) || !s.link.shared() ||
      chunk >= transport::kSharedChunks || bytes > transport::kSharedChunkBytes)
    return nullptr;
  return s.link.shared()->chunk(true, chunk);
}

bool take_payload_bytes(Session& s, wire::Decoder& in, uint64_t transfer, uint64_t bytes,
                        std::vector<uint8_t>& out, uint64_t& bulk_bytes) {
  bulk_bytes = 0;
  if (const uint8_t* shared = shared_chunk(s, transfer, bytes)) {
    out.assign(shared, shared + bytes);
    s.link.shared()->release_chunk(true, (uint32_t)transfer);
    return true;
  }
  if (!transfer) {
    const uint8_t* from = bytes <= wire::kMaxInlineBytes ? in.raw(bytes) : nullptr;
    if (from) out.assign(from, from + bytes);
    return from != nullptr;
  }
  for (auto& chunk : s.bulk.collect(transfer))
    out.insert(out.end(), chunk.data(), chunk.data() + chunk.size());
  bulk_bytes = out.size();
  return out.size() == bytes;
}

}  // namespace busbar::server
