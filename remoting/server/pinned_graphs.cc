#include "server/pinned_graphs.h"

namespace busbar::server {

namespace {
constexpr int kMaxArguments = 3;  // cuGraphExecChildGraphNodeSetParams: graphs are first and third
}

PinnedGraphs::PinnedGraphs(Objects<Charge>& objects, const Record& r) : objects_(objects) {
  wire::Decoder in = r.decoder();
  in.get<uint64_t>();  // the reply
  for (int i = 0; i < kMaxArguments; ++i)
    if (auto value = in.get<uint64_t>(); in.ok()) {
      pin(ObjectKind::graph, value);
      pin(ObjectKind::exec, value);
    }
}

void PinnedGraphs::pin(ObjectKind kind, uint64_t value) {
  if (!objects_.pin(kind, value)) return;
  values_.push_back(value);
  uint64_t owner = objects_.owner_of_pinned(kind, value);
  captured_ |= owner && !objects_.contains(ObjectKind::node, owner);
}

void PinnedGraphs::release() {
  for (uint64_t value : std::exchange(values_, {})) objects_.unpin(value);
}

}  // namespace busbar::server
