// Launches as CUDA 3 made them: shape, parameters and grid are set one by one on the function.
// PyCUDA still calls so. Everything ends in cuLaunchKernel, so the software GPU has this file too.
#include <cuda.h>

#include <cstring>
#include <mutex>
#include <unordered_map>
#include <vector>

#define STEP extern "C" __attribute__((visibility("default"))) CUresult

namespace {
constexpr unsigned kMostParameterBytes = 32764;

struct Steps {
  unsigned x = 1, y = 1, z = 1, shared_bytes = 0;
  std::vector<char> parameters;
  size_t parameter_bytes = 0;
};
std::mutex& steps_mutex() {
  static auto* m = new std::mutex;
  return *m;
}
std::unordered_map<CUfunction, Steps>& steps() {
  static auto* s = new std::unordered_map<CUfunction, Steps>;
  return *s;
}

// The driver says whether the function is one.
CUresult check(CUfunction f) {
  int threads;
  return cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f);
}

CUresult set(CUfunction f, int offset, const void* value, unsigned bytes) {
  if (CUresult r = check(f)) return r;
  if (!value || offset < 0 || (unsigned)offset > kMostParameterBytes ||
      bytes > kMostParameterBytes - (unsigned)offset)
    return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(steps_mutex());
  auto& parameters = steps()[f].parameters;
  if (parameters.size() < (unsigned)offset + bytes) parameters.resize((unsigned)offset + bytes);
  std::memcpy(parameters.data() + offset, value, bytes);
  return CUDA_SUCCESS;
}

CUresult launch(CUfunction f, int width, int height, CUstream stream) {
  if (CUresult r = check(f)) return r;
  if (width <= 0 || height <= 0) return CUDA_ERROR_INVALID_VALUE;
  Steps s;
  {
    std::lock_guard lock(steps_mutex());
    s = steps()[f];
  }
  s.parameters.resize(s.parameter_bytes);
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, s.parameters.data(), CU_LAUNCH_PARAM_BUFFER_SIZE,
                   &s.parameter_bytes, CU_LAUNCH_PARAM_END};
  return cuLaunchKernel(f, (unsigned)width, (unsigned)height, 1, s.x, s.y, s.z, s.shared_bytes,
                        stream, nullptr, s.parameter_bytes ? extra : nullptr);
}
}  // namespace

STEP cuFuncSetBlockShape(CUfunction f, int x, int y, int z) {
  if (CUresult r = check(f)) return r;
  if (x <= 0 || y <= 0 || z <= 0) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(steps_mutex());
  auto& s = steps()[f];
  s.x = (unsigned)x, s.y = (unsigned)y, s.z = (unsigned)z;
  return CUDA_SUCCESS;
}
STEP cuFuncSetSharedSize(CUfunction f, unsigned bytes) {
  if (CUresult r = check(f)) return r;
  std::lock_guard lock(steps_mutex());
  steps()[f].shared_bytes = bytes;
  return CUDA_SUCCESS;
}
STEP cuParamSetSize(CUfunction f, unsigned bytes) {
  if (CUresult r = check(f)) return r;
  if (bytes > kMostParameterBytes) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(steps_mutex());
  steps()[f].parameter_bytes = bytes;
  return CUDA_SUCCESS;
}
STEP cuParamSeti(CUfunction f, int offset, unsigned value) {
  return set(f, offset, &value, sizeof value);
}
STEP cuParamSetf(CUfunction f, int offset, float value) {
  return set(f, offset, &value, sizeof value);
}
STEP cuParamSetv(CUfunction f, int offset, void* value, unsigned bytes) {
  return set(f, offset, value, bytes);
}
STEP cuLaunch(CUfunction f) {
  return launch(f, 1, 1, nullptr);
}
STEP cuLaunchGrid(CUfunction f, int width, int height) {
  return launch(f, width, height, nullptr);
}
STEP cuLaunchGridAsync(CUfunction f, int width, int height, CUstream stream) {
  return launch(f, width, height, stream);
}
