// Checks and adapts the descriptor of a 2D, 3D or array copy. One side may be host memory of the
// program; on the node a staging buffer takes its place.
//
// Thread safety: executor thread only.
#pragma once
#include <cuda.h>

#include <cstdint>

#include "checked_size.h"
#include "server/session.h"

namespace busbar::server {

// The side of a copy that is memory of the program.
enum class ProgramSide : uint32_t { none = 0, source = 1, destination = 2 };

// Return the bytes of a copy; the largest number if they are too many.
inline uint64_t copy_bytes(const CUDA_MEMCPY3D& c) {
  return (CheckedSize(c.WidthInBytes) * c.Height * c.Depth).value();
}

// True if `side` is a value of the enum, every other side lies on the device, never in memory of
// this process, and the size is bounded where the program's memory takes part.
bool valid_copy(const Session& s, const CUDA_MEMCPY3D& c, ProgramSide side);

// Replaces the program's side by packed rows at `buffer`.
void replace_program_side(CUDA_MEMCPY3D& c, ProgramSide side, void* buffer);

// Replaces the program's side by the graph buffer `id`. False if it cannot be allocated.
bool use_graph_buffer(Session& s, CUDA_MEMCPY3D& c, ProgramSide side, uint32_t id);

}  // namespace busbar::server
