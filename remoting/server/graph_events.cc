#include "server/graph_events.h"

#include <vector>

namespace busbar::server {

namespace {
std::vector<CUgraphNode> nodes_of(Driver& cu, CUgraph graph) {
  size_t count = 0;
  if (!cu.cuGraphGetNodes || cu.cuGraphGetNodes(graph, nullptr, &count)) return {};
  std::vector<CUgraphNode> nodes(count);
  if (count && cu.cuGraphGetNodes(graph, nodes.data(), &count)) return {};
  return nodes;
}
}  // namespace

void GraphEvents::add(CUevent handle, uint32_t id) {
  std::lock_guard lock(mutex_);
  ids_[handle] = id;
  used_ = true;
}

void GraphEvents::add_id(CUevent handle, std::set<uint32_t>& ids) const {
  if (auto it = ids_.find(handle); it != ids_.end()) ids.insert(it->second);
}

// Bodies of conditional nodes have no nodes with events.
void GraphEvents::find(Driver& cu, CUgraph graph, Named& named) const {
  for (CUgraphNode n : nodes_of(cu, graph)) {
    CUgraphNodeType type;
    CUevent event = nullptr;
    CUgraph child = nullptr;
    if (cu.cuGraphNodeGetType(n, &type)) continue;
    if (type == CU_GRAPH_NODE_TYPE_EVENT_RECORD && !cu.cuGraphEventRecordNodeGetEvent(n, &event))
      add_id(event, named.recorded);
    if (type == CU_GRAPH_NODE_TYPE_WAIT_EVENT && !cu.cuGraphEventWaitNodeGetEvent(n, &event))
      add_id(event, named.awaited);
    if (type == CU_GRAPH_NODE_TYPE_GRAPH && !cu.cuGraphChildGraphNodeGetGraph(n, &child))
      find(cu, child, named);
  }
}

void GraphEvents::note(Driver& cu, CUgraphExec exec, CUgraph graph) {
  if (!used_) return;
  std::lock_guard lock(mutex_);
  Named named;
  find(cu, graph, named);
  named_.erase(exec);  // of an earlier graph with this handle
  if (!named.empty()) named_[exec] = std::move(named);
}

void GraphEvents::change(CUgraphExec exec) {
  if (!used_) return;
  std::lock_guard lock(mutex_);
  auto it = named_.find(exec);
  if (it == named_.end()) return;
  Named& named = it->second;
  for (auto& [handle, id] : ids_) {
    if (!named.recorded.empty()) named.maybe_recorded.insert(id);
    if (!named.awaited.empty()) named.awaited.insert(id);
  }
}

GraphEvents::Named GraphEvents::named(CUgraphExec exec) const {
  if (!used_) return {};
  std::lock_guard lock(mutex_);
  auto it = named_.find(exec);
  return it == named_.end() ? Named{} : it->second;
}

}  // namespace busbar::server
