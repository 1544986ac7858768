// Values that NVIDIA's libraries keep for each context, through the private table "context storage"
// (docs/nvidia.md).
//
// Thread safety: any thread. Destructors are called without the lock.
#pragma once
#include <cuda.h>

namespace busbar::client {

using StorageDestructor = void (*)(CUcontext, void* key, void* value);

// A null context means the current one.
CUresult set_context_storage(CUcontext c, void* key, void* value, StorageDestructor destroy);
CUresult remove_context_storage(CUcontext c, void* key);
CUresult get_context_storage(void** value, CUcontext c, void* key);

// Removes all values of a context and calls their destructors.
void destroy_context_storage(CUcontext c);

}  // namespace busbar::client
