// Code images of clients, checked and packed anew before a driver reads them.
//
// A driver gets a copy whose headers and lengths are ours. It follows no pointer of a client: the
// wrapper of a fat binary, which holds one, is refused.
//
// Thread safety: any thread.
#pragma once
#include <cuda.h>

#include <string>
#include <string_view>

namespace busbar::server {

// Pack the image of a module: PTX text, a fat binary or a cubin. Entries of a fat binary are
// decompressed, and intermediate code for the linker is left out. Returns CUDA_ERROR_INVALID_IMAGE
// if it is malformed, or CUDA_ERROR_NO_BINARY_FOR_GPU if it has no code.
CUresult pack_module_image(std::string_view image, std::string& out);
// Pack an input of the linker, as cuLinkAddData reads it.
CUresult pack_link_input(CUjitInputType type, std::string_view image, std::string& out);

}  // namespace busbar::server
