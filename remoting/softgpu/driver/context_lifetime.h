// Creation and destruction of contexts.
//
// Thread safety: the functions take Driver::mutex and Context::mutex; callers must not hold them.
#pragma once
#include <cuda.h>

namespace softgpu {

struct Context;
struct DeviceState;

// Return null if the device has no memory for a context.
Context* create_context(DeviceState* d, unsigned flags, bool primary);
// Wait for the streams and free the memory of the context. The object itself stays.
void destroy_context(Context* c);
// Return whether a handle names a context that a call may use.
bool is_usable(CUcontext handle);

}  // namespace softgpu
