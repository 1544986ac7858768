// Arrays of the program. They are charged to the ledger before the driver creates them.
#include <algorithm>

#include "checked_size.h"
#include "server/handlers.h"
#include "server/reply.h"
#include "server/session.h"

namespace busbar::server {

namespace {
constexpr uint32_t kMaxChannels = 4;
constexpr uint64_t kMaxChargeBytes = 1ull << 46, kChargeUnitBytes = 512;

uint64_t channel_bytes(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8: return 1;
    case CU_AD_FORMAT_HALF:
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16: return 2;
    default: return 4;
  }
}

// Returns an upper bound: other formats count as 4 bytes a channel, and the smaller levels of a
// mipmap as half of the largest one.
uint64_t charge_of(const CUDA_ARRAY3D_DESCRIPTOR& d, uint32_t levels) {
  CheckedSize texels =
      CheckedSize(d.Width) * std::max<size_t>(d.Height, 1) * std::max<size_t>(d.Depth, 1);
  CheckedSize bytes = texels * std::max(1u, d.NumChannels) * channel_bytes(d.Format);
  if (levels > 1) bytes = bytes + bytes.value() / 2;
  return std::min(bytes.rounded_up(kChargeUnitBytes).value(), kMaxChargeBytes);
}

// Returns the partition of the current context.
uint32_t partition_of(Session& s) {
  CUdevice device = -1;
  s.cu.cuCtxGetDevice(&device);
  for (auto& d : s.devices)
    if (d.device == device) return d.partition;
  return 0;
}
}  // namespace

// descriptor, levels (0: an array, else a mipmapped array) -> handle
void handlers::create_array(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  auto d = in.get<CUDA_ARRAY3D_DESCRIPTOR>();
  uint32_t levels = in.get<uint32_t>(), partition = partition_of(s);
  if (!in.ok() || d.NumChannels > kMaxChannels) return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  uint64_t bytes = charge_of(d, levels), made = 0;
  if (!s.account.reserve(partition, bytes)) return s.reply(reply, CUDA_ERROR_OUT_OF_MEMORY);
  CUresult r = CUDA_ERROR_NOT_SUPPORTED;
  if (levels == 0 && s.cu.cuArray3DCreate) r = s.cu.cuArray3DCreate((CUarray*)&made, &d);
  if (levels > 0 && s.cu.cuMipmappedArrayCreate)
    r = s.cu.cuMipmappedArrayCreate((CUmipmappedArray*)&made, &d, levels);
  if (r)
    s.account.release(partition, bytes);
  else
    s.objects.add(levels ? ObjectKind::mipmap : ObjectKind::array, made, 0, {bytes, partition});
  std::string out;
  append(out, made);
  s.reply(reply, r, out);
}

// kind, 0, handle
void handlers::destroy_array(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  auto kind = (ObjectKind)in.get<uint32_t>();
  in.get<uint32_t>();
  uint64_t value = in.get<uint64_t>();
  if (!in.ok() || (kind != ObjectKind::array && kind != ObjectKind::mipmap) ||
      !s.objects.contains(kind, value))
    return s.reply(reply, CUDA_ERROR_INVALID_HANDLE);
  CUresult r = CUDA_ERROR_NOT_SUPPORTED;
  if (kind == ObjectKind::array && s.cu.cuArrayDestroy) r = s.cu.cuArrayDestroy((CUarray)value);
  if (kind == ObjectKind::mipmap && s.cu.cuMipmappedArrayDestroy)
    r = s.cu.cuMipmappedArrayDestroy((CUmipmappedArray)value);
  if (!r)
    for (auto& gone : s.objects.remove(kind, value))
      s.account.release(gone.entry.metadata.partition, gone.entry.metadata.bytes);
  s.reply(reply, r);
}

}  // namespace busbar::server
