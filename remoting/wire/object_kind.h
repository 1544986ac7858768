// Kinds of driver objects whose handles have the same value in client and session server.
#pragma once
#include <cuda.h>

namespace busbar {

enum class ObjectKind {
  array,
  mipmap,
  texture,
  surface,
  graph,
  node,
  exec,
  condition,
  memory,
  count
};

// Return the error that the driver reports for an invalid handle of this kind.
inline CUresult invalid_object_error(ObjectKind kind) {
  bool of_arrays = kind == ObjectKind::array || kind == ObjectKind::mipmap;
  return of_arrays ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace busbar
