// Launches and copies: what the executor submits to a stream.
#include <algorithm>
#include <cstring>
#include <memory>
#include <thread>

#include "server/executor.h"

namespace busbar::server {

// function, grid, block, shared bytes, flags, parameter bytes
void Executor::launch(const Record& r, StreamState& st) {
  wire::Decoder in = r.decoder();
  CUfunction f = s_.function_named(in.get<uint32_t>());
  CUlaunchConfig config{};
  config.gridDimX = in.get<uint32_t>();
  config.gridDimY = in.get<uint32_t>();
  config.gridDimZ = in.get<uint32_t>();
  config.blockDimX = in.get<uint32_t>();
  config.blockDimY = in.get<uint32_t>();
  config.blockDimZ = in.get<uint32_t>();
  config.sharedMemBytes = in.get<uint32_t>();
  uint32_t attributes = in.get<uint32_t>(), bytes = in.get<uint32_t>();
  in.get<uint32_t>();
  CUlaunchAttribute list[8];
  if (attributes > 8) {
    malformed_ = true;
    return;
  }
  for (uint32_t i = 0; i < attributes; ++i) {
    const uint8_t* a = in.raw(sizeof(CUlaunchAttribute));
    if (!a) {
      malformed_ = true;
      return;
    }
    std::memcpy(&list[i], a, sizeof list[i]);
  }
  const uint8_t* params = in.raw(bytes);
  if (!in.ok() || !f) {
    malformed_ = true;
    return;
  }
  size_t size = bytes;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void*)params, CU_LAUNCH_PARAM_BUFFER_SIZE,
                   &size, CU_LAUNCH_PARAM_END};
  config.hStream = st.handle;
  config.attrs = list;
  config.numAttrs = attributes;
  ++s_.launches;
  check(s_.cu.cuLaunchKernelEx(&config, f, nullptr, extra), r.position, st);
}

// The chunk of shared memory that a record names in the place of a transfer; null when it names
// none.
const uint8_t* Executor::shared_bytes(uint64_t transfer, uint64_t bytes) {
  uint32_t chunk = (uint32_t)transfer;
  if (!(transfer & wire::kSharedTransfer) || !s_.link.shared() ||
      chunk >= transport::kSharedChunks || bytes > transport::kSharedChunkBytes)
    return nullptr;
  return s_.link.shared()->chunk(true, chunk);
}

// Room for bytes on their way to the client, in shared memory; -1 where there is none. Waits while
// all of it is in use.
int Executor::shared_room(uint64_t bytes) {
  constexpr uint64_t kInlineBytes = 16 << 10;  // less is sent with the frame
  if (!s_.link.shared() || bytes <= kInlineBytes) return -1;
  for (;;) {
    int chunk = s_.link.shared()->take_chunk(false);
    if (chunk >= 0 || !s_.link.alive()) return chunk;
    completions_.poll();
    completions_.settle();
    std::this_thread::yield();
  }
}

// address, bytes, transfer (0: the bytes follow)
void Executor::copy_in(const Record& r, StreamState& st) {
  wire::Decoder in = r.decoder();
  uint64_t to = in.get<uint64_t>(), bytes = in.get<uint64_t>(), transfer = in.get<uint64_t>();
  Mark m;
  auto copy = [&](const uint8_t* from, uint64_t n, uint64_t offset) {
    Pinned p = s_.staging.take(n);
    if (!p.data) return check(CUDA_ERROR_OUT_OF_MEMORY, r.position);
    std::memcpy(p.data, from, n);
    check(s_.cu.cuMemcpyHtoDAsync(to + offset, p.data, n, st.handle), r.position);
    m.consumed.push_back(p);
  };
  if (const uint8_t* shared =
          shared_bytes(transfer, bytes)) {  // the driver reads them where they lie
    check(s_.cu.cuMemcpyHtoDAsync(to, shared, bytes, st.handle), r.position);
    m.consumed_chunks.push_back((uint32_t)transfer);
  } else if (!transfer) {
    const uint8_t* from = bytes <= wire::kMaxInlineBytes ? in.raw(bytes) : nullptr;
    if (!in.ok() || !from) {
      malformed_ = true;
      return;
    }
    copy(from, bytes, 0);
  } else {
    uint64_t offset = 0;
    for (auto& chunk : s_.staging.collect(transfer)) {
      uint64_t n = std::min<uint64_t>(chunk.size(), bytes - offset);
      if (Pinned p = chunk.keep(); p.data) {
        check(s_.cu.cuMemcpyHtoDAsync(to + offset, p.data, n, st.handle), r.position);
        m.consumed.push_back(p);
      } else
        copy(chunk.data(), n, offset);
      offset += n;
    }
    m.consumed_bytes = offset;
  }
  mark(st, r.position, std::move(m));
}

// address, bytes, transfer
void Executor::copy_out(const Record& r, StreamState& st) {
  wire::Decoder in = r.decoder();
  uint64_t from = in.get<uint64_t>(), bytes = in.get<uint64_t>(), transfer = in.get<uint64_t>();
  if (!in.ok()) {
    malformed_ = true;
    return;
  }
  constexpr uint64_t piece = wire::kPieceBytes;
  for (uint64_t offset = 0; offset < bytes || bytes == 0; offset += piece) {
    uint64_t n = std::min<uint64_t>(bytes - offset, piece);
    bool last = offset + n == bytes;
    Mark m;
    int chunk = shared_room(n);
    Pinned p = chunk >= 0 ? Pinned{s_.link.shared()->chunk(false, (uint32_t)chunk), 0}
                          : s_.staging.take(std::max<uint64_t>(n, 1));
    if (!p.data) {
      check(CUDA_ERROR_OUT_OF_MEMORY, r.position);
      return mark(st, r.position);
    }
    CUresult e = n ? s_.cu.cuMemcpyDtoHAsync(p.data, from + offset, n, st.handle) : CUDA_SUCCESS;
    check(e, r.position);
    if (e) last = true;  // whatever length was claimed
    m.deliveries.push_back({transfer, offset, p, n, chunk});
    mark(st, last ? r.position : r.position - 1,
         std::move(m));  // only the last chunk completes the record
    if (last) return;
    completions_.poll();  // what is there already goes out while the next is copied
  }
}

// The bytes of a record: inline, or those of its transfer. False when the record is malformed.
bool Executor::take_bytes(wire::Decoder& in, uint64_t transfer, uint64_t bytes,
                          std::vector<uint8_t>& out, uint64_t& consumed) {
  consumed = 0;
  if (const uint8_t* shared = shared_bytes(transfer, bytes)) {
    out.assign(shared, shared + bytes);
    s_.link.shared()->free_chunk(true, (uint32_t)transfer);
    return true;
  }
  if (!transfer) {
    const uint8_t* from = bytes <= wire::kMaxInlineBytes ? in.raw(bytes) : nullptr;
    if (from) out.assign(from, from + bytes);
    return from != nullptr;
  }
  for (auto& chunk : s_.staging.collect(transfer))
    out.insert(out.end(), chunk.data(), chunk.data() + chunk.size());
  consumed = out.size();
  return out.size() == bytes;
}

// copy, which side is the program's, staging (in a capture), transfer
void Executor::copy_rows(const Record& r, StreamState& st) {
  wire::Decoder in = r.decoder();
  auto c = in.get<CUDA_MEMCPY3D>();
  uint32_t mode = in.get<uint32_t>(), staging = in.get<uint32_t>();
  uint64_t transfer = in.get<uint64_t>(), bytes = c.WidthInBytes * c.Height * c.Depth, consumed = 0;
  if (!in.ok() || mode > 2 || !s_.accepts(c, mode == 1, mode == 2)) {
    malformed_ = true;
    return;
  }
  if (!s_.cu.cuMemcpy3DAsync) return check(CUDA_ERROR_NOT_SUPPORTED, r.position, st);
  if (mode == 0 || staging) {
    bool ready = mode == 0 || s_.stage_copy(c, mode == 1, staging);
    return check(ready ? s_.cu.cuMemcpy3DAsync(&c, st.handle) : CUDA_ERROR_OUT_OF_MEMORY,
                 r.position, st);
  }
  if (st.capturing || bytes > wire::kMaxChunkBytes) {
    malformed_ = true;
    return;
  }
  std::vector<uint8_t> data;
  if (mode == 1 && !take_bytes(in, transfer, bytes, data, consumed)) {
    malformed_ = true;
    return;
  }
  Mark m;
  m.consumed_bytes = consumed;
  Pinned p = s_.staging.take(bytes);
  if (!p.data) {
    check(CUDA_ERROR_OUT_OF_MEMORY, r.position);
    return mark(st, r.position);
  }
  if (mode == 1) std::memcpy(p.data, data.data(), bytes);
  Session::host_side(c, mode == 1, p.data);
  check(s_.cu.cuMemcpy3DAsync(&c, st.handle), r.position);
  if (mode == 1)
    m.consumed.push_back(p);
  else
    m.deliveries.push_back({transfer, 0, p, bytes});
  mark(st, r.position, std::move(m));
}

namespace {
struct HostCopy {
  uint8_t* to;
  const uint8_t* from;
  uint64_t bytes;
  std::vector<uint8_t> owned;
};
void CUDA_CB copy_on_host(void* data) {
  std::unique_ptr<HostCopy> c((HostCopy*)data);
  std::memcpy(c->to, c->from, c->bytes);
}
}  // namespace

// staging, 0, bytes of the whole, offset, bytes, transfer: into the buffer when the stream gets
// there, so that an earlier launch is done with it
void Executor::stage(const Record& r, StreamState& st) {
  wire::Decoder in = r.decoder();
  uint32_t id = in.get<uint32_t>();
  in.get<uint32_t>();
  in.get<uint64_t>();
  uint64_t offset = in.get<uint64_t>(), bytes = in.get<uint64_t>(), transfer = in.get<uint64_t>(),
           consumed = 0;
  auto copy = std::make_unique<HostCopy>();
  if (!in.ok() || !take_bytes(in, transfer, bytes, copy->owned, consumed)) {
    malformed_ = true;
    return;
  }
  if (consumed) s_.credit(consumed);
  GraphBuffer b = s_.graph_memory.find(id);
  if (!b.data || offset > b.bytes || bytes > b.bytes - offset || st.capturing ||
      !s_.cu.cuLaunchHostFunc)
    return;
  copy->to = b.data + offset;
  copy->from = copy->owned.data();
  copy->bytes = bytes;
  CUresult e = s_.cu.cuLaunchHostFunc(st.handle, copy_on_host, copy.get());
  if (!e) copy.release();
  check(e, r.position);
}

// graph, number of outputs, 0; then staging and transfer of each
void Executor::launch_graph(const Record& r, StreamState& st) {
  wire::Decoder in = r.decoder();
  auto exec = in.get<CUgraphExec>();
  uint32_t outputs = in.get<uint32_t>();
  in.get<uint32_t>();
  if (!in.ok() || !s_.objects.known(ObjectKind::exec, (uint64_t)exec) || !s_.cu.cuGraphLaunch)
    return check(CUDA_ERROR_INVALID_VALUE, r.position, st);
  ++s_.launches;
  check(s_.cu.cuGraphLaunch(exec, st.handle), r.position, st);
  if (st.capturing || !outputs) return;
  Mark m;
  for (uint32_t i = 0; i < outputs; ++i) {
    uint64_t id = in.get<uint64_t>(), transfer = in.get<uint64_t>();
    GraphBuffer b = s_.graph_memory.find((uint32_t)id);
    if (!in.ok() || !b.data) {
      malformed_ = true;
      break;
    }
    Pinned p = s_.staging.take(
        b.bytes);  // the next launch may fill the buffer before these bytes are sent
    if (!p.data) {
      check(CUDA_ERROR_OUT_OF_MEMORY, r.position);
      break;
    }
    auto copy = std::make_unique<HostCopy>(HostCopy{p.data, b.data, b.bytes, {}});
    CUresult e = s_.cu.cuLaunchHostFunc(st.handle, copy_on_host, copy.get());
    if (!e) copy.release();
    check(e, r.position);
    m.deliveries.push_back({transfer, 0, p, b.bytes});
  }
  mark(st, r.position, std::move(m));
}

}  // namespace busbar::server
