#include "softgpu/bounds/arenas.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace softgpu::bounds {

namespace {

struct Arena {
  const char* name;
  uint64_t base, bytes;
};
constexpr Arena kArenas[] = {{"the window", SOFTGPU_WINDOW_BASE, SOFTGPU_WINDOW_BYTES},
                             {"shared memory", kSharedBase, kSharedBytes},
                             {"registered memory", kRegisteredBase, kRegisteredBytes},
                             {"the parameters", kParameterPage, kPage}};
constexpr uint64_t kGuardBytes = 16 * kPage;
constexpr uint8_t kCanary = 0xc5;

sigjmp_buf g_continue;
Outcome g_outcome;

[[noreturn]] void end_kernel(Outcome outcome) {
  g_outcome = outcome;
  siglongjmp(g_continue, 1);
}

__attribute__((noreturn)) void on_fault(Cta*, int kind, uint64_t address) {
  end_kernel({Outcome::fault, kind, address});
}

void on_signal(int, siginfo_t* info, void*) {
  end_kernel({Outcome::touched, 0, (uint64_t)info->si_addr});
}

uint32_t print(Cta*, uint64_t, uint64_t) {
  return 0;
}
uint64_t allocate(Cta*, uint64_t) {
  return 0;
}
void release(Cta*, uint64_t) {}
__attribute__((noreturn)) void assertion(Cta* c, uint64_t, uint64_t, uint32_t, uint64_t, uint32_t,
                                         uint32_t, uint32_t) {
  on_fault(c, FAULT_ASSERT, 0);
}
void texture(Cta*, uint64_t, const TextureRead*, uint32_t* out) {
  std::memset(out, 0, 16);
}
void surface(Cta*, uint64_t, const SurfaceAccess*, uint64_t* values) {
  std::memset(values, 0, 32);
}
uint32_t query(Cta*, uint64_t, const ObjectQuery*) {
  return 0;
}
uint32_t tensor(Cta*, uint64_t, const TensorCopy*) {
  return 0;
}
uint8_t* host_pointer(Cta* c, uint64_t address, uint32_t bytes) {
  if (bytes > kRegisteredBytes || address - kRegisteredBase > kRegisteredBytes - bytes)
    on_fault(c, FAULT_ADDRESS, address);
  return (uint8_t*)address;
}
void condition(Cta*, uint64_t, uint32_t) {}

constexpr Host kHost{on_fault, print, allocate, release,      assertion, texture,
                     surface,  query, tensor,   host_pointer, condition};

void map_at(uint64_t address, uint64_t bytes, int protection) {
  void* p = mmap((void*)address, bytes, protection,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if ((uint64_t)p == address) return;
  std::fprintf(stderr, "address 0x%llx is taken\n", (unsigned long long)address);
  std::exit(1);
}

uint64_t canary_before(const Arena& a) {
  return a.base - kGuardBytes - kPage;
}
uint64_t canary_behind(const Arena& a) {
  return a.base + a.bytes + kGuardBytes;
}

bool intact(uint64_t page) {
  for (uint64_t i = 0; i < kPage; i += 8)
    if (*(const uint64_t*)(page + i) != 0x0101010101010101ull * kCanary) return false;
  return true;
}

Cta make_block(const EmittedKernel& kernel, uint32_t threads, std::vector<uint64_t>& frames,
               uint64_t parameters) {
  static volatile int stop = 0;
  Cta c{};
  c.host = &kHost;
  c.params = (const uint8_t*)parameters;
  c.globals = kernel.globals.data();
  c.shared_base = kSharedBase;
  c.shared_bytes = c.dynamic_shared_bytes = kSharedBytes;
  c.local_base = kLocalBase;
  c.local_bytes = kernel.local_bytes;
  c.local_span = kernel.local_bytes * threads;
  c.threads = c.ntid[0] = threads;
  c.ntid[1] = c.ntid[2] = c.nctaid[0] = c.nctaid[1] = c.nctaid[2] = c.workers = 1;
  frames.assign(kernel.frame_bytes(threads) / 8 + 8, 0);
  c.frames = frames.data();
  c.stop = &stop;
  return c;
}

}  // namespace

uint8_t pattern(uint64_t i) {
  return (uint8_t)(i * 7 + (i >> 8) + 1);
}

void map_arenas() {
  for (auto& a : kArenas) {
    map_at(canary_before(a), kPage, PROT_READ | PROT_WRITE);
    map_at(a.base - kGuardBytes, kGuardBytes, PROT_NONE);
    map_at(a.base, a.bytes, PROT_READ | PROT_WRITE);
    map_at(a.base + a.bytes, kGuardBytes, PROT_NONE);
    map_at(canary_behind(a), kPage, PROT_READ | PROT_WRITE);
    std::memset((void*)canary_before(a), kCanary, kPage);
    std::memset((void*)canary_behind(a), kCanary, kPage);
  }
  struct sigaction action{};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  for (int number : {SIGSEGV, SIGBUS, SIGFPE}) sigaction(number, &action, nullptr);
}

void fill_arenas() {
  for (auto& a : kArenas)
    for (uint64_t i = 0; i < a.bytes; ++i) ((uint8_t*)a.base)[i] = pattern(i);
}

std::string changed_canary() {
  for (auto& a : kArenas) {
    if (!intact(canary_before(a))) return std::string("before ") + a.name;
    if (!intact(canary_behind(a))) return std::string("behind ") + a.name;
  }
  return "";
}

Outcome run(const EmittedKernel& kernel, uint32_t threads,
            const std::vector<uint64_t>& parameters) {
  static std::vector<uint64_t> frames;
  uint64_t bytes = parameters.size() * 8, at = kParameterPage + kPage - bytes;
  std::memcpy((void*)at, parameters.data(), bytes);
  Cta c = make_block(kernel, threads, frames, at);
  g_outcome = {};
  if (sigsetjmp(g_continue, 1) == 0) kernel.run(&c);
  return g_outcome;
}

}  // namespace softgpu::bounds
