// Things that the driver names by a value of its own, on both ends.
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

// What a driver answers to a value that names nothing.
inline CUresult unknown_object(ObjectKind kind) {
  bool of_graphs = kind == ObjectKind::graph || kind == ObjectKind::node ||
                   kind == ObjectKind::exec || kind == ObjectKind::condition;
  return of_graphs || kind == ObjectKind::memory ? CUDA_ERROR_INVALID_VALUE
                                                 : CUDA_ERROR_INVALID_HANDLE;
}

}  // namespace busbar
