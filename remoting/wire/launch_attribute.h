// Attributes of launches and of kernel nodes that a program may set.
//
// Thread safety: constant. No function blocks or allocates.
#pragma once
#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "wire/enumeration.h"

namespace busbar::wire {

constexpr uint32_t kMaxLaunchAttributes = 32;  // more than CUDA has

enum class AttributeUse : uint8_t { launch = 1, node = 2 };

// An attribute that is permitted. The first `bytes` bytes of its value are the fields that a driver
// gets; the others are zero.
struct AttributeRow {
  CUlaunchAttributeID id;
  uint8_t uses;  // bits of AttributeUse
  uint32_t bytes;
};

// Not in the table, so refused: attributes with an event (programmatic event, launch completion
// event) or a device node, which are addresses in a driver, and those of streams only. The address
// of an access policy window is device memory, which a driver does not access itself.
inline constexpr AttributeRow kLaunchAttributes[] = {
    {CU_LAUNCH_ATTRIBUTE_IGNORE, 1, 0},
    {CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, 3, sizeof(CUaccessPolicyWindow)},
    {CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 3, sizeof(CUlaunchAttributeValue::cooperative)},
    {CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, 3, sizeof(CUlaunchAttributeValue::clusterDim)},
    {CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, 3,
     sizeof(CUlaunchAttributeValue::clusterSchedulingPolicyPreference)},
    {CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, 1,
     sizeof(CUlaunchAttributeValue::programmaticStreamSerializationAllowed)},
    {CU_LAUNCH_ATTRIBUTE_PRIORITY, 3, sizeof(CUlaunchAttributeValue::priority)},
    {CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP, 3, sizeof(CUlaunchAttributeValue::memSyncDomainMap)},
    {CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, 3, sizeof(CUlaunchAttributeValue::memSyncDomain)},
    {CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION, 3,
     sizeof(CUlaunchAttributeValue::preferredClusterDim)},
    {CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 3,
     sizeof(CUlaunchAttributeValue::sharedMemCarveout)},
};

// An attribute as it stands in records. Its id is any number: C++ leaves the behaviour undefined if
// an enumeration has a value that is out of its range.
struct RawAttribute {
  uint32_t id;
  char padding[offsetof(CUlaunchAttribute, value) - sizeof(uint32_t)];
  CUlaunchAttributeValue value;
};
static_assert(sizeof(RawAttribute) == sizeof(CUlaunchAttribute));

inline const AttributeRow* find_attribute(uint32_t id, AttributeUse use) {
  for (auto& row : kLaunchAttributes)
    if ((uint32_t)row.id == id && row.uses & (uint8_t)use) return &row;
  return nullptr;
}

// Return the error for an attribute that is not permitted: CUDA_ERROR_NOT_SUPPORTED for those of
// CUDA, CUDA_ERROR_INVALID_VALUE for what CUDA does not permit either.
inline CUresult refusal(uint32_t id, AttributeUse use) {
  switch (id) {
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
    case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
      return use == AttributeUse::launch ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
    case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
    case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING: return CUDA_ERROR_NOT_SUPPORTED;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

// Return whether the enumerations in the value of an attribute have values.
inline bool has_values(uint32_t id, const CUlaunchAttributeValue& v) {
  switch (id) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
      return has_value(v.accessPolicyWindow.hitProp) && has_value(v.accessPolicyWindow.missProp);
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      return has_value(v.clusterSchedulingPolicyPreference);
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN: return has_value(v.memSyncDomain);
    default: return true;
  }
}

// Set the bytes of a value to zero that are no field of the attribute. Return an error for an
// attribute that is not permitted, or whose value has an unknown number for an enumeration.
inline CUresult keep_fields(uint32_t id, AttributeUse use, CUlaunchAttributeValue& value) {
  const AttributeRow* row = find_attribute(id, use);
  if (!row) return refusal(id, use);
  if (!has_values(id, value)) return CUDA_ERROR_INVALID_VALUE;
  std::memset((char*)&value + row->bytes, 0, sizeof value - row->bytes);
  return CUDA_SUCCESS;
}

}  // namespace busbar::wire
