// Arrays, and what the client remembers of them: shapes, so that copies are checked at once.
#include <algorithm>
#include <unordered_map>

#include "client/copy.h"

namespace busbar::client {

namespace {
struct Shapes {
  std::mutex mutex;
  std::unordered_map<CUarray, CUDA_ARRAY3D_DESCRIPTOR> known;
};
Shapes& shapes() {
  static auto* s = new Shapes;
  return *s;
}

CUresult create(uint64_t& out, ObjectKind kind, const CUDA_ARRAY3D_DESCRIPTOR& d, uint32_t levels) {
  if (CUresult r = unsafe_in_capture()) return r;
  Call call;
  if (CUresult r = call.begin(kNoStreamHandle)) return r;
  wire::Encoder<> e(wire::Op::create_array, call.context_id());
  e.put(call.reply_id()).put(d).put(levels);
  wire::Decoder answer = call.answer(e.finish(), e.size());
  if (call.status()) return call.status();
  out = answer.get<uint64_t>();
  call.remember(kind, out);
  return answer.ok() ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

CUresult destroy(ObjectKind kind, uint64_t value) {
  Call call;
  if (CUresult r = call.begin_anywhere()) return r;
  if (!call.known(kind, value)) return CUDA_ERROR_INVALID_HANDLE;
  if (CUresult r = call.drain()) return r;
  wire::Encoder<> e(wire::Op::destroy_array, call.context_id());
  e.put(call.reply_id()).put((uint32_t)kind).put<uint32_t>(0).put(value);
  auto taken = call.take(kind, value);
  {
    std::lock_guard lock(shapes().mutex);
    for (auto& gone : taken)
      if (gone.kind == ObjectKind::array) shapes().known.erase((CUarray)gone.value);
  }
  call.answer(e.finish(), e.size());
  if (call.status()) call.put_back(std::move(taken));
  return call.status();
}
}  // namespace

bool array_shape(CUarray a, CUDA_ARRAY3D_DESCRIPTOR& out) {
  {
    std::lock_guard lock(shapes().mutex);
    auto it = shapes().known.find(a);
    if (it != shapes().known.end()) {
      out = it->second;
      return true;
    }
  }
  if (cuArray3DGetDescriptor_v2(&out, a)) return false;
  std::lock_guard lock(shapes().mutex);
  shapes().known[a] = out;
  return true;
}

uint64_t element_bytes(const CUDA_ARRAY3D_DESCRIPTOR& d) {
  switch (d.Format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8: return d.NumChannels;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF: return 2ull * d.NumChannels;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT: return 4ull * d.NumChannels;
    default: return 16;  // block-compressed and packed formats: 16 bytes an element at most
  }
}

}  // namespace busbar::client

using namespace busbar;
using namespace busbar::client;

API CUresult cuArray3DCreate_v2(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* d) {
  if (!out || !d) return CUDA_ERROR_INVALID_VALUE;
  uint64_t made = 0;
  if (CUresult r = create(made, ObjectKind::array, *d, 0)) return r;
  *out = (CUarray)made;
  std::lock_guard lock(shapes().mutex);
  shapes().known[*out] = *d;
  return CUDA_SUCCESS;
}
API CUresult cuArrayCreate_v2(CUarray* out, const CUDA_ARRAY_DESCRIPTOR* d) {
  if (!d) return CUDA_ERROR_INVALID_VALUE;
  CUDA_ARRAY3D_DESCRIPTOR solid{d->Width, d->Height, 0, d->Format, d->NumChannels, 0};
  return cuArray3DCreate_v2(out, &solid);
}
API CUresult cuArrayDestroy(CUarray a) {
  if (CUresult r = unsafe_in_capture()) return r;
  return destroy(ObjectKind::array, (uint64_t)a);
}
API CUresult cuMipmappedArrayCreate(CUmipmappedArray* out, const CUDA_ARRAY3D_DESCRIPTOR* d,
                                    unsigned levels) {
  if (!out || !d || !levels) return CUDA_ERROR_INVALID_VALUE;
  uint64_t made = 0;
  if (CUresult r = create(made, ObjectKind::mipmap, *d, levels)) return r;
  *out = (CUmipmappedArray)made;
  return CUDA_SUCCESS;
}
API CUresult cuMipmappedArrayDestroy(CUmipmappedArray a) {
  return destroy(ObjectKind::mipmap, (uint64_t)a);
}
