// Variables of PTX text that occupy device memory: those of the state spaces .global and .const.
//
// Thread safety: any thread.
#pragma once
#include <cstdint>
#include <string_view>

namespace busbar::images {

// Set `bytes` to the device memory for all variables of a module, with their alignment. The text is
// read more leniently than by a compiler, so other text can only make the result larger.
// False, with a sentence, if the size of a variable is no plain number, or if compilers may
// understand the text differently.
bool measure_ptx_variables(std::string_view text, uint64_t& bytes, const char*& error);

}  // namespace busbar::images
