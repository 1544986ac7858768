// Arrays of the program. They are charged to the ledger before the driver creates them.
#include "array_element.h"
#include "server/array_memory.h"
#include "server/clearing_turn.h"
#include "server/handlers.h"
#include "server/optional_call.h"
#include "server/reply.h"
#include "server/session.h"

namespace busbar::server {

namespace {
constexpr uint32_t kMaxChannels = 4;

// Destroys what create() made.
CUresult destroy(Driver& cu, ObjectKind kind, uint64_t value) {
  if (kind == ObjectKind::array) return optional_call(cu.cuArrayDestroy, (CUarray)value);
  return optional_call(cu.cuMipmappedArrayDestroy, (CUmipmappedArray)value);
}

// Creates a cleared array, or a mipmapped array. Leaves nothing behind on failure.
CUresult create(Driver& cu, const CUDA_ARRAY3D_DESCRIPTOR& d, uint32_t levels, uint64_t& made) {
  CUresult r = levels
                   ? optional_call(cu.cuMipmappedArrayCreate, (CUmipmappedArray*)&made, &d, levels)
                   : optional_call(cu.cuArray3DCreate, (CUarray*)&made, &d);
  if (r) return r;
  r = levels ? clear_mipmap(cu, (CUmipmappedArray)made, d, levels)
             : clear_array(cu, (CUarray)made, d);
  if (r) destroy(cu, levels ? ObjectKind::mipmap : ObjectKind::array, made);
  return r;
}
}  // namespace

// descriptor, levels (0: an array, else a mipmapped array), 1: ask other sessions for unused memory
// -> handle
void handlers::create_array(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  auto d = in.get<CUDA_ARRAY3D_DESCRIPTOR>();
  uint32_t levels = in.get<uint32_t>(), partition = s.current_partition();
  bool asks = in.get<uint32_t>() != 0;
  if (!in.ok() || d.NumChannels > kMaxChannels || !has_values(d))
    return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  if (levels) levels = mipmap_levels(d, levels);  // as the driver does
  uint64_t bytes = array_charge(s.cu, d, levels), made = 0;
  if (!s.account.reserve(partition, bytes, asks)) return s.reply(reply, CUDA_ERROR_OUT_OF_MEMORY);
  ClearingTurn turn(s, partition);
  CUresult r = create(s.cu, d, levels, made);
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
  CUresult r = destroy(s.cu, kind, value);
  if (!r)
    for (auto& gone : s.objects.remove(kind, value))
      s.account.release(gone.entry.metadata.partition, gone.entry.metadata.bytes);
  s.reply(reply, r);
}

}  // namespace busbar::server
