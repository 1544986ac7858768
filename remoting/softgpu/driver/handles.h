// Registry of live objects. A handle is the address of an object of the driver; programs may pass
// any value, so each handle is looked up before it is used.
//
// Thread safety: every function takes Driver::mutex; callers must not hold it.
#pragma once

namespace softgpu {

bool is_live(const void* handle);
void add_handle(const void* handle);
// Return false if the handle was not live.
bool remove_handle(const void* handle);

}  // namespace softgpu
