// CUDA entry points: launches in the form of CUDA 3, where block shape, parameters and grid are set
// separately. PyCUDA still uses them. They only call cuLaunchKernel, so the software GPU's driver
// contains this file too.
#include <cuda.h>

#include <cstring>
#include <unordered_map>
#include <vector>

#include "export.h"
#include "mutex.h"

using busbar::Mutex;
using busbar::MutexLock;

namespace {
constexpr unsigned kMaxParameterBytes = 32764;

// Values that are set before the launch of a function.
struct Steps {
  unsigned x = 1, y = 1, z = 1, shared_bytes = 0;
  std::vector<char> parameters;
  size_t parameter_bytes = 0;
};
Mutex& steps_mutex() {
  static auto* m = new Mutex;
  return *m;
}
std::unordered_map<CUfunction, Steps>& steps() REQUIRES(steps_mutex()) {
  static auto* s = new std::unordered_map<CUfunction, Steps>;
  return *s;
}

CUresult check_function(CUfunction f) {
  int threads;
  return cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f);
}

CUresult set_parameter(CUfunction f, int offset, const void* value, unsigned bytes) {
  if (CUresult r = check_function(f)) return r;
  if (!value || offset < 0 || (unsigned)offset > kMaxParameterBytes ||
      bytes > kMaxParameterBytes - (unsigned)offset)
    return CUDA_ERROR_INVALID_VALUE;
  MutexLock lock(steps_mutex());
  auto& parameters = steps()[f].parameters;
  if (parameters.size() < (unsigned)offset + bytes) parameters.resize((unsigned)offset + bytes);
  std::memcpy(parameters.data() + offset, value, bytes);
  return CUDA_SUCCESS;
}

CUresult launch(CUfunction f, int width, int height, CUstream stream) {
  if (CUresult r = check_function(f)) return r;
  if (width <= 0 || height <= 0) return CUDA_ERROR_INVALID_VALUE;
  Steps s;
  {
    MutexLock lock(steps_mutex());
    s = steps()[f];
  }
  s.parameters.resize(s.parameter_bytes);
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, s.parameters.data(), CU_LAUNCH_PARAM_BUFFER_SIZE,
                   &s.parameter_bytes, CU_LAUNCH_PARAM_END};
  return cuLaunchKernel(f, (unsigned)width, (unsigned)height, 1, s.x, s.y, s.z, s.shared_bytes,
                        stream, nullptr, s.parameter_bytes ? extra : nullptr);
}
}  // namespace

API CUresult cuFuncSetBlockShape(CUfunction f, int x, int y, int z) {
  if (CUresult r = check_function(f)) return r;
  if (x <= 0 || y <= 0 || z <= 0) return CUDA_ERROR_INVALID_VALUE;
  MutexLock lock(steps_mutex());
  auto& s = steps()[f];
  s.x = (unsigned)x, s.y = (unsigned)y, s.z = (unsigned)z;
  return CUDA_SUCCESS;
}
API CUresult cuFuncSetSharedSize(CUfunction f, unsigned bytes) {
  if (CUresult r = check_function(f)) return r;
  MutexLock lock(steps_mutex());
  steps()[f].shared_bytes = bytes;
  return CUDA_SUCCESS;
}
API CUresult cuParamSetSize(CUfunction f, unsigned bytes) {
  if (CUresult r = check_function(f)) return r;
  if (bytes > kMaxParameterBytes) return CUDA_ERROR_INVALID_VALUE;
  MutexLock lock(steps_mutex());
  steps()[f].parameter_bytes = bytes;
  return CUDA_SUCCESS;
}
API CUresult cuParamSeti(CUfunction f, int offset, unsigned value) {
  return set_parameter(f, offset, &value, sizeof value);
}
API CUresult cuParamSetf(CUfunction f, int offset, float value) {
  return set_parameter(f, offset, &value, sizeof value);
}
API CUresult cuParamSetv(CUfunction f, int offset, void* value, unsigned bytes) {
  return set_parameter(f, offset, value, bytes);
}
API CUresult cuLaunch(CUfunction f) {
  return launch(f, 1, 1, nullptr);
}
API CUresult cuLaunchGrid(CUfunction f, int width, int height) {
  return launch(f, width, height, nullptr);
}
API CUresult cuLaunchGridAsync(CUfunction f, int width, int height, CUstream stream) {
  return launch(f, width, height, stream);
}
