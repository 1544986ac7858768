// Launches: validated here, packed into one record, submitted. No allocation, no system call, no
// answer.
#include "client/launch.h"

#include <algorithm>

namespace busbar::client {

namespace {
constexpr uint32_t kLaunchRoom =
    1024;  // the ordinary launch; larger parameters take the large encoder
constexpr uint32_t kLargeRoom = 32764 + 8 * sizeof(CUlaunchAttribute) + 128;
}  // namespace

bool valid_geometry(const Device* d, const Function* f, const CUlaunchConfig& c) {
  auto limit = [&](CUdevice_attribute a) {
    return (unsigned)d->attributes[a];
  };
  if (!c.gridDimX || !c.gridDimY || !c.gridDimZ || !c.blockDimX || !c.blockDimY || !c.blockDimZ)
    return false;
  if (c.gridDimX > limit(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X) ||
      c.gridDimY > limit(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y) ||
      c.gridDimZ > limit(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z))
    return false;
  if (c.blockDimX > limit(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X) ||
      c.blockDimY > limit(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y) ||
      c.blockDimZ > limit(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z))
    return false;
  if ((uint64_t)c.blockDimX * c.blockDimY * c.blockDimZ >
      (unsigned)f->attributes[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK])
    return false;
  return (int)c.sharedMemBytes <= f->attributes[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES];
}

CUresult packed_buffer(void** extra, const void*& buffer, size_t& bytes) {
  for (void** e = extra; *e != CU_LAUNCH_PARAM_END; e += 2) {
    if (*e == CU_LAUNCH_PARAM_BUFFER_POINTER)
      buffer = e[1];
    else if (*e == CU_LAUNCH_PARAM_BUFFER_SIZE)
      bytes = *(size_t*)e[1];
    else
      return CUDA_ERROR_INVALID_VALUE;
  }
  return buffer && bytes <= 32764 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

namespace {
template <uint32_t Room>
CUresult submit_launch(Call& call, const Function* f, const CUlaunchConfig& c, void** params,
                       const void* buffer, uint32_t bytes) {
  wire::Encoder<Room> e(wire::Op::launch, call.context_id(), call.stream_id());
  e.put(f->id)
      .put(c.gridDimX)
      .put(c.gridDimY)
      .put(c.gridDimZ)
      .put(c.blockDimX)
      .put(c.blockDimY)
      .put(c.blockDimZ)
      .put(c.sharedMemBytes)
      .put((uint32_t)c.numAttrs)
      .put(bytes)
      .put((uint32_t)0);
  if (c.numAttrs) e.raw(c.attrs, c.numAttrs * (uint32_t)sizeof(CUlaunchAttribute));
  if (buffer)
    e.raw(buffer, bytes);
  else
    pack(f, params, [&](const void* p, uint32_t n) { e.raw(p, n); });
  return call.fire(e.finish(), e.size());
}

// A cooperative grid must be resident as a whole, and the program learns at once when it cannot be.
CUresult fits_at_once(const Context* c, CUfunction h, const CUlaunchConfig& l) {
  int blocks = 0;
  if (CUresult r = cuOccupancyMaxActiveBlocksPerMultiprocessor(
          &blocks, h, (int)(l.blockDimX * l.blockDimY * l.blockDimZ), l.sharedMemBytes))
    return r;
  uint64_t total = (uint64_t)l.gridDimX * l.gridDimY * l.gridDimZ;
  return total <= (uint64_t)blocks *
                      (uint64_t)c->device->attributes[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT]
             ? CUDA_SUCCESS
             : CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
}

bool cooperative(const CUlaunchConfig& c) {
  return std::any_of(c.attrs, c.attrs + c.numAttrs, [](auto& a) {
    return a.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && a.value.cooperative;
  });
}

CUresult launch(const CUlaunchConfig& c, CUfunction h, void** params, void** extra) {
  Call call;
  if (CUresult r = call.begin(c.hStream)) return r;
  CUresult why;
  Function* f = function_of(h, why);
  if (!f) return why;
  if (f->module->context->device != call.context()->device ||
      !valid_geometry(call.context()->device, f, c) || (params && extra) || c.numAttrs > 8)
    return CUDA_ERROR_INVALID_VALUE;
  const void* buffer = nullptr;
  size_t bytes = f->parameter_bytes;
  if (extra) {
    if (CUresult r = packed_buffer(extra, buffer, bytes)) return r;
  } else if (!params && f->parameter_bytes)
    return CUDA_ERROR_INVALID_VALUE;
  if (bytes < f->parameter_bytes) return CUDA_ERROR_INVALID_VALUE;
  if (c.numAttrs && cooperative(c))
    if (CUresult r = fits_at_once(call.context(), h, c)) return r;
  if (64 + bytes + c.numAttrs * sizeof(CUlaunchAttribute) <= kLaunchRoom)
    return submit_launch<kLaunchRoom>(call, f, c, params, buffer, (uint32_t)bytes);
  return submit_launch<kLargeRoom>(call, f, c, params, buffer, (uint32_t)bytes);
}

}  // namespace
}  // namespace busbar::client

using namespace busbar;
using namespace busbar::client;

API CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                            unsigned by, unsigned bz, unsigned shared, CUstream stream,
                            void** params, void** extra) {
  CUlaunchConfig c{};
  c.gridDimX = gx;
  c.gridDimY = gy;
  c.gridDimZ = gz;
  c.blockDimX = bx;
  c.blockDimY = by;
  c.blockDimZ = bz;
  c.sharedMemBytes = shared;
  c.hStream = stream;
  return launch(c, f, params, extra);
}

API CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** params,
                              void** extra) {
  return config ? launch(*config, f, params, extra) : CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz,
                                       unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                       CUstream stream, void** params) {
  CUlaunchAttribute cooperative{};
  cooperative.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  cooperative.value.cooperative = 1;
  CUlaunchConfig c{gx, gy, gz, bx, by, bz, shared, stream, &cooperative, 1};
  return launch(c, f, params, nullptr);
}
