// Launches of graphs, and the data of their graph buffers.
#include <algorithm>
#include <cstring>
#include <memory>

#include "server/handlers.h"
#include "server/payload_bytes.h"
#include "server/staging.h"

namespace busbar::server {

namespace {

// A copy that the driver runs in the order of a stream.
struct HostCopy {
  uint8_t* to;
  const uint8_t* from;
  uint64_t bytes;
};

void CUDA_CB copy_on_host(void* data) {
  std::unique_ptr<HostCopy> c((HostCopy*)data);
  std::memcpy(c->to, c->from, c->bytes);
}

void enqueue_copy(Pipeline& p, StreamState& st, uint8_t* to, const uint8_t* from, uint64_t bytes) {
  std::unique_ptr<HostCopy> copy(new HostCopy{to, from, bytes});
  CUresult error = p.session.cu.cuLaunchHostFunc(st.handle, copy_on_host, copy.get());
  if (!error) (void)copy.release();  // copy_on_host owns it now
  p.fences.check(error);
}

struct StageFields {
  uint32_t buffer;
  uint64_t offset, bytes, transfer;
};

StageFields read_stage_fields(wire::Decoder& in) {
  StageFields f{};
  f.buffer = in.get<uint32_t>();
  in.get<uint32_t>();
  in.get<uint64_t>();
  f.offset = in.get<uint64_t>();
  f.bytes = in.get<uint64_t>();
  f.transfer = in.get<uint64_t>();
  return f;
}

bool fits(const GraphBuffer& b, const StageFields& f) {
  return b.data && f.offset <= b.bytes && f.bytes <= b.bytes - f.offset;
}

struct GraphOutput {
  GraphBuffer from;
  uint64_t transfer;
};

// Reads the outputs of a launch. Returns false if one is malformed.
bool read_outputs(Session& s, wire::Decoder& in, uint32_t count, std::vector<GraphOutput>& out) {
  for (uint32_t i = 0; i < count; ++i) {
    uint64_t id = in.get<uint64_t>(), transfer = in.get<uint64_t>();
    out.push_back({s.graph_buffers.find((uint32_t)id), transfer});
    if (!in.ok() || !out.back().from.data) return false;
  }
  return true;
}

// Copies a part of a graph buffer to staging behind the launch, because the next launch may
// overwrite it before the bytes are sent.
Outcome copy_part(Pipeline& p, const Record& r, StreamState& st, const GraphOutput& output,
                  uint64_t offset, uint64_t bytes) {
  PinnedBuffer staging;
  if (take_staging(p, st, bytes, staging) == Outcome::waits) return Outcome::waits;
  CompletionFence fence;
  if (staging) {
    enqueue_copy(p, st, staging.data(), output.from.data + offset, bytes);
    fence.deliveries.push_back({output.transfer, offset, std::move(staging), bytes});
  }
  p.fences.record(st, r.position - 1, std::move(fence));
  return Outcome::done;
}

// Copies what lies behind the first `r.submitted_bytes` of all outputs.
Outcome copy_outputs(Pipeline& p, Record& r, StreamState& st,
                     const std::vector<GraphOutput>& outputs) {
  uint64_t begin = 0;  // of the output, in the bytes of all outputs
  for (auto& output : outputs) {
    // NOLINTNEXTLINE(custom-unchecked-sum): bytes in graph buffers
    while (r.submitted_bytes < begin + output.from.bytes) {
      uint64_t offset = r.submitted_bytes - begin;
      uint64_t n = std::min<uint64_t>(output.from.bytes - offset, wire::kCopyPieceBytes);
      if (copy_part(p, r, st, output, offset, n) == Outcome::waits) return Outcome::waits;
      r.submitted_bytes += n;
    }
    begin += output.from.bytes;
  }
  return Outcome::done;
}

}  // namespace

Transfer handlers::stage_transfer(const Record& r) {
  wire::Decoder in = r.decoder();
  StageFields f = read_stage_fields(in);
  return {f.transfer, f.bytes};
}

// graph buffer, 0, its size, offset, bytes, transfer. Fills a graph buffer in the order of the
// stream: an earlier launch may still read it.
Outcome handlers::stage(Pipeline& p, Record& r, StreamState& st) {
  Session& s = p.session;
  wire::Decoder in = r.decoder();
  StageFields f = read_stage_fields(in);
  if (!in.ok() || f.bytes > wire::kMaxChunkBytes) return Outcome::malformed;
  PinnedBuffer staging;
  if (take_staging(p, st, std::max<uint64_t>(f.bytes, 1), staging) == Outcome::waits)
    return Outcome::waits;
  std::vector<uint8_t> data;
  CompletionFence fence;
  if (!take_payload_bytes(s, in, f.transfer, f.bytes, data, fence.consumed_bytes))
    return Outcome::malformed;
  if (st.capturing) {
    s.credit(fence.consumed_bytes);
    return Outcome::done;
  }
  GraphBuffer b = s.graph_buffers.find(f.buffer);
  if (staging && fits(b, f) && s.cu.cuLaunchHostFunc) {
    std::memcpy(staging.data(), data.data(), f.bytes);
    enqueue_copy(p, st, b.data + f.offset, staging.data(), f.bytes);
  }
  fence.consumed.push_back(std::move(staging));
  p.fences.record(st, r.position, std::move(fence));
  return Outcome::done;
}

// graph buffer, 0, offset, bytes; then the bytes. Fills a graph buffer at once, while a graph waits
// for a host function of the program and nothing reads the buffer.
void handlers::stage_immediately(Session& s, wire::Decoder in) {
  StageFields f{};
  f.buffer = in.get<uint32_t>();
  in.get<uint32_t>();
  f.offset = in.get<uint64_t>();
  f.bytes = in.get<uint64_t>();
  GraphBuffer b = s.graph_buffers.find(f.buffer);
  const uint8_t* from = in.raw(f.bytes);
  if (from && in.ok() && fits(b, f)) std::memcpy(b.data + f.offset, from, f.bytes);
}

// graph buffer, 0, bytes -> nothing. The driver may wait for the GPU.
void handlers::allocate_graph_buffer(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  uint32_t id = in.get<uint32_t>();
  in.get<uint32_t>();
  uint64_t bytes = in.get<uint64_t>();
  if (!in.ok()) return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  s.reply(reply, s.graph_buffers.allocate(id, bytes));
}

// executable graph, number of outputs, 0; then graph buffer and transfer of each
Outcome handlers::launch_graph(Pipeline& p, Record& r, StreamState& st) {
  Session& s = p.session;
  wire::Decoder in = r.decoder();
  auto exec = in.get<CUgraphExec>();
  uint32_t count = in.get<uint32_t>();
  in.get<uint32_t>();
  if (!in.ok() || !s.objects.contains(ObjectKind::exec, (uint64_t)exec) || !s.cu.cuGraphLaunch) {
    p.fences.check(CUDA_ERROR_INVALID_VALUE, st);
    return Outcome::done;
  }
  if (!r.launched) {
    r.launched = true;
    ++s.launches;
    p.fences.check(s.cu.cuGraphLaunch(exec, st.handle), st);
  }
  std::vector<GraphOutput> outputs;
  if (st.capturing || !count) return Outcome::done;
  if (!read_outputs(s, in, count, outputs)) return Outcome::malformed;
  Outcome outcome = copy_outputs(p, r, st, outputs);
  if (outcome == Outcome::done) p.fences.record(st, r.position);
  return outcome;
}

}  // namespace busbar::server
