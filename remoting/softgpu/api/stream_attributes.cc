// CUDA entry points: attributes of streams.
#include "softgpu/api/require.h"

using namespace softgpu;

// Attributes that affect only the speed of work. They are stored and have no effect.
static bool is_performance_attribute(CUstreamAttrID a) {
  return a == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW ||
         a == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY || a == CU_LAUNCH_ATTRIBUTE_PRIORITY ||
         a == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN || a == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP ||
         a == CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING;
}

API CUresult cuStreamSetAttribute(CUstream h, CUstreamAttrID which,
                                  const CUstreamAttrValue* value) {
  REQUIRE_CURRENT_CONTEXT(c);
  REQUIRE_STREAM_REF(s, h, c);
  if (!value || !is_performance_attribute(which)) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(c->mutex);
  s->attributes[which] = *value;
  return CUDA_SUCCESS;
}

API CUresult cuStreamGetAttribute(CUstream h, CUstreamAttrID which, CUstreamAttrValue* value) {
  REQUIRE_CURRENT_CONTEXT(c);
  REQUIRE_STREAM_REF(s, h, c);
  if (!value || !is_performance_attribute(which)) return CUDA_ERROR_INVALID_VALUE;
  *value = {};
  if (which == CU_LAUNCH_ATTRIBUTE_PRIORITY) value->priority = s->priority;
  std::lock_guard lock(c->mutex);
  if (auto it = s->attributes.find(which); it != s->attributes.end()) *value = it->second;
  return CUDA_SUCCESS;
}

API CUresult cuStreamCopyAttributes(CUstream to, CUstream from) {
  REQUIRE_CURRENT_CONTEXT(c);
  REQUIRE_STREAM_REF(a, to, c);
  REQUIRE_STREAM_REF(b, from, c);
  std::lock_guard lock(c->mutex);
  a->attributes = b->attributes;
  return CUDA_SUCCESS;
}
