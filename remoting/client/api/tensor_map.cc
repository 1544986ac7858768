// CUDA entry points: tensor maps. The node's driver encodes them; kernels receive the 128 bytes by
// value.
#include "wire/tensor_map.h"

#include <algorithm>
#include <cstring>

#include "client/call.h"
#include "export.h"

using namespace busbar;
using namespace busbar::client;
using wire::TensorMapKind;
using wire::TensorMapRequest;

static CUresult request_map(CUtensorMap* out, const TensorMapRequest& q) {
  if (!out || q.rank > 5) return CUDA_ERROR_INVALID_VALUE;
  Call call;
  if (CUresult r = call.begin_without_context()) return r;
  wire::Encoder<1024> e(wire::Op::tensor_map, call.context_id());
  e.put(call.reply_id()).put(q);
  wire::Decoder reply = call.send_and_wait(e.finish(), e.size());
  if (call.status()) return call.status();
  auto map = reply.get<CUtensorMap>();
  std::memcpy((void*)out, &map, sizeof map);
  return call.status();
}

static TensorMapRequest make_request(TensorMapKind kind, CUtensorMapDataType type, cuuint32_t rank,
                                     void* p, const cuuint64_t* dimensions,
                                     const cuuint64_t* strides, const cuuint32_t* element_strides) {
  TensorMapRequest q{};
  q.kind = kind;
  q.type = type;
  q.rank = rank;
  q.address = (uint64_t)p;
  if (rank > 5 || !rank) {
    q.rank = 6;  // rejected by request_map()
    return q;
  }
  std::copy_n(dimensions, rank, q.dimensions);
  std::copy_n(strides, rank - 1, q.strides);
  std::copy_n(element_strides, rank, q.element_strides);
  return q;
}

API CUresult cuTensorMapEncodeTiled(CUtensorMap* out, CUtensorMapDataType type, cuuint32_t rank,
                                    void* p, const cuuint64_t* dimensions,
                                    const cuuint64_t* strides, const cuuint32_t* box,
                                    const cuuint32_t* element_strides,
                                    CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                    CUtensorMapL2promotion promotion,
                                    CUtensorMapFloatOOBfill fill) {
  if (!dimensions || !strides || !box || !element_strides) return CUDA_ERROR_INVALID_VALUE;
  TensorMapRequest q =
      make_request(TensorMapKind::tiled, type, rank, p, dimensions, strides, element_strides);
  if (q.rank <= 5) std::copy_n(box, rank, q.box);
  q.interleave = interleave;
  q.swizzle = swizzle;
  q.promotion = promotion;
  q.fill = fill;
  return request_map(out, q);
}

API CUresult cuTensorMapEncodeIm2col(CUtensorMap* out, CUtensorMapDataType type, cuuint32_t rank,
                                     void* p, const cuuint64_t* dimensions,
                                     const cuuint64_t* strides, const int* lower, const int* upper,
                                     cuuint32_t channels, cuuint32_t pixels,
                                     const cuuint32_t* element_strides,
                                     CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                     CUtensorMapL2promotion promotion,
                                     CUtensorMapFloatOOBfill fill) {
  if (!dimensions || !strides || !lower || !upper || !element_strides || rank < 3)
    return CUDA_ERROR_INVALID_VALUE;
  TensorMapRequest q =
      make_request(TensorMapKind::im2col, type, rank, p, dimensions, strides, element_strides);
  if (q.rank <= 5) {
    std::copy_n(lower, rank - 2, q.lower);
    std::copy_n(upper, rank - 2, q.upper);
  }
  q.channels = channels;
  q.pixels = pixels;
  q.interleave = interleave;
  q.swizzle = swizzle;
  q.promotion = promotion;
  q.fill = fill;
  return request_map(out, q);
}

API CUresult cuTensorMapEncodeIm2colWide(
    CUtensorMap* out, CUtensorMapDataType type, cuuint32_t rank, void* p,
    const cuuint64_t* dimensions, const cuuint64_t* strides, int lower, int upper,
    cuuint32_t channels, cuuint32_t pixels, const cuuint32_t* element_strides,
    CUtensorMapInterleave interleave, CUtensorMapIm2ColWideMode mode, CUtensorMapSwizzle swizzle,
    CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  if (!dimensions || !strides || !element_strides) return CUDA_ERROR_INVALID_VALUE;
  TensorMapRequest q =
      make_request(TensorMapKind::im2col_wide, type, rank, p, dimensions, strides, element_strides);
  q.lower[0] = lower;
  q.upper[0] = upper;
  q.mode = mode;
  q.channels = channels;
  q.pixels = pixels;
  q.interleave = interleave;
  q.swizzle = swizzle;
  q.promotion = promotion;
  q.fill = fill;
  return request_map(out, q);
}

API CUresult cuTensorMapReplaceAddress(CUtensorMap* map, void* p) {
  if (!map) return CUDA_ERROR_INVALID_VALUE;
  TensorMapRequest q{};
  q.kind = TensorMapKind::replace_address;
  q.address = (uint64_t)p;
  std::memcpy((void*)&q.map, (const void*)map, sizeof q.map);
  return request_map(map, q);
}
