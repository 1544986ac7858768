// Tensor maps: the driver of the node encodes them.
#include "wire/tensor_map.h"

#include "server/handlers.h"
#include "server/reply.h"
#include "server/session.h"
#include "wire/enumeration.h"

namespace busbar::server {

namespace {
constexpr uint32_t kMaxRank = 5;

// The driver reads the mode of wide maps only, and no enumeration to replace an address.
bool has_values(const wire::TensorMapRequest& q) {
  if (q.kind == wire::TensorMapKind::replace_address) return true;
  bool needs_mode = q.kind == wire::TensorMapKind::im2col_wide;
  return wire::is_value<CUtensorMapDataType>(q.type) &&
         wire::is_value<CUtensorMapInterleave>(q.interleave) &&
         wire::is_value<CUtensorMapSwizzle>(q.swizzle) &&
         wire::is_value<CUtensorMapL2promotion>(q.promotion) &&
         wire::is_value<CUtensorMapFloatOOBfill>(q.fill) &&
         (!needs_mode || wire::is_value<CUtensorMapIm2ColWideMode>(q.mode));
}

CUresult encode(Driver& cu, const wire::TensorMapRequest& q, CUtensorMap& map) {
  auto type = (CUtensorMapDataType)q.type;
  auto interleave = (CUtensorMapInterleave)q.interleave;
  auto swizzle = (CUtensorMapSwizzle)q.swizzle;
  auto promotion = (CUtensorMapL2promotion)q.promotion;
  auto fill = (CUtensorMapFloatOOBfill)q.fill;
  void* p = (void*)q.address;
  switch (q.kind) {
    case wire::TensorMapKind::tiled:
      if (cu.cuTensorMapEncodeTiled)
        return cu.cuTensorMapEncodeTiled(&map, type, q.rank, p, q.dimensions, q.strides, q.box,
                                         q.element_strides, interleave, swizzle, promotion, fill);
      break;
    case wire::TensorMapKind::im2col:
      if (cu.cuTensorMapEncodeIm2col)
        return cu.cuTensorMapEncodeIm2col(&map, type, q.rank, p, q.dimensions, q.strides, q.lower,
                                          q.upper, q.channels, q.pixels, q.element_strides,
                                          interleave, swizzle, promotion, fill);
      break;
    case wire::TensorMapKind::im2col_wide:
      if (cu.cuTensorMapEncodeIm2colWide)
        return cu.cuTensorMapEncodeIm2colWide(
            &map, type, q.rank, p, q.dimensions, q.strides, q.lower[0], q.upper[0], q.channels,
            q.pixels, q.element_strides, interleave, (CUtensorMapIm2ColWideMode)q.mode, swizzle,
            promotion, fill);
      break;
    case wire::TensorMapKind::replace_address:
      if (cu.cuTensorMapReplaceAddress) return cu.cuTensorMapReplaceAddress(&map, p);
      break;
  }
  return CUDA_ERROR_NOT_SUPPORTED;
}
}  // namespace

// request -> tensor map (128 bytes)
void handlers::tensor_map(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  auto q = in.get<wire::TensorMapRequest>();
  CUtensorMap map = q.map;
  if (!in.ok() || q.rank > kMaxRank || !has_values(q))
    return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  CUresult r = encode(s.cu, q, map);
  std::string out;
  append(out, map);
  s.reply(reply, r, out);
}

}  // namespace busbar::server
