#include "client/captured_event_node.h"

#include <vector>

namespace busbar::client {

CUresult add_captured_event_node(CUstream stream, CUevent event, bool record) {
  CUstreamCaptureStatus status;
  CUgraph g = nullptr;
  const CUgraphNode* tail = nullptr;
  size_t count = 0;
  CUgraphNode added;
  if (CUresult r = cuStreamGetCaptureInfo_v3(stream, &status, nullptr, &g, &tail, nullptr, &count))
    return r;
  if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  std::vector<CUgraphNode> after(tail, tail + count);  // `tail` changes with the next query
  if (CUresult r = record ? cuGraphAddEventRecordNode(&added, g, after.data(), count, event)
                          : cuGraphAddEventWaitNode(&added, g, after.data(), count, event))
    return r;
  return cuStreamUpdateCaptureDependencies_v2(stream, &added, nullptr, 1,
                                              CU_STREAM_SET_CAPTURE_DEPENDENCIES);
}

}  // namespace busbar::client
