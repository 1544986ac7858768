// Images in memory of the program, which gives a pointer without a size.
//
// Thread safety: any thread.
#pragma once
#include <cstdint>
#include <string_view>

namespace busbar::images {

constexpr uint32_t kWrapperMagic = 0x466243B1;

bool is_wrapper(std::string_view image);
// Return the image: a fat binary, also behind its wrapper, an ELF file, or text without its final
// zero. It follows the image's own pointer and lengths, so never use it for bytes of a client.
std::string_view image_at(const void* image);

}  // namespace busbar::images
