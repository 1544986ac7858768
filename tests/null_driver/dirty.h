// Fresh memory of the null driver: as on a real GPU, it holds what an earlier tenant left there.
#pragma once
#include <cstddef>
#include <cstdint>

constexpr uint8_t kDirt = 0xDB;

// Writes dirt into memory that was just allocated: everywhere, or, in more than 1 MiB, into the
// first page of each 2 MiB and into the last page, because tests allocate more than a machine has.
void make_dirty(void* memory, size_t bytes);
// The same for a file.
bool make_file_dirty(int fd, size_t bytes);
// Writes zeros. Whole pages are given back to the system instead.
void write_zeros(void* memory, size_t bytes);
