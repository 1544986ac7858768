#include "client/row_copy.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include "array_element.h"
#include "checked_size.h"
#include "client/array.h"
#include "client/call.h"
#include "client/host_copy.h"
#include "client/host_function.h"
#include "client/mapped.h"

namespace busbar::client {

namespace {
struct Side {
  CUmemorytype type;
  uint64_t host, device;
  CUarray array;
  size_t x, y, z;        // offset: bytes, rows, slices
  size_t pitch, height;  // bytes of a row, rows of a slice; 0: packed
};

// Bytes from the first to the last byte of the copy.
CheckedSize span(const Side& s, const CUDA_MEMCPY3D& p) {
  return ((CheckedSize(p.Depth) - 1) * s.height + p.Height - 1) * s.pitch + p.WidthInBytes;
}
// Bytes of the copy without gaps.
uint64_t bytes_of(const CUDA_MEMCPY3D& p) {
  return (CheckedSize(p.WidthInBytes) * p.Height * p.Depth).value();
}
CheckedSize start_address(const Side& s, uint64_t base) {
  return base + (CheckedSize(s.z) * s.height + s.y) * s.pitch + s.x;
}

// Replaces CU_MEMORYTYPE_UNIFIED by the kind of memory at the address. Managed memory, which lies
// on the device, may be passed as host memory.
void resolve_type(Side& s) {
  if (s.type == CU_MEMORYTYPE_UNIFIED) {
    bool host = !session()->addresses.find(s.device).on_device();
    s.type = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    if (host) s.host = s.device;
  }
  if (s.type == CU_MEMORYTYPE_HOST && has_host_mirrors() &&
      session()->addresses.find(s.host).kind == Region::managed) {
    s.type = CU_MEMORYTYPE_DEVICE;
    s.device = s.host;
  }
}

bool fits_array(const Side& s, const CUDA_MEMCPY3D& p) {
  CUDA_ARRAY3D_DESCRIPTOR d;
  return array_shape(s.array, d) &&
         (CheckedSize(s.x) + p.WidthInBytes).within(CheckedSize(d.Width) * element_bytes(d)) &&
         (CheckedSize(s.y) + p.Height).within(std::max<size_t>(d.Height, 1)) &&
         (CheckedSize(s.z) + p.Depth).within(std::max<size_t>(d.Depth, 1));
}

// Return whether device memory, or a device copy of pinned memory, covers the range.
bool is_device_range(uint64_t at, uint64_t bytes) {
  Region r = session()->addresses.find(at);
  if (r.kind != Region::pinned) return session()->addresses.device_range(at, bytes);
  return CheckedSize(bytes).within(r.base + r.bytes - at) && mapped_address(at) == at;
}

// Makes device copies of pinned memory that a copy names as device memory.
CUresult map_sides(Context* c, const CUDA_MEMCPY3D& p) {
  if (!c) return CUDA_SUCCESS;
  if (p.srcMemoryType == CU_MEMORYTYPE_DEVICE)
    if (CUresult r = map_pinned(c, p.srcDevice)) return r;
  return p.dstMemoryType == CU_MEMORYTYPE_DEVICE ? map_pinned(c, p.dstDevice) : CUDA_SUCCESS;
}

// Resolves and checks one side. `host` and `rows` are set for host memory.
CUresult resolve_side(Side& s, const CUDA_MEMCPY3D& p, bool& host, Rows& rows) {
  resolve_type(s);
  if (s.type == CU_MEMORYTYPE_ARRAY)
    return fits_array(s, p) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  if (s.type != CU_MEMORYTYPE_HOST && s.type != CU_MEMORYTYPE_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  CheckedSize width = CheckedSize(p.WidthInBytes) + s.x, rows_end = CheckedSize(p.Height) + s.y;
  if (!s.pitch) s.pitch = width.value();
  if (!s.height) s.height = rows_end.value();
  host = s.type == CU_MEMORYTYPE_HOST;
  uint64_t base = host ? s.host : s.device;
  CheckedSize at = start_address(s, base), bytes = span(s, p);
  if (!base || !width.within(s.pitch) || !(at + bytes).valid()) return CUDA_ERROR_INVALID_VALUE;
  if (!host)
    return is_device_range(at.value(), bytes.value()) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  uint64_t slice = (CheckedSize(s.pitch) * s.height).value();
  rows = {(uint8_t*)at.value(), p.WidthInBytes, s.pitch, p.Height, slice, p.Depth};
  return CUDA_SUCCESS;
}

// Return the part of a copy that begins at offset (x bytes, y rows, z slices).
CUDA_MEMCPY3D part_of(CUDA_MEMCPY3D p, uint64_t x, uint64_t y, uint64_t z, uint64_t width,
                      uint64_t height, uint64_t depth) {
  p.srcXInBytes += x;
  p.srcY += y;
  p.srcZ += z;
  p.dstXInBytes += x;
  p.dstY += y;
  p.dstZ += z;
  p.WidthInBytes = width;
  p.Height = height;
  p.Depth = depth;
  return p;
}

enum class Direction : uint32_t { device = 0, in = 1, out = 2 };  // relative to the node

// Submits a copy_rows record. The bytes follow inline if `transfer` is 0.
CUresult submit_copy(Call& call, const CUDA_MEMCPY3D& p, Direction direction, uint32_t staging,
                     uint64_t transfer, const uint8_t* bytes = nullptr, uint32_t n = 0) {
  wire::Encoder<wire::kMaxInlineBytes + 512> e(wire::Op::copy_rows, call.context_id(),
                                               call.stream_id());
  e.put(p).put((uint32_t)direction).put(staging).put(transfer);
  e.raw(bytes, n);
  return call.send(e.finish(), e.size());
}

CUresult send_part(Call& call, const CUDA_MEMCPY3D& p, const Rows& source, uint64_t offset) {
  uint64_t n = bytes_of(p);
  std::vector<uint8_t> gathered;
  const uint8_t* at = source.base + offset;
  if (!source.packed()) {
    gathered.reserve(n);
    source.pieces(offset, n, [&](const uint8_t* from, uint64_t k) {
      gathered.insert(gathered.end(), from, from + k);
    });
    at = gathered.data();
  }
  if (n <= wire::kMaxInlineBytes) return submit_copy(call, p, Direction::in, 0, 0, at, (uint32_t)n);
  uint64_t transfer = call.link()->uses_shared_memory() ? call.link()->write_shared_chunk(at, n)
                                                        : call.link()->upload(at, n);
  return transfer ? submit_copy(call, p, Direction::in, 0, transfer) : call.link()->error();
}

CUresult fetch_part(Call& call, const CUDA_MEMCPY3D& p, const Rows& target, uint64_t offset) {
  return submit_copy(call, p, Direction::out, 0,
                     expect_delivery(call.link(), target, offset, bytes_of(p)));
}

// Calls `run` for parts that fit a chunk of a transfer: the whole copy, rows, or parts of a row.
CUresult for_each_part(const CUDA_MEMCPY3D& p,
                       const std::function<CUresult(const CUDA_MEMCPY3D&, uint64_t offset)>& run) {
  CheckedSize slice = CheckedSize(p.WidthInBytes) * p.Height, total = slice * p.Depth;
  if (!total.valid()) return CUDA_ERROR_INVALID_VALUE;
  if (total.within(wire::kMaxChunkBytes)) return run(p, 0);
  uint64_t row = p.WidthInBytes;
  for (uint64_t z = 0; z < p.Depth; ++z)
    for (uint64_t y = 0; y < p.Height;) {
      uint64_t rows = std::clamp<uint64_t>(wire::kMaxChunkBytes / row, 1, p.Height - y);
      for (uint64_t x = 0; x < row; x += wire::kMaxChunkBytes) {
        uint64_t width = rows > 1 ? row : std::min<uint64_t>(row - x, wire::kMaxChunkBytes);
        uint64_t offset = (slice * z + CheckedSize(row) * y + x).value();
        if (CUresult r = run(part_of(p, x, y, z, width, rows, 1), offset)) return r;
      }
      y += rows;
    }
  return CUDA_SUCCESS;
}

bool is_pinned(const void* p) {
  return session()->addresses.find((uint64_t)p).on_host();
}

// Copies from host to host memory behind the work of the stream.
CUresult copy_on_host(Call& call, const CopySides& c) {
  if (call.stream()->capturing) return CUDA_ERROR_NOT_SUPPORTED;
  if (CUresult r = wait_for_submitted(call.stream())) return r;
  uint64_t at = 0;
  c.source.pieces(0, c.source.bytes(), [&](const uint8_t* from, uint64_t n) {
    c.target.pieces(at, n, [&](uint8_t* to, uint64_t k) {
      std::memmove(to, from, k);
      from += k;
    });
    at += n;
  });
  return CUDA_SUCCESS;
}

// Return whether the device side of a copy lies on another node than its stream.
bool on_other_node(const Call& call, CUmemorytype type, CUdeviceptr p, CUarray a) {
  if (session()->links.size() == 1) return false;
  if (type == CU_MEMORYTYPE_ARRAY) {
    Link* link = home_of(ObjectKind::array, (uint64_t)a).link;
    return link && link != call.link();
  }
  Region r = session()->addresses.find(p);
  return r.on_device() && r.context->device->link != call.link();
}
}  // namespace

CUresult resolve_copy(Context* c, const CUDA_MEMCPY3D& p, CopySides& out) {
  if (CUresult r = map_sides(c, p)) return r;
  Side from{p.srcMemoryType, (uint64_t)p.srcHost, p.srcDevice, p.srcArray, p.srcXInBytes, p.srcY,
            p.srcZ,          p.srcPitch,          p.srcHeight};
  Side to{p.dstMemoryType, (uint64_t)p.dstHost, p.dstDevice, p.dstArray, p.dstXInBytes, p.dstY,
          p.dstZ,          p.dstPitch,          p.dstHeight};
  if (CUresult r = resolve_side(from, p, out.from_host, out.source)) return r;
  if (CUresult r = resolve_side(to, p, out.to_host, out.target)) return r;
  out.copy = p;
  out.copy.srcDevice = from.device;
  out.copy.dstDevice = to.device;
  out.copy.srcMemoryType = from.type;
  out.copy.srcPitch = from.pitch;
  out.copy.srcHeight = from.height;
  out.copy.srcHost = nullptr;
  out.copy.dstMemoryType = to.type;
  out.copy.dstPitch = to.pitch;
  out.copy.dstHeight = to.height;
  out.copy.dstHost = nullptr;
  if (out.from_host) {
    out.copy.srcXInBytes = out.copy.srcY = out.copy.srcZ = 0;
    out.copy.srcDevice = 0;
  }
  if (out.to_host) {
    out.copy.dstXInBytes = out.copy.dstY = out.copy.dstZ = 0;
    out.copy.dstDevice = 0;
  }
  return CUDA_SUCCESS;
}

// Submits a copy that is captured. The host side becomes a staging buffer.
static CUresult capture_copy(Call& call, const CopySides& c, Direction direction,
                             Capture& capture) {
  uint32_t staging = 0;
  if (direction != Direction::device)
    if (CUresult r = add_host_copy(call, *capture.model, c.from_host,
                                   c.from_host ? c.source : c.target, nullptr, staging))
      return r;
  return submit_copy(call, c.copy, direction, staging, 0);
}

static CUresult submit_all_parts(Call& call, const CopySides& c, Direction direction) {
  if (direction == Direction::device) return submit_copy(call, c.copy, direction, 0, 0);
  if (direction == Direction::out)
    return for_each_part(c.copy, [&](const CUDA_MEMCPY3D& part, uint64_t offset) {
      return fetch_part(call, part, c.target, offset);
    });
  if (CUresult r = wait_for_host_functions(call.context(), call.stream())) return r;
  return for_each_part(c.copy, [&](const CUDA_MEMCPY3D& part, uint64_t offset) {
    return send_part(call, part, c.source, offset);
  });
}

// Lets a copy read host memory that kernels use from its copy on the node, which is the newest in
// the order of the stream, or write to that copy too. If the host memory has other device copies,
// waits until it is the newest, and sets `elsewhere`.
static CUresult use_device_copy(Call& call, CopySides& c, bool& elsewhere) {
  if (!(c.from_host || c.to_host) || !has_host_mirrors() || call.stream()->capturing)
    return CUDA_SUCCESS;
  const Rows& rows = c.from_host ? c.source : c.target;
  uint64_t copy = device_copy_of(call.link(), rows.base, rows.span());
  elsewhere = has_device_copies(rows.base, rows.span(), copy ? call.link() : nullptr);
  if (elsewhere)
    if (CUresult r = settle_mapped(call.context(), call.stream())) return r;
  if (!copy) return CUDA_SUCCESS;
  if (c.from_host)
    if (CUresult r = wait_for_host_functions(call.context(), call.stream())) return r;
  if (CUresult r = flush_host_mirrors(*call.stream())) return r;
  CUDA_MEMCPY3D onto_copy = c.copy;  // the offsets are 0, as for host memory
  (c.from_host ? onto_copy.srcMemoryType : onto_copy.dstMemoryType) = CU_MEMORYTYPE_DEVICE;
  (c.from_host ? onto_copy.srcDevice : onto_copy.dstDevice) = copy;
  if (c.to_host) return submit_copy(call, onto_copy, Direction::device, 0, 0);
  c.from_host = false;
  c.copy = onto_copy;
  return CUDA_SUCCESS;
}

CUresult copy_rows(const CUDA_MEMCPY3D& p, CUstream stream, bool synchronous) {
  Call call;
  if (CUresult r = call.begin(stream)) return r;
  if (!p.WidthInBytes || !p.Height || !p.Depth) return CUDA_SUCCESS;
  CopySides c;
  if (CUresult r = resolve_copy(call.context(), p, c)) return r;
  if (c.from_host && c.to_host) return copy_on_host(call, c);
  bool elsewhere = false;
  auto& d = c.copy;
  if ((!c.from_host && on_other_node(call, d.srcMemoryType, d.srcDevice, d.srcArray)) ||
      (!c.to_host && on_other_node(call, d.dstMemoryType, d.dstDevice, d.dstArray)))
    return CUDA_ERROR_NOT_SUPPORTED;
  if (CUresult r = use_device_copy(call, c, elsewhere)) return r;
  Stream* s = call.stream();
  Direction direction = c.from_host ? Direction::in
                        : c.to_host ? Direction::out
                                    : Direction::device;
  if (auto capture = s->capturing ? capture_of(*s) : nullptr)
    return capture_copy(call, c, direction, *capture);
  CUresult r = submit_all_parts(call, c, direction);
  bool wait = synchronous || elsewhere || (c.to_host && !is_pinned(c.target.base));
  if (!r && wait) r = wait_for_submitted(s);
  return !r && synchronous && has_host_mirrors() ? fetch_mapped(call.context()) : r;
}

}  // namespace busbar::client
