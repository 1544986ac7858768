// Checks at the beginning of an NVML entry point. Each macro returns from the function with NVML's
// error when the check fails. FIND_DEVICE and FIND_FRESH_DEVICE declare `d` and hold the lock of
// the library until the end of the scope.
#pragma once
#include <cstring>
#include <mutex>
#include <string>

#include "export.h"
#include "nvml/devices.h"

#define CHECK_ARGUMENT(p) \
  if (!(p)) return NVML_ERROR_INVALID_ARGUMENT
#define LOCK_LIBRARY                     \
  std::lock_guard lock(library().mutex); \
  if (!library().references) return NVML_ERROR_UNINITIALIZED
#define FIND_DEVICE(d, h)   \
  LOCK_LIBRARY;             \
  Device* d = device_of(h); \
  if (!d) return NVML_ERROR_INVALID_ARGUMENT
#define FIND_FRESH_DEVICE(d, h) \
  FIND_DEVICE(d, h);            \
  if (nvmlReturn_t r = refresh(*d)) return r

namespace busbar::nvml {

// Copies a text with its terminating zero to a buffer of the program.
inline nvmlReturn_t copy_text(char* out, unsigned capacity, const std::string& value) {
  CHECK_ARGUMENT(out);
  if (value.size() + 1 > capacity) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::memcpy(out, value.c_str(), value.size() + 1);
  return NVML_SUCCESS;
}

}  // namespace busbar::nvml
