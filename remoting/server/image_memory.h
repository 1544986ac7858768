// The device memory that a module needs: code, constants and variables of its image.
//
// Thread safety: any thread.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <string_view>

namespace busbar::server {

// Measure an image of pack_module_image(). Of a fat binary the largest entry counts, because the
// driver chooses one; the software GPU loads PTX only. The code that a driver compiles from PTX is
// estimated: its size is known only when it has memory.
// Returns CUDA_ERROR_INVALID_PTX with a sentence if the size of a variable is no plain number.
CUresult measure_image(std::string_view packed, bool software_gpu, uint64_t& bytes,
                       const char*& error);

}  // namespace busbar::server
