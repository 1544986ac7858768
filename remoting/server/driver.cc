#include "server/driver.h"

#include <dlfcn.h>

namespace busbar::server {

#define SPELLED(name) #name
#define EXPORTED(name) SPELLED(name)  // cuda.h renames functions to their current version by macro

bool Driver::load(const std::string& path, std::string& error) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!library) {
    error = dlerror();
    return false;
  }
#define CU(name)                                                     \
  this->name = (decltype(this->name))dlsym(library, EXPORTED(name)); \
  if (!this->name) {                                                 \
    error = path + " has no " + EXPORTED(name);                      \
    return false;                                                    \
  }
  BUSBAR_DRIVER_CALLS(CU)
#undef CU
#define CU(name) this->name = (decltype(this->name))dlsym(library, EXPORTED(name));
  BUSBAR_OPTIONAL_CALLS(CU)
#include "driver_calls.inc"
#undef CU
  auto zero = (int (*)())dlsym(library, "softgpu_fresh_memory_is_zero");
  software = zero != nullptr;
  fresh_memory_is_zero = zero && zero();
  return true;
}

}  // namespace busbar::server
