// Limits of one request to the compiler process.
//
// Thread safety: constants, and functions that may be called from any thread.
#pragma once
#include <cstdint>

namespace softgpu::jit {

constexpr uint64_t kTranslatorBytes = 2ull << 30;  // address space, also for the PTX and the C text
constexpr uint64_t kCCompilerBytes = 4ull << 30;   // address space of each of its programs
constexpr uint64_t kOutputBytes = 512ull << 20;    // of each file that it writes
constexpr unsigned kCCompilerCpuSeconds = 120;     // of each of its programs
constexpr unsigned kRequestSeconds = 300;          // in real time, from receipt to answer
constexpr unsigned kCompilationsOfTenant = 4;      // C compilers with one kernel cache at a time

// Return the limit with this name in the environment, else `otherwise`. Tests set smaller ones:
// BUSBAR_SOFTGPU_COMPILE_SECONDS and BUSBAR_SOFTGPU_COMPILE_BYTES.
uint64_t limit(const char* variable, uint64_t otherwise);
uint64_t request_milliseconds();  // the limit of a request in real time

int64_t now_ms();  // of the monotonic clock
// Return the time until a deadline for poll(): 0 if it has passed.
int time_left_ms(int64_t deadline_ms);

}  // namespace softgpu::jit
