#include "client/copy.h"

#include <algorithm>
#include <vector>

namespace busbar::client {

namespace {
struct Side {
  CUmemorytype type;
  uint64_t host, device;
  CUarray array;
  size_t x, y, z, pitch, height;
};

uint64_t span(const Side& s, const CUDA_MEMCPY3D& p) {
  return ((p.Depth - 1) * s.height + p.Height - 1) * s.pitch + p.WidthInBytes;
}
uint64_t start(const Side& s, uint64_t base) {
  return base + (s.z * s.height + s.y) * s.pitch + s.x;
}

// Fills in what may be left out, and says whether the side lies in host memory.
CUresult settle_side(Side& s, const CUDA_MEMCPY3D& p, bool& host, Rows& rows) {
  if (s.type == CU_MEMORYTYPE_UNIFIED) {
    bool here = !session()->addresses.find(s.device).on_device();
    s.type = here ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    if (here) s.host = s.device;
  }
  if (s.type == CU_MEMORYTYPE_HOST && mirrored() &&
      session()->addresses.find(s.host).kind == Region::managed) {
    s.type = CU_MEMORYTYPE_DEVICE;
    s.device = s.host;
  }
  if (s.type == CU_MEMORYTYPE_ARRAY) {
    CUDA_ARRAY3D_DESCRIPTOR d;
    if (!array_shape(s.array, d)) return CUDA_ERROR_INVALID_VALUE;
    bool fits = s.x + p.WidthInBytes <= d.Width * element_bytes(d) &&
                s.y + p.Height <= std::max<size_t>(d.Height, 1) &&
                s.z + p.Depth <= std::max<size_t>(d.Depth, 1);
    return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  if (s.type != CU_MEMORYTYPE_HOST && s.type != CU_MEMORYTYPE_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  if (!s.pitch) s.pitch = p.WidthInBytes + s.x;
  if (!s.height) s.height = p.Height + s.y;
  host = s.type == CU_MEMORYTYPE_HOST;
  uint64_t base = host ? s.host : s.device;
  if (!base || s.pitch < p.WidthInBytes + s.x) return CUDA_ERROR_INVALID_VALUE;
  if (!host)
    return session()->addresses.device_range(start(s, base), span(s, p)) ? CUDA_SUCCESS
                                                                         : CUDA_ERROR_INVALID_VALUE;
  rows = {(uint8_t*)start(s, base), p.WidthInBytes, s.pitch, p.Height, s.pitch * s.height, p.Depth};
  return CUDA_SUCCESS;
}

// A part of a copy: rows [y, y + rows) of slice z, bytes [x, x + width) of each; or whole slices.
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

enum class Mode : uint32_t { device = 0, in = 1, out = 2 };

// copy, mode, staging, transfer, bytes (inline, when there is no transfer)
CUresult submit_copy(Call& call, const CUDA_MEMCPY3D& p, Mode mode, uint32_t staging,
                     uint64_t transfer, const uint8_t* bytes = nullptr, uint32_t n = 0) {
  wire::Encoder<wire::kMaxInlineBytes + 512> e(wire::Op::copy_rows, call.context_id(),
                                               call.stream_id());
  e.put(p).put((uint32_t)mode).put(staging).put(transfer);
  e.raw(bytes, n);
  return call.fire(e.finish(), e.size());
}

CUresult send_part(Call& call, const CUDA_MEMCPY3D& p, const Rows& source, uint64_t offset) {
  uint64_t n = p.WidthInBytes * p.Height * p.Depth;
  std::vector<uint8_t> gathered;
  const uint8_t* at = source.base + offset;
  if (!source.packed()) {
    gathered.reserve(n);
    source.pieces(offset, n, [&](const uint8_t* from, uint64_t k) {
      gathered.insert(gathered.end(), from, from + k);
    });
    at = gathered.data();
  }
  if (n <= wire::kMaxInlineBytes) return submit_copy(call, p, Mode::in, 0, 0, at, (uint32_t)n);
  uint64_t transfer =
      call.link()->on_one_machine() ? call.link()->lay_out(at, n) : call.link()->upload(at, n);
  return transfer ? submit_copy(call, p, Mode::in, 0, transfer) : call.link()->error();
}

CUresult fetch_part(Call& call, const CUDA_MEMCPY3D& p, const Rows& target, uint64_t offset) {
  return submit_copy(call, p, Mode::out, 0,
                     call.link()->expect(target, offset, p.WidthInBytes * p.Height * p.Depth));
}

// In pieces that fit a transfer: slices, rows, or parts of a row.
CUresult in_parts(const CUDA_MEMCPY3D& p,
                  const std::function<CUresult(const CUDA_MEMCPY3D&, uint64_t offset)>& run) {
  uint64_t row = p.WidthInBytes, slice = row * p.Height, total = slice * p.Depth;
  if (total <= wire::kMaxChunkBytes) return run(p, 0);
  for (uint64_t z = 0; z < p.Depth; ++z)
    for (uint64_t y = 0; y < p.Height;) {
      uint64_t rows = std::clamp<uint64_t>(wire::kMaxChunkBytes / row, 1, p.Height - y);
      for (uint64_t x = 0; x < row; x += wire::kMaxChunkBytes) {
        uint64_t width = rows > 1 ? row : std::min<uint64_t>(row - x, wire::kMaxChunkBytes);
        if (CUresult r = run(part_of(p, x, y, z, width, rows, 1), z * slice + y * row + x))
          return r;
      }
      y += rows;
    }
  return CUDA_SUCCESS;
}

bool pinned(const void* p) {
  return session()->addresses.find((uint64_t)p).on_host();
}

CUresult between_host(Call& call, const CopySides& c) {
  if (call.stream()->capturing) return CUDA_ERROR_NOT_SUPPORTED;
  if (CUresult r = wait_for(call.stream(), call.stream()->progress.last.load())) return r;
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

// The node on which a device side lies, if it is not the stream's.
Link* elsewhere(const Call& call, CUmemorytype type, CUdeviceptr p, CUarray a) {
  if (session()->links.size() == 1) return nullptr;
  Link* link = type == CU_MEMORYTYPE_ARRAY ? home_of(ObjectKind::array, (uint64_t)a).link
                                           : session()->addresses.find(p).context->device->link;
  return link == call.link() ? nullptr : link;
}
}  // namespace

CUresult resolve_copy(const CUDA_MEMCPY3D& p, CopySides& out) {
  Side from{p.srcMemoryType, (uint64_t)p.srcHost, p.srcDevice, p.srcArray, p.srcXInBytes, p.srcY,
            p.srcZ,          p.srcPitch,          p.srcHeight};
  Side to{p.dstMemoryType, (uint64_t)p.dstHost, p.dstDevice, p.dstArray, p.dstXInBytes, p.dstY,
          p.dstZ,          p.dstPitch,          p.dstHeight};
  if (CUresult r = settle_side(from, p, out.from_host, out.source)) return r;
  if (CUresult r = settle_side(to, p, out.to_host, out.target)) return r;
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

CUresult copy_rows(const CUDA_MEMCPY3D& p, CUstream stream, bool synchronous) {
  if (synchronous)
    if (CUresult r = unsafe_in_capture()) return r;
  Call call;
  if (CUresult r = call.begin(stream)) return r;
  if (!p.WidthInBytes || !p.Height || !p.Depth) return CUDA_SUCCESS;
  CopySides c;
  if (CUresult r = resolve_copy(p, c)) return r;
  if (c.from_host && c.to_host) return between_host(call, c);
  if (elsewhere(call, c.copy.srcMemoryType, c.copy.srcDevice, c.copy.srcArray) && !c.from_host)
    return CUDA_ERROR_NOT_SUPPORTED;
  if (elsewhere(call, c.copy.dstMemoryType, c.copy.dstDevice, c.copy.dstArray) && !c.to_host)
    return CUDA_ERROR_NOT_SUPPORTED;
  Stream* s = call.stream();
  Mode mode = c.from_host ? Mode::in : c.to_host ? Mode::out : Mode::device;
  if (auto capture = s->capturing ? capture_of(*s) : nullptr) {
    uint32_t staging = mode == Mode::device
                           ? 0
                           : add_host_copy(call.link(), *capture->model, c.from_host,
                                           c.from_host ? c.source : c.target);
    return submit_copy(call, c.copy, mode, staging, 0);
  }
  CUresult r = CUDA_SUCCESS;
  if (mode == Mode::device)
    r = submit_copy(call, c.copy, mode, 0, 0);
  else if (mode == Mode::in) {
    if ((r = settle_host_functions(call))) return r;
    r = in_parts(c.copy, [&](const CUDA_MEMCPY3D& part, uint64_t offset) {
      return send_part(call, part, c.source, offset);
    });
  } else
    r = in_parts(c.copy, [&](const CUDA_MEMCPY3D& part, uint64_t offset) {
      return fetch_part(call, part, c.target, offset);
    });
  bool wait = synchronous || (mode == Mode::out && !pinned(c.target.base));
  return r || !wait ? r : wait_for(s, s->progress.last.load());
}

}  // namespace busbar::client

using namespace busbar;
using namespace busbar::client;

static CUDA_MEMCPY3D solid(const CUDA_MEMCPY2D& p) {
  CUDA_MEMCPY3D q{};
  q.srcXInBytes = p.srcXInBytes;
  q.srcY = p.srcY;
  q.srcMemoryType = p.srcMemoryType;
  q.srcHost = p.srcHost;
  q.srcDevice = p.srcDevice;
  q.srcArray = p.srcArray;
  q.srcPitch = p.srcPitch;
  q.dstXInBytes = p.dstXInBytes;
  q.dstY = p.dstY;
  q.dstMemoryType = p.dstMemoryType;
  q.dstHost = p.dstHost;
  q.dstDevice = p.dstDevice;
  q.dstArray = p.dstArray;
  q.dstPitch = p.dstPitch;
  q.WidthInBytes = p.WidthInBytes;
  q.Height = p.Height;
  q.Depth = 1;
  return q;
}

API CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* p) {
  return p ? copy_rows(solid(*p), nullptr, true) : CUDA_ERROR_INVALID_VALUE;
}
API CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* p) {
  return cuMemcpy2D_v2(p);
}
API CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* p, CUstream s) {
  return p ? copy_rows(solid(*p), s, false) : CUDA_ERROR_INVALID_VALUE;
}
API CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* p) {
  return p ? copy_rows(*p, nullptr, true) : CUDA_ERROR_INVALID_VALUE;
}
API CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* p, CUstream s) {
  return p ? copy_rows(*p, s, false) : CUDA_ERROR_INVALID_VALUE;
}

// The peer form has contexts where the other has reserved words; the addresses say where they lie.
static CUDA_MEMCPY3D without_contexts(const CUDA_MEMCPY3D_PEER& p) {
  static_assert(sizeof(CUDA_MEMCPY3D) == sizeof(CUDA_MEMCPY3D_PEER));
  CUDA_MEMCPY3D q;
  std::memcpy(&q, &p, sizeof q);
  q.reserved0 = q.reserved1 = nullptr;
  return q;
}
API CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* p) {
  return p ? copy_rows(without_contexts(*p), nullptr, true) : CUDA_ERROR_INVALID_VALUE;
}
API CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* p, CUstream s) {
  return p ? copy_rows(without_contexts(*p), s, false) : CUDA_ERROR_INVALID_VALUE;
}

// ---- one row of an array ----
static CUresult copy_line(CUarray from_array, uint64_t from, CUarray to_array, uint64_t to,
                          size_t n, bool host, CUstream s, bool synchronous) {
  CUDA_MEMCPY3D p{};
  CUmemorytype other = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  p.srcMemoryType = from_array ? CU_MEMORYTYPE_ARRAY : other;
  p.dstMemoryType = to_array ? CU_MEMORYTYPE_ARRAY : other;
  p.srcArray = from_array;
  p.dstArray = to_array;
  if (from_array)
    p.srcXInBytes = from;
  else {
    p.srcHost = (void*)from;
    p.srcDevice = from;
  }
  if (to_array)
    p.dstXInBytes = to;
  else {
    p.dstHost = (void*)to;
    p.dstDevice = to;
  }
  p.WidthInBytes = n;
  p.Height = p.Depth = 1;
  return copy_rows(p, s, synchronous);
}
API CUresult cuMemcpyDtoA_v2(CUarray a, size_t at, CUdeviceptr p, size_t n) {
  return copy_line(nullptr, p, a, at, n, false, nullptr, true);
}
API CUresult cuMemcpyAtoD_v2(CUdeviceptr p, CUarray a, size_t at, size_t n) {
  return copy_line(a, at, nullptr, p, n, false, nullptr, true);
}
API CUresult cuMemcpyHtoA_v2(CUarray a, size_t at, const void* p, size_t n) {
  return copy_line(nullptr, (uint64_t)p, a, at, n, true, nullptr, true);
}
API CUresult cuMemcpyAtoH_v2(void* p, CUarray a, size_t at, size_t n) {
  return copy_line(a, at, nullptr, (uint64_t)p, n, true, nullptr, true);
}
API CUresult cuMemcpyAtoA_v2(CUarray to, size_t to_at, CUarray from, size_t from_at, size_t n) {
  return copy_line(from, from_at, to, to_at, n, false, nullptr, true);
}
API CUresult cuMemcpyHtoAAsync_v2(CUarray a, size_t at, const void* p, size_t n, CUstream s) {
  return copy_line(nullptr, (uint64_t)p, a, at, n, true, s, false);
}
API CUresult cuMemcpyAtoHAsync_v2(void* p, CUarray a, size_t at, size_t n, CUstream s) {
  return copy_line(a, at, nullptr, (uint64_t)p, n, true, s, false);
}
