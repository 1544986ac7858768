// Copies between host and device.
#include <algorithm>
#include <cstring>

#include "checked_size.h"
#include "server/copy_descriptor.h"
#include "server/handlers.h"
#include "server/payload_bytes.h"
#include "server/staging.h"

namespace busbar::server {

namespace {

constexpr uint64_t kInlinePushBytes = 16 << 10;  // smaller data travels in the frame

void copy_from_staging(Pipeline& p, const Record& r, StreamState& st, uint64_t to,
                       PinnedBuffer from, uint64_t bytes, uint64_t bulk_bytes) {
  CompletionFence fence;
  if (from) p.fences.check(p.session.cu.cuMemcpyHtoDAsync(to, from.data(), bytes, st.handle));
  fence.consumed.push_back(std::move(from));
  fence.consumed_bytes = bulk_bytes;
  p.fences.record(st, r.position, std::move(fence));
}

// Copies bytes of the record itself.
Outcome copy_inline(Pipeline& p, const Record& r, StreamState& st, uint64_t to, const uint8_t* from,
                    uint64_t bytes) {
  PinnedBuffer staging;
  if (take_staging(p, st, bytes, staging) == Outcome::waits) return Outcome::waits;
  if (staging) std::memcpy(staging.data(), from, bytes);
  copy_from_staging(p, r, st, to, std::move(staging), bytes, 0);
  return Outcome::done;
}

// The driver reads the bytes of a chunk of shared memory where they are.
Outcome copy_shared(Pipeline& p, const Record& r, StreamState& st, uint64_t to, const uint8_t* from,
                    uint64_t bytes, uint32_t chunk) {
  CompletionFence fence;
  p.fences.check(p.session.cu.cuMemcpyHtoDAsync(to, from, bytes, st.handle));
  fence.consumed_chunks.push_back(chunk);
  p.fences.record(st, r.position, std::move(fence));
  return Outcome::done;
}

Outcome copy_transfer(Pipeline& p, const Record& r, StreamState& st, uint64_t to, uint64_t bytes,
                      uint64_t transfer) {
  BulkTransfers& bulk = p.session.bulk;
  PinnedBuffer staging = bulk.collect_pinned(transfer, bytes);
  uint64_t at = bytes;
  if (!staging) {
    if (take_staging(p, st, bytes, staging) == Outcome::waits) return Outcome::waits;
    at = 0;
    for (auto& chunk : bulk.collect(transfer)) {
      uint64_t n = std::min(chunk.size(), bytes - at);
      if (staging) std::memcpy(staging.data() + at, chunk.data(), n);
      at += n;
    }
  }
  copy_from_staging(p, r, st, to, std::move(staging), bytes, at);
  return Outcome::done;
}

// Host memory for one part of a copy to the client: a chunk of shared memory, or a buffer.
struct PartTarget {
  PinnedBuffer buffer;
  int chunk = -1;
  uint8_t* data = nullptr;
};

Outcome take_target(Pipeline& p, StreamState& st, uint64_t bytes, PartTarget& out) {
  Link& link = p.session.link;
  if (link.shared() && bytes > kInlinePushBytes) {
    out.chunk = take_chunk(p, st);
    if (out.chunk < 0) return Outcome::waits;
    out.data = link.shared()->chunk(false, (uint32_t)out.chunk);
    return Outcome::done;
  }
  Outcome outcome = take_staging(p, st, std::max<uint64_t>(bytes, 1), out.buffer);
  out.data = out.buffer.data();
  return outcome;
}

struct OutgoingCopy {
  uint64_t from;
  uint64_t bytes;
  uint64_t transfer;
};

// Submits the part behind r.submitted_bytes. `last` is set for the part that ends the copy.
Outcome copy_part_out(Pipeline& p, Record& r, StreamState& st, const OutgoingCopy& copy,
                      bool& last) {
  uint64_t offset = r.submitted_bytes;
  uint64_t n = std::min<uint64_t>(copy.bytes - offset, wire::kCopyPieceBytes);
  CheckedSize from = CheckedSize(copy.from) + offset;
  PartTarget target;
  if (take_target(p, st, n, target) == Outcome::waits) return Outcome::waits;
  CUresult error = CUDA_SUCCESS;
  if (n && target.data)
    error = p.session.cu.cuMemcpyDtoHAsync(target.data, from.value(), n, st.handle);
  p.fences.check(error);
  last = n == copy.bytes - offset || error || !target.data;
  CompletionFence fence;
  if (target.data)
    fence.deliveries.push_back({copy.transfer, offset, std::move(target.buffer), n, target.chunk});
  // Only the last part completes the record.
  p.fences.record(st, last ? r.position : r.position - 1, std::move(fence));
  r.submitted_bytes += n;
  return Outcome::done;
}

struct RowsCopy {
  CUDA_MEMCPY3D descriptor;
  ProgramSide side;
  uint64_t transfer;
  wire::Decoder payload;  // behind the fields
};

// Copies rows from or to memory of the program.
Outcome copy_rows_through_pool(Pipeline& p, const Record& r, StreamState& st, RowsCopy copy) {
  Session& s = p.session;
  CUDA_MEMCPY3D& c = copy.descriptor;
  uint64_t bytes = copy_bytes(c);
  PinnedBuffer staging;
  if (take_staging(p, st, bytes, staging) == Outcome::waits) return Outcome::waits;
  CompletionFence fence;
  bool to_device = copy.side == ProgramSide::source;
  std::vector<uint8_t> data;
  if (to_device &&
      !take_payload_bytes(s, copy.payload, copy.transfer, bytes, data, fence.consumed_bytes))
    return Outcome::malformed;
  if (staging) {
    if (to_device) std::memcpy(staging.data(), data.data(), bytes);
    replace_program_side(c, copy.side, staging.data());
    p.fences.check(s.cu.cuMemcpy3DAsync(&c, st.handle));
  }
  if (to_device)
    fence.consumed.push_back(std::move(staging));
  else if (staging)
    fence.deliveries.push_back({copy.transfer, 0, std::move(staging), bytes});
  p.fences.record(st, r.position, std::move(fence));
  return Outcome::done;
}

}  // namespace

Transfer handlers::copy_in_transfer(const Record& r) {
  wire::Decoder in = r.decoder();
  in.get<uint64_t>();
  uint64_t bytes = in.get<uint64_t>(), transfer = in.get<uint64_t>();
  return {transfer, bytes};
}

// address, bytes, transfer (0: the bytes follow)
Outcome handlers::copy_in(Pipeline& p, Record& r, StreamState& st) {
  wire::Decoder in = r.decoder();
  uint64_t to = in.get<uint64_t>(), bytes = in.get<uint64_t>(), transfer = in.get<uint64_t>();
  if (!in.ok() || bytes > wire::kMaxChunkBytes) return Outcome::malformed;
  if (const uint8_t* shared = shared_chunk(p.session, transfer, bytes))
    return copy_shared(p, r, st, to, shared, bytes, (uint32_t)transfer);
  if (transfer) return copy_transfer(p, r, st, to, bytes, transfer);
  const uint8_t* from = bytes <= wire::kMaxInlineBytes ? in.raw(bytes) : nullptr;
  return from ? copy_inline(p, r, st, to, from, bytes) : Outcome::malformed;
}

// address, bytes, transfer
Outcome handlers::copy_out(Pipeline& p, Record& r, StreamState& st) {
  wire::Decoder in = r.decoder();
  OutgoingCopy copy{in.get<uint64_t>(), in.get<uint64_t>(), in.get<uint64_t>()};
  if (!in.ok() || !(CheckedSize(copy.from) + copy.bytes).valid()) return Outcome::malformed;
  for (bool last = false; !last;) {
    if (copy_part_out(p, r, st, copy, last) == Outcome::waits) return Outcome::waits;
    p.fences.completions().poll();  // sends finished parts while the next one is copied
  }
  return Outcome::done;
}

Transfer handlers::copy_rows_transfer(const Record& r) {
  wire::Decoder in = r.decoder();
  auto c = in.get<CUDA_MEMCPY3D>();
  auto side = (ProgramSide)in.get<uint32_t>();
  in.get<uint32_t>();
  uint64_t transfer = in.get<uint64_t>();
  return {side == ProgramSide::source ? transfer : 0, copy_bytes(c)};
}

// copy, program's side, graph buffer (in a capture), transfer
Outcome handlers::copy_rows(Pipeline& p, Record& r, StreamState& st) {
  Session& s = p.session;
  wire::Decoder in = r.decoder();
  auto c = in.get<CUDA_MEMCPY3D>();
  auto side = (ProgramSide)in.get<uint32_t>();
  uint32_t graph_buffer = in.get<uint32_t>();
  uint64_t transfer = in.get<uint64_t>();
  if (!in.ok() || !valid_copy(s, c, side)) return Outcome::malformed;
  if (!s.cu.cuMemcpy3DAsync) {
    p.fences.check(CUDA_ERROR_NOT_SUPPORTED, st);
    return Outcome::done;
  }
  if (side == ProgramSide::none || graph_buffer) {
    bool ready = side == ProgramSide::none || use_graph_buffer(s, c, side, graph_buffer);
    p.fences.check(ready ? s.cu.cuMemcpy3DAsync(&c, st.handle) : CUDA_ERROR_OUT_OF_MEMORY, st);
    return Outcome::done;
  }
  if (st.capturing || copy_bytes(c) > wire::kMaxChunkBytes) return Outcome::malformed;
  return copy_rows_through_pool(p, r, st, {c, side, transfer, in});
}

}  // namespace busbar::server
