// The memory of one emitted kernel in a test of its checks: each arena lies between guard pages,
// and behind these lie canaries. The window is small and mapped completely, so a signal means that
// a check is missing.
//
// Thread safety: none; one kernel runs at a time in a process.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "softgpu/device/cta.h"

namespace softgpu::bounds {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kSharedBase = 0x310000000000, kSharedBytes = kPage;  // outside of the window
constexpr uint64_t kGlobalBytes = 0x8000;                               // from the window's base
constexpr uint64_t kLocalBase = SOFTGPU_WINDOW_BASE + kGlobalBytes;
constexpr uint64_t kLocalBytes = SOFTGPU_WINDOW_BYTES - kGlobalBytes;
constexpr uint64_t kRegisteredBase = 0x320000000000, kRegisteredBytes = kPage;  // host memory
constexpr uint64_t kParameterPage = 0x330000000000;  // the parameters end where it ends

// A kernel that is loaded.
struct EmittedKernel {
  int (*run)(Cta*) = nullptr;
  uint64_t (*frame_bytes)(uint32_t threads) = nullptr;
  uint64_t local_bytes = 0;       // of one thread
  std::vector<uint64_t> globals;  // addresses of module variables
};

struct Outcome {
  enum Kind { done, fault, touched } kind = done;
  int fault_kind = 0;    // FAULT_* of cta.h
  uint64_t address = 0;  // of the fault, or that was touched without a check
};

// Map the arenas once for each process. Exits if an address is taken.
void map_arenas();
// Fill all arenas: byte i of each has the value pattern(i).
void fill_arenas();
uint8_t pattern(uint64_t i);
// Run one block of `threads` threads.
Outcome run(const EmittedKernel& kernel, uint32_t threads, const std::vector<uint64_t>& parameters);
// Return the name of a canary that has changed since fill_arenas(); empty: none.
std::string changed_canary();

}  // namespace softgpu::bounds
