#include "server/driver.h"

#include <dlfcn.h>

namespace busbar::server {

// The name of the exported symbol: macros of cuda.h rename functions to their current version.
#define STRINGIFY(name) #name
#define SYMBOL_NAME(name) STRINGIFY(name)

bool Driver::load(const std::string& path, std::string& error) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!library) {
    error = dlerror();
    return false;
  }
#define CU(name)                                                        \
  this->name = (decltype(this->name))dlsym(library, SYMBOL_NAME(name)); \
  if (!this->name) {                                                    \
    error = path + " lacks the function " + SYMBOL_NAME(name);          \
    return false;                                                       \
  }
  BUSBAR_DRIVER_CALLS(CU)
#undef CU
#define CU(name) this->name = (decltype(this->name))dlsym(library, SYMBOL_NAME(name));
  BUSBAR_OPTIONAL_CALLS(CU)
#include "driver_calls.inc"
#undef CU
  auto zero = (int (*)())dlsym(library, "softgpu_fresh_memory_is_zero");
  software = zero != nullptr;
  fresh_memory_is_zero = zero && zero();
  return true;
}

}  // namespace busbar::server
