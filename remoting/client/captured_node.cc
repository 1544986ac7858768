#include "client/captured_node.h"

#include <vector>

namespace busbar::client {

CUresult add_captured_node(CUstream stream, const AddNode& add) {
  CUstreamCaptureStatus status;
  CUgraph g = nullptr;
  const CUgraphNode* tail = nullptr;
  size_t count = 0;
  CUgraphNode added;
  if (CUresult r = cuStreamGetCaptureInfo_v3(stream, &status, nullptr, &g, &tail, nullptr, &count))
    return r;
  if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  std::vector<CUgraphNode> after(tail, tail + count);  // `tail` changes with the next query
  if (CUresult r = add(&added, g, after.data(), count)) return r;
  return cuStreamUpdateCaptureDependencies_v2(stream, &added, nullptr, 1,
                                              CU_STREAM_SET_CAPTURE_DEPENDENCIES);
}

CUresult add_captured_event_node(CUstream stream, CUevent event, bool record) {
  return add_captured_node(
      stream, [=](CUgraphNode* out, CUgraph g, const CUgraphNode* after, size_t count) {
        return record ? cuGraphAddEventRecordNode(out, g, after, count, event)
                      : cuGraphAddEventWaitNode(out, g, after, count, event);
      });
}

}  // namespace busbar::client
