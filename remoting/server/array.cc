// Arrays. They are memory too, so the ledger counts them before the driver is asked.
#include <algorithm>

#include "server/session.h"

namespace busbar::server {

namespace {
// An upper bound: 4 bytes a channel whatever the format, and a third more for the smaller levels of
// a mipmap.
uint64_t most_bytes(const CUDA_ARRAY3D_DESCRIPTOR& d, uint32_t levels) {
  unsigned __int128 texels =
      (unsigned __int128)d.Width * std::max<size_t>(d.Height, 1) * std::max<size_t>(d.Depth, 1);
  uint64_t channel = d.Format == CU_AD_FORMAT_UNSIGNED_INT8 || d.Format == CU_AD_FORMAT_SIGNED_INT8
                         ? 1
                     : d.Format == CU_AD_FORMAT_HALF || d.Format == CU_AD_FORMAT_UNSIGNED_INT16 ||
                             d.Format == CU_AD_FORMAT_SIGNED_INT16
                         ? 2
                         : 4;
  unsigned __int128 bytes = texels * std::max(1u, d.NumChannels) * channel;
  if (levels > 1) bytes += bytes / 2;
  return bytes > 1ull << 46 ? 1ull << 46 : ((uint64_t)bytes + 511) & ~511ull;
}

uint32_t partition_of(Session& s) {
  for (auto& [id, c] : s.contexts)
    if (c.handle == s.current) return s.devices[c.device].partition;
  return 0;
}
}  // namespace

// descriptor, levels (0: a plain array)
void create_array(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  auto d = in.get<CUDA_ARRAY3D_DESCRIPTOR>();
  uint32_t levels = in.get<uint32_t>(), partition = partition_of(s);
  if (!in.ok() || d.NumChannels > 4) return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  uint64_t bytes = most_bytes(d, levels), made = 0;
  if (!s.ledger.reserve(partition, bytes)) return s.reply(reply, CUDA_ERROR_OUT_OF_MEMORY);
  CUresult r = CUDA_ERROR_NOT_SUPPORTED;
  if (levels == 0 && s.cu.cuArray3DCreate) r = s.cu.cuArray3DCreate((CUarray*)&made, &d);
  if (levels > 0 && s.cu.cuMipmappedArrayCreate)
    r = s.cu.cuMipmappedArrayCreate((CUmipmappedArray*)&made, &d, levels);
  if (r)
    s.ledger.give_back(partition, bytes);
  else
    s.objects.add(levels ? ObjectKind::mipmap : ObjectKind::array, made, 0, {bytes, partition});
  std::string out;
  append(out, made);
  s.reply(reply, r, out);
}

// kind, value
void destroy_array(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  auto kind = (ObjectKind)in.get<uint32_t>();
  in.get<uint32_t>();
  uint64_t value = in.get<uint64_t>();
  if (!in.ok() || (kind != ObjectKind::array && kind != ObjectKind::mipmap) ||
      !s.objects.known(kind, value))
    return s.reply(reply, CUDA_ERROR_INVALID_HANDLE);
  CUresult r = CUDA_ERROR_NOT_SUPPORTED;
  if (kind == ObjectKind::array && s.cu.cuArrayDestroy) r = s.cu.cuArrayDestroy((CUarray)value);
  if (kind == ObjectKind::mipmap && s.cu.cuMipmappedArrayDestroy)
    r = s.cu.cuMipmappedArrayDestroy((CUmipmappedArray)value);
  if (!r)
    for (auto& gone : s.objects.take(kind, value))
      s.ledger.give_back(gone.entry.note.partition, gone.entry.note.bytes);
  s.reply(reply, r);
}

bool Session::accepts(const CUDA_RESOURCE_DESC& d) const {
  if (d.resType == CU_RESOURCE_TYPE_ARRAY)
    return objects.known(ObjectKind::array, (uint64_t)d.res.array.hArray);
  if (d.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
    return objects.known(ObjectKind::mipmap, (uint64_t)d.res.mipmap.hMipmappedArray);
  return true;
}

// A side that is not the program's must lie on the device: never in memory of this process.
bool Session::accepts(const CUDA_MEMCPY3D& c, bool from_host, bool to_host) const {
  auto side = [&](CUmemorytype type, CUarray a) {
    return type == CU_MEMORYTYPE_DEVICE ||
           (type == CU_MEMORYTYPE_ARRAY && objects.known(ObjectKind::array, (uint64_t)a));
  };
  uint64_t most = wire::kMaxStagedBytes;
  bool bounded = c.WidthInBytes && c.Height && c.Depth &&
                 (unsigned __int128)c.WidthInBytes * c.Height <= most &&
                 (unsigned __int128)c.WidthInBytes * c.Height * c.Depth <= most;
  return ((from_host || to_host) ? bounded : true) &&
         (from_host || side(c.srcMemoryType, c.srcArray)) &&
         (to_host || side(c.dstMemoryType, c.dstArray));
}

// Puts a staging buffer in the place of the program's memory. False when there is no room for it.
bool Session::stage_copy(CUDA_MEMCPY3D& c, bool in, uint32_t staging) {
  GraphBuffer b = graph_memory.make(staging, c.WidthInBytes * c.Height * c.Depth);
  if (b.data) host_side(c, in, b.data);
  return b.data;
}

void Session::host_side(CUDA_MEMCPY3D& c, bool in, void* p) {
  (in ? c.srcMemoryType : c.dstMemoryType) = CU_MEMORYTYPE_HOST;
  if (in)
    c.srcHost = p;
  else
    c.dstHost = p;
  (in ? c.srcXInBytes : c.dstXInBytes) = 0;
  (in ? c.srcY : c.dstY) = 0;
  (in ? c.srcZ : c.dstZ) = 0;
  (in ? c.srcPitch : c.dstPitch) = c.WidthInBytes;
  (in ? c.srcHeight : c.dstHeight) = c.Height;
  c.reserved0 = c.reserved1 = nullptr;
}

}  // namespace busbar::server
