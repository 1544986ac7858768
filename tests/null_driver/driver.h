// Declarations shared by the files of the null driver.
#pragma once
#include <cuda.h>

#include <cstdint>

#include "export.h"

constexpr uint64_t kMemoryBytes = 140ull << 30;
