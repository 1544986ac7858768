// Archives of objects (ar), the libraries of a linker.
//
// Thread safety: any thread.
#pragma once
#include <string_view>

namespace busbar::images {

bool is_archive(std::string_view file);
// Returns true if all members lie inside the file, and those that are ELF files are valid.
bool valid_archive(std::string_view file);

}  // namespace busbar::images
