// Checks at the beginning of a CUDA entry point. Each macro returns from the function with the
// driver's error when the check fails. REQUIRE_X(name, handle) declares `name` with the object of
// the handle.
#pragma once
#include <cuda.h>

#include "client/context.h"
#include "client/session.h"
#include "client/stream_handle.h"
#include "export.h"

#define REQUIRE_SESSION \
  if (!has_session()) return CUDA_ERROR_NOT_INITIALIZED

// The current context, with the sticky error of its link.
#define REQUIRE_CONTEXT(c) \
  Context* c;              \
  if (CUresult require_error = require_context(c)) return require_error

#define REQUIRE_STREAM(s, handle, c)      \
  Stream* s = find_stream((handle), (c)); \
  if (!s) return CUDA_ERROR_INVALID_HANDLE

#define REQUIRE_DEVICE(d, ordinal)    \
  REQUIRE_SESSION;                    \
  Device* d = find_device((ordinal)); \
  if (!d) return CUDA_ERROR_INVALID_DEVICE

#define REQUIRE_HANDLE(type, name, registry, handle) \
  REQUIRE_SESSION;                                   \
  type* name = session()->registry.get((handle));    \
  if (!name) return CUDA_ERROR_INVALID_HANDLE

#define REQUIRE_EVENT(e, handle) REQUIRE_HANDLE(Event, e, events, handle)
#define REQUIRE_MODULE(m, handle) REQUIRE_HANDLE(Module, m, modules, handle)
#define REQUIRE_LIBRARY(l, handle) REQUIRE_HANDLE(Library, l, libraries, handle)
#define REQUIRE_KERNEL(k, handle) REQUIRE_HANDLE(Kernel, k, kernels, handle)
#define REQUIRE_LINK_JOB(j, handle) REQUIRE_HANDLE(LinkJob, j, link_jobs, handle)

// A CUfunction or a CUkernel.
#define REQUIRE_FUNCTION(f, handle)                   \
  REQUIRE_SESSION;                                    \
  CUresult f##_error;                                 \
  Function* f = find_function((handle), (f##_error)); \
  if (!f) return f##_error

#define REQUIRE_CAPTURE_SAFE \
  if (CUresult require_error = unsafe_in_capture()) return require_error
