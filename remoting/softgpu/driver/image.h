// Code images: PTX text, fatbins and cubins.
#pragma once
#include <string>
#include <string_view>

namespace softgpu {

// Return the PTX of an image; an empty string if it has none. `has_binary` is set if it has machine
// code.
std::string ptx_of_image(std::string_view image, bool& has_binary);

}  // namespace softgpu
