// ELF files: machine code of GPUs (cubins), and objects of the host that contain it.
//
// Thread safety: any thread.
#pragma once
#include <cstdint>
#include <string_view>

namespace busbar::images {

enum class Machine { gpu, any };

bool is_elf(std::string_view file);
// Returns true if tables, sections, segments, names, and the symbols of relocations lie
// inside the file. What sections of NVIDIA's own types contain is not checked.
bool valid_elf(std::string_view file, Machine machine);
// Return the memory that a driver needs for a valid file: its allocated sections, which hold code,
// constants and variables, or its segments if these are larger. UINT64_MAX: too large to count.
uint64_t elf_memory_bytes(std::string_view file);
// Return the end of the last table, section or segment of a file of unknown size. It reads the
// tables, so its caller must trust the file.
uint64_t elf_extent(const void* file);

}  // namespace busbar::images
