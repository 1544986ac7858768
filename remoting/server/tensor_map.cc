#include "wire/tensor_map.h"

#include "server/session.h"

namespace busbar::server {

// request -> 128 bytes
void tensor_map(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  auto q = in.get<wire::TensorMapRequest>();
  CUtensorMap map = q.map;
  if (!in.ok() || q.rank > 5) return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  auto type = (CUtensorMapDataType)q.type;
  auto interleave = (CUtensorMapInterleave)q.interleave;
  auto swizzle = (CUtensorMapSwizzle)q.swizzle;
  auto promotion = (CUtensorMapL2promotion)q.promotion;
  auto fill = (CUtensorMapFloatOOBfill)q.fill;
  void* p = (void*)q.address;
  CUresult r = CUDA_ERROR_NOT_SUPPORTED;
  switch (q.kind) {
    case wire::TensorMapKind::tiled:
      if (s.cu.cuTensorMapEncodeTiled)
        r = s.cu.cuTensorMapEncodeTiled(&map, type, q.rank, p, q.dimensions, q.strides, q.box,
                                        q.element_strides, interleave, swizzle, promotion, fill);
      break;
    case wire::TensorMapKind::im2col:
      if (s.cu.cuTensorMapEncodeIm2col)
        r = s.cu.cuTensorMapEncodeIm2col(&map, type, q.rank, p, q.dimensions, q.strides, q.lower,
                                         q.upper, q.channels, q.pixels, q.element_strides,
                                         interleave, swizzle, promotion, fill);
      break;
    case wire::TensorMapKind::im2col_wide:
      if (s.cu.cuTensorMapEncodeIm2colWide)
        r = s.cu.cuTensorMapEncodeIm2colWide(
            &map, type, q.rank, p, q.dimensions, q.strides, q.lower[0], q.upper[0], q.channels,
            q.pixels, q.element_strides, interleave, (CUtensorMapIm2ColWideMode)q.mode, swizzle,
            promotion, fill);
      break;
    case wire::TensorMapKind::replace_address:
      if (s.cu.cuTensorMapReplaceAddress) r = s.cu.cuTensorMapReplaceAddress(&map, p);
      break;
  }
  std::string out;
  append(out, map);
  s.reply(reply, r, out);
}

}  // namespace busbar::server
