// Launches and copies: what the executor submits to a stream.
#include <algorithm>
#include <cstring>

#include "server/executor.h"

namespace busbar::server {

// function, grid, block, shared bytes, flags, parameter bytes
void Executor::launch(const Record& r, StreamState& st) {
  wire::Decoder in = r.decoder();
  CUfunction f = s_.function(in.get<uint32_t>());
  CUlaunchConfig config{};
  config.gridDimX = in.get<uint32_t>(); config.gridDimY = in.get<uint32_t>(); config.gridDimZ = in.get<uint32_t>();
  config.blockDimX = in.get<uint32_t>(); config.blockDimY = in.get<uint32_t>(); config.blockDimZ = in.get<uint32_t>();
  config.sharedMemBytes = in.get<uint32_t>();
  uint32_t attributes = in.get<uint32_t>(), bytes = in.get<uint32_t>();
  in.get<uint32_t>();
  CUlaunchAttribute list[8];
  if (attributes > 8) { malformed_ = true; return; }
  for (uint32_t i = 0; i < attributes; ++i) {
    const uint8_t* a = in.raw(sizeof(CUlaunchAttribute));
    if (!a) { malformed_ = true; return; }
    std::memcpy(&list[i], a, sizeof list[i]);
  }
  const uint8_t* params = in.raw(bytes);
  if (!in.ok() || !f) { malformed_ = true; return; }
  size_t size = bytes;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void*)params, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
  config.hStream = st.handle;
  config.attrs = list;
  config.numAttrs = attributes;
  ++s_.launches;
  check(s_.cu.cuLaunchKernelEx(&config, f, nullptr, extra), r.position);
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
  if (!transfer) {
    const uint8_t* from = bytes <= wire::kMaxInlineBytes ? in.raw(bytes) : nullptr;
    if (!in.ok() || !from) { malformed_ = true; return; }
    copy(from, bytes, 0);
  } else {
    uint64_t offset = 0;
    for (auto& chunk : s_.staging.collect(transfer)) {
      uint64_t n = std::min<uint64_t>(chunk.size(), bytes - offset);
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
  if (!in.ok()) { malformed_ = true; return; }
  for (uint64_t offset = 0; offset < bytes || bytes == 0; offset += wire::kMaxChunkBytes) {
    uint64_t n = std::min<uint64_t>(bytes - offset, wire::kMaxChunkBytes);
    bool last = offset + n == bytes;
    Mark m;
    Pinned p = s_.staging.take(std::max<uint64_t>(n, 1));
    if (!p.data) { check(CUDA_ERROR_OUT_OF_MEMORY, r.position); return mark(st, r.position); }
    CUresult e = n ? s_.cu.cuMemcpyDtoHAsync(p.data, from + offset, n, st.handle) : CUDA_SUCCESS;
    check(e, r.position);
    m.deliveries.push_back({transfer, offset, p, n});
    mark(st, last ? r.position : r.position - 1, std::move(m));   // only the last chunk completes the record
    if (last) return;
  }
}

}  // namespace busbar::server
