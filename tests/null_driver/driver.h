// What the files of the null driver share.
#pragma once
#include <cuda.h>

#include <cstdint>

#define API extern "C" __attribute__((visibility("default")))

constexpr uint64_t kMemoryBytes = 140ull << 30;
