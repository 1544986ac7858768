#include "client/host_copy.h"

#include "client/call.h"
#include "client/link.h"

namespace busbar::client {

CUresult add_host_copy(Call& call, GraphModel& model, bool in, const Rows& rows, CUgraphNode node,
                       uint32_t& staging) {
  staging = session()->next_staging++;
  wire::Encoder<> e(wire::Op::allocate_graph_buffer, call.context_id());
  e.put(call.reply_id()).put(staging).put<uint32_t>(0).put(rows.bytes());
  call.send_and_wait(e.finish(), e.size());
  if (call.status()) return call.status();
  MutexLock lock(model.mutex);
  model.contents.copies.push_back({staging, in, false, rows, node});
  call.link()->register_staging(staging, rows);
  return CUDA_SUCCESS;
}

}  // namespace busbar::client
