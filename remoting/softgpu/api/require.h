// Checks at the beginning of a CUDA entry point. Each macro returns from the function with an error
// if the check fails; those with arguments declare the first one.
#pragma once
#include <cuda.h>

#include "export.h"
#include "softgpu/driver/context.h"
#include "softgpu/driver/driver.h"
#include "softgpu/driver/handles.h"
#include "softgpu/driver/stream_handle.h"

#define REQUIRE_DRIVER() \
  if (!driver()) return CUDA_ERROR_NOT_INITIALIZED
#define REQUIRE_DEVICE_STATE(device, ordinal) \
  REQUIRE_DRIVER();                           \
  DeviceState* device = device_at(ordinal);   \
  if (!device) return CUDA_ERROR_INVALID_DEVICE
#define REQUIRE_CURRENT_CONTEXT(context) \
  Context* context;                      \
  if (CUresult r = current_context(context)) return r
#define REQUIRE_STREAM_REF(stream, handle, context) \
  StreamRef stream;                                 \
  if (CUresult r = stream_for(handle, context, stream)) return r
#define REQUIRE_WORK_STREAM(stream, handle, context) \
  StreamRef stream;                                  \
  if (CUresult r = stream_for_work(handle, context, stream)) return r
// The object of a handle whose kind the caller knows.
#define REQUIRE_LIVE(type, object, handle) \
  auto* object = (type*)(handle);          \
  REQUIRE_DRIVER();                        \
  if (!object || !is_live(object)) return CUDA_ERROR_INVALID_VALUE
// The kernel of a CUfunction or CUkernel; needs driver/module.h.
#define REQUIRE_KERNEL_STATE(kernel, handle) \
  KernelState* kernel = kernel_of(handle);   \
  if (!kernel) return CUDA_ERROR_INVALID_HANDLE
