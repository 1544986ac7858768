#include "client/graph_input.h"

#include <algorithm>

#include "client/link.h"
#include "client/stream.h"

namespace busbar::client {

CUresult send_graph_input(Link* link, uint32_t context, Stream* s, const HostCopy& copy) {
  uint64_t total = copy.rows.bytes();
  for (uint64_t offset = 0; offset < total;) {
    uint64_t n = std::min<uint64_t>(total - offset, wire::kMaxChunkBytes);
    std::vector<uint8_t> bytes;
    bytes.reserve(n);
    copy.rows.pieces(offset, n, [&](const uint8_t* from, uint64_t k) {
      bytes.insert(bytes.end(), from, from + k);
    });
    bool inlined = n <= wire::kMaxInlineBytes;
    uint64_t transfer = inlined ? 0 : link->upload(bytes.data(), n);
    if (!inlined && !transfer) return link->error();
    wire::Encoder<wire::kMaxInlineBytes + 64> e(s ? wire::Op::stage : wire::Op::stage_immediately,
                                                context, s ? s->id : wire::kNoStream);
    e.put(copy.staging).put<uint32_t>(0).put(total).put(offset).put(n).put(transfer);
    if (inlined) e.raw(bytes.data(), (uint32_t)n);
    uint64_t position =
        s ? link->submit(e.finish(), e.size()) : link->submit_now(e.finish(), e.size());
    if (!position) return link->error();
    if (s) record_submission(s, position);
    offset += n;
  }
  return CUDA_SUCCESS;
}

}  // namespace busbar::client
