#include "client/graph_input.h"

#include <algorithm>

#include "client/link.h"
#include "client/stream.h"

namespace busbar::client {

constexpr uint32_t kPieceBytes = 32 << 10;

// Pieces of a copy's host memory.
static std::vector<uint8_t> read_piece(const HostCopy& copy, uint64_t offset, uint64_t n) {
  std::vector<uint8_t> bytes;
  bytes.reserve(n);
  copy.rows.pieces(offset, n, [&](const uint8_t* from, uint64_t k) {
    bytes.insert(bytes.end(), from, from + k);
  });
  return bytes;
}

CUresult send_graph_input(Link* link, uint32_t context, Stream& s, const HostCopy& copy) {
  uint64_t total = copy.rows.bytes();
  for (uint64_t offset = 0; offset < total;) {
    uint64_t n = std::min<uint64_t>(total - offset, wire::kMaxChunkBytes);
    std::vector<uint8_t> bytes = read_piece(copy, offset, n);
    bool inlined = n <= wire::kMaxInlineBytes;
    uint64_t transfer = inlined ? 0 : link->upload(bytes.data(), n);
    if (!inlined && !transfer) return link->error();
    wire::Encoder<wire::kMaxInlineBytes + 64> e(wire::Op::stage, context, s.id);
    e.put(copy.staging).put<uint32_t>(0).put(total).put(offset).put(n).put(transfer);
    if (inlined) e.raw(bytes.data(), (uint32_t)n);
    uint64_t position = link->submit(e.finish(), e.size());
    if (!position) return link->error();
    record_submission(&s, position);
    offset += n;
  }
  return CUDA_SUCCESS;
}

CUresult send_graph_input_now(Link* link, const HostCopy& copy) {
  uint64_t total = copy.rows.bytes();
  for (uint64_t offset = 0; offset < total;) {
    uint64_t n = std::min<uint64_t>(total - offset, kPieceBytes);
    std::vector<uint8_t> bytes = read_piece(copy, offset, n);
    wire::Encoder<kPieceBytes + 64> e(wire::Op::stage_immediately, 0);
    e.put(copy.staging).put<uint32_t>(0).put(offset).put(n).raw(bytes.data(), (uint32_t)n);
    if (!link->submit_now(e.finish(), e.size())) return link->error();
    offset += n;
  }
  return CUDA_SUCCESS;
}

}  // namespace busbar::client
