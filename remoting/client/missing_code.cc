#include "client/missing_code.h"

#include <cstdio>
#include <mutex>
#include <set>

#include "client/device.h"

namespace busbar::client {

void explain_missing_code(const Device* d, CUresult status, std::string_view log) {
  static std::mutex mutex;
  static auto* explained = new std::set<const Device*>;
  std::lock_guard lock(mutex);
  if (status != CUDA_ERROR_NO_BINARY_FOR_GPU || !explained->insert(d).second) return;
  if (!log.empty()) {
    std::fprintf(stderr, "busbar: %.*s\n", (int)log.size(), log.data());
    return;
  }
  int major = d->attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR],
      minor = d->attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR];
  std::fprintf(stderr,
               "busbar: the image has no code for sm_%d%d: compile for it or to PTX (nvcc: "
               "-gencode arch=compute_%d%d,code=compute_%d%d; cuda.core: compile(\"ptx\"))\n",
               major, minor, major, minor, major, minor);
}

}  // namespace busbar::client
