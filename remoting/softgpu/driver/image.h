// Code images: PTX text, fatbins and cubins.
#pragma once
#include <string>

namespace softgpu {

// Return the PTX of an image; an empty string if it has none. `has_binary` is set if it has machine
// code.
std::string ptx_of_image(const void* image, bool& has_binary);

}  // namespace softgpu
