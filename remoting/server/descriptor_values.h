// The enumerations in structures of clients, see wire/enumeration.h.
//
// One function for each structure that a generated call takes: without it the call does not
// compile. Fields of unions are looked at for the member that the driver reads.
//
// Thread safety: any thread.
#pragma once
#include <cuda.h>

namespace busbar::server {

bool has_values(const CUDA_ARRAY3D_DESCRIPTOR& d);
bool has_values(const CUDA_RESOURCE_DESC& d);
bool has_values(const CUDA_TEXTURE_DESC& d);
bool has_values(const CUDA_RESOURCE_VIEW_DESC& d);
bool has_values(const CUDA_MEMSET_NODE_PARAMS& p);
bool has_values(const CUkernelNodeAttrValue& v);  // without its name: see keep_fields()
bool has_values(const CUstreamBatchMemOpParams& p);

}  // namespace busbar::server
