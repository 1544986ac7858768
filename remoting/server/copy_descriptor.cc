#include "server/copy_descriptor.h"

#include "wire/enumeration.h"

namespace busbar::server {

bool valid_copy(const Session& s, const CUDA_MEMCPY3D& c, ProgramSide side) {
  if (side > ProgramSide::destination) return false;
  auto on_device = [&](const CUmemorytype& type, CUarray a) {
    return wire::has_value(type) &&
           (type == CU_MEMORYTYPE_DEVICE ||
            (type == CU_MEMORYTYPE_ARRAY && s.objects.contains(ObjectKind::array, (uint64_t)a)));
  };
  uint64_t bytes = copy_bytes(c);
  bool bounded = bytes && bytes <= wire::kMaxStagedBytes;
  return (side == ProgramSide::none || bounded) &&
         (side == ProgramSide::source || on_device(c.srcMemoryType, c.srcArray)) &&
         (side == ProgramSide::destination || on_device(c.dstMemoryType, c.dstArray));
}

void replace_program_side(CUDA_MEMCPY3D& c, ProgramSide side, void* buffer) {
  if (side == ProgramSide::source) {
    c.srcMemoryType = CU_MEMORYTYPE_HOST;
    c.srcHost = buffer;
    c.srcXInBytes = c.srcY = c.srcZ = 0;
    c.srcPitch = c.WidthInBytes;
    c.srcHeight = c.Height;
  } else {
    c.dstMemoryType = CU_MEMORYTYPE_HOST;
    c.dstHost = buffer;
    c.dstXInBytes = c.dstY = c.dstZ = 0;
    c.dstPitch = c.WidthInBytes;
    c.dstHeight = c.Height;
  }
  c.reserved0 = c.reserved1 = nullptr;
}

bool use_graph_buffer(Session& s, CUDA_MEMCPY3D& c, ProgramSide side, uint32_t id) {
  GraphBuffer buffer = s.graph_buffers.find(id);
  if (!buffer.data || buffer.bytes < copy_bytes(c)) return false;
  replace_program_side(c, side, buffer.data);
  return true;
}

}  // namespace busbar::server
