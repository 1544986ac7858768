// Images of device code: fat binaries, ELF and PTX.
//
// Thread safety: all functions may be called from any thread. They keep no state.
#pragma once
#include <string>

namespace busbar::client {

// Return the bytes of an image that a device of this compute capability can use. CUDA passes images
// without their length, so it is derived from the content. Empty if the image is not recognized.
std::string image_bytes(const void* image, int major, int minor);

}  // namespace busbar::client
