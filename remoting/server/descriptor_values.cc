#include "server/descriptor_values.h"

#include <algorithm>

#include "wire/enumeration.h"

namespace busbar::server {

using wire::has_value;

bool has_values(const CUDA_ARRAY3D_DESCRIPTOR& d) {
  return has_value(d.Format);
}

bool has_values(const CUDA_RESOURCE_DESC& d) {
  if (!has_value(d.resType)) return false;
  switch (d.resType) {
    case CU_RESOURCE_TYPE_LINEAR: return has_value(d.res.linear.format);
    case CU_RESOURCE_TYPE_PITCH2D: return has_value(d.res.pitch2D.format);
    default: return true;
  }
}

bool has_values(const CUDA_TEXTURE_DESC& d) {
  return has_value(d.filterMode) && has_value(d.mipmapFilterMode) &&
         std::ranges::all_of(d.addressMode, has_value<CUaddress_mode>);
}

bool has_values(const CUDA_RESOURCE_VIEW_DESC& d) {
  return has_value(d.format);
}

bool has_values(const CUDA_MEMSET_NODE_PARAMS&) {
  return true;
}

bool has_values(const CUkernelNodeAttrValue&) {
  return true;
}

// All members begin with the operation.
bool has_values(const CUstreamBatchMemOpParams& p) {
  return has_value(p.operation);
}

}  // namespace busbar::server
