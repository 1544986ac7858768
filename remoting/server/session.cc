#include "server/session.h"

#include "server/pinned_graphs.h"

namespace busbar::server {

ModuleRef Session::module(uint32_t module_id) {
  std::lock_guard lock(modules_mutex);
  auto it = modules.find(module_id);
  return it == modules.end() ? nullptr : it->second;
}

bool Session::too_many_modules() {
  std::lock_guard lock(modules_mutex);
  return modules.size() >= wire::kMaxObjects;
}

CUcontext Session::context_handle(uint32_t context_id) {
  ContextState* c = context(context_id);
  return c ? c->handle : nullptr;
}

CUdevice Session::device_handle(uint32_t index) const {
  return index < devices.size() ? devices[index].device : -1;
}

bool Session::charge_context(uint32_t device) {
  if (has_charged_context(device)) return true;
  if (!account.open_context(devices[device].partition)) return false;
  charged_contexts |= 1u << device;
  return true;
}

uint32_t Session::current_partition() const {
  CUdevice device = -1;
  cu.cuCtxGetDevice(&device);
  for (auto& d : devices)
    if (d.device == device) return d.partition;
  return 0;
}

CUevent Session::event_handle(uint32_t event_id) {
  auto it = events.find(event_id);
  if (it == events.end()) return nullptr;
  EventState& e = it->second;
  if (!e.current) e.current = std::make_shared<DriverEvent>(cu, e.flags);
  e.in_graph = true;
  graph_events.add(e.current->handle, event_id);
  return e.current->handle;
}

void Session::use_context(uint32_t context_id) {
  ContextState* c = context(context_id);
  if (!c || c->handle == current) return;
  if (cu.cuCtxSetCurrent(c->handle) == CUDA_SUCCESS) current = c->handle;
}

bool Session::accepts(const CUDA_RESOURCE_DESC& d) const {
  if (!has_values(d)) return false;
  if (d.resType == CU_RESOURCE_TYPE_ARRAY)
    return objects.contains(ObjectKind::array, (uint64_t)d.res.array.hArray);
  if (d.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
    return objects.contains(ObjectKind::mipmap, (uint64_t)d.res.mipmap.hMipmappedArray);
  return d.resType == CU_RESOURCE_TYPE_LINEAR || d.resType == CU_RESOURCE_TYPE_PITCH2D;
}

void Session::reply(uint64_t reply_id, uint32_t status, const std::string& body) {
  PinnedGraphs::release_for_reply();
  struct __attribute__((packed)) {
    uint64_t id;
    uint32_t status;
  } head{reply_id, status};
  link.send(wire::Frame::reply, &head, sizeof head, body.data(), body.size());
}

void Session::credit(uint64_t bytes) {
  uint64_t total = credit_total += bytes;
  link.send(wire::Frame::credit, &total, sizeof total);
}

}  // namespace busbar::server
