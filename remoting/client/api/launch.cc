// CUDA entry points: kernel launches. A launch is checked here, packed into one record and
// submitted, without allocation, system call or reply.
#include <algorithm>

#include "checked_size.h"
#include "client/call.h"
#include "client/kernel_params.h"
#include "client/library.h"
#include "client/mapped.h"
#include "client/module.h"
#include "export.h"
#include "wire/launch_attribute.h"

using namespace busbar;
using namespace busbar::client;

namespace {
constexpr uint32_t kLaunchFieldBytes = 64;  // at most, without parameters and attributes
// Capacity of the encoder: for ordinary launches, and for those with large parameters.
constexpr uint32_t kSmallRecord = 1024;
constexpr uint32_t kLargeRecord =
    kMaxParameterBytes + wire::kMaxLaunchAttributes * sizeof(CUlaunchAttribute) + 128;

template <uint32_t Capacity>
CUresult submit_launch(Call& call, const Function* f, const CUlaunchConfig& c,
                       const KernelParams& params) {
  wire::Encoder<Capacity> e(wire::Op::launch, call.context_id(), call.stream_id());
  // wire::LaunchFields. A struct would cost more instructions: the compiler builds it and copies
  // it.
  e.put(f->id)
      .put(c.gridDimX)
      .put(c.gridDimY)
      .put(c.gridDimZ)
      .put(c.blockDimX)
      .put(c.blockDimY)
      .put(c.blockDimZ)
      .put(c.sharedMemBytes)
      .put((uint32_t)c.numAttrs)
      .put(params.bytes)
      .put((uint32_t)0);
  if (c.numAttrs) e.raw(c.attrs, (uint32_t)(c.numAttrs * sizeof(CUlaunchAttribute)));
  put_params(f, params, [&](const void* p, uint32_t n) { e.parameter(p, n); });
  const uint8_t* parameters = e.last(params.bytes);
  if (CUresult r = map_pinned_parameters(call.context(), f, parameters, params.bytes)) return r;
  return call.send(e.finish(), e.size());
}

// A cooperative grid must be resident as a whole; otherwise the launch fails at once.
CUresult check_residency(const Context* c, CUfunction h, const CUlaunchConfig& l) {
  int blocks = 0;
  if (CUresult r = cuOccupancyMaxActiveBlocksPerMultiprocessor(
          &blocks, h, (int)volume(l.blockDimX, l.blockDimY, l.blockDimZ), l.sharedMemBytes))
    return r;
  CheckedSize room = CheckedSize((unsigned)blocks) *
                     (unsigned)c->device->attributes[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT];
  return CheckedSize(volume(l.gridDimX, l.gridDimY, l.gridDimZ)).within(room)
             ? CUDA_SUCCESS
             : CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
}

// The attributes are checked here, so that the launch itself returns the error.
CUresult check_attributes(const CUlaunchConfig& c) {
  if (c.numAttrs > wire::kMaxLaunchAttributes || (c.numAttrs && !c.attrs))
    return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < c.numAttrs; ++i)
    if (!find_attribute(c.attrs[i].id, wire::AttributeUse::launch))
      return refusal(c.attrs[i].id, wire::AttributeUse::launch);
  return CUDA_SUCCESS;
}

bool is_cooperative(const CUlaunchConfig& c) {
  return std::any_of(c.attrs, c.attrs + c.numAttrs, [](auto& a) {
    return a.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && a.value.cooperative;
  });
}

CUresult launch(const CUlaunchConfig& c, CUfunction h, void** pointers, void** extra) {
  Call call;
  if (CUresult r = call.begin(c.hStream)) return r;
  CUresult error;
  Function* f = find_function(h, error);
  if (!f) return error;
  const Device* d = call.context()->device;
  if (f->module->context->device != d || !valid_geometry(d, f, c)) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = check_attributes(c)) return r;
  KernelParams params;
  if (CUresult r = resolve_params(f, pointers, extra, params)) return r;
  if (c.numAttrs && is_cooperative(c))
    if (CUresult r = check_residency(call.context(), h, c)) return r;
  if (kLaunchFieldBytes + params.bytes + c.numAttrs * sizeof(CUlaunchAttribute) <= kSmallRecord)
    return submit_launch<kSmallRecord>(call, f, c, params);
  return submit_launch<kLargeRecord>(call, f, c, params);
}
}  // namespace

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
