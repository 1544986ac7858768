// A client that allocates device memory as its test asks.
//   memory_storm hold BYTES   Allocates BYTES, prints "ready" and keeps them.
//   memory_storm fill         Allocates 64 MiB at a time until there is no more, prints "ready" and
//                             the number of allocations, and keeps them.
//   memory_storm storm SEED   Allocates and frees at random. For each line on its standard input it
//                             prints "tick" after some more operations. At the end of the input it
//                             keeps SEED allocations, prints "done" and waits.
//   memory_storm beside       Prints "ready". For the line after that it allocates on a second
//                             thread while this one works on memory that it has, and prints
//                             "working", and "allocated" when the other thread is done.
#include <cuda.h>
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

namespace {

constexpr size_t kBlockBytes = 64 << 20;
constexpr int kOperationsPerTick = 20;
constexpr size_t kMaxBlocks = 6;
constexpr int kRounds = 50;

void say(const char* text) {
  std::puts(text);
  std::fflush(stdout);
}

// Ends the program if the call failed.
void require(CUresult r) {
  if (r) {
    std::fprintf(stderr, "error %d\n", (int)r);
    _exit(4);
  }
}

[[noreturn]] void wait_for_the_end() {
  for (;;) pause();
}

void allocate_or_free(std::mt19937& random, std::vector<CUdeviceptr>& blocks) {
  bool frees = !blocks.empty() && (blocks.size() >= kMaxBlocks || random() % 2);
  if (!frees) {
    CUdeviceptr p = 0;
    CUresult r = cuMemAlloc(&p, (1 + random() % 3) * kBlockBytes);
    if (!r) blocks.push_back(p);
    if (r != CUDA_ERROR_OUT_OF_MEMORY) return require(r);
  }
  if (blocks.empty()) return;
  std::swap(blocks[random() % blocks.size()], blocks.back());
  require(cuMemFree(blocks.back()));
  blocks.pop_back();
}

// Returns false at the end of the standard input.
bool answer_line(std::mt19937& random, std::vector<CUdeviceptr>& blocks) {
  pollfd p{0, POLLIN, 0};
  if (poll(&p, 1, 0) <= 0) return true;
  char byte;
  if (read(0, &byte, 1) != 1) return false;
  for (int i = 0; i < kOperationsPerTick; ++i) allocate_or_free(random, blocks);
  say("tick");
  return true;
}

void storm(unsigned seed) {
  std::mt19937 random(seed);
  std::vector<CUdeviceptr> blocks;
  say("ready");
  while (answer_line(random, blocks)) allocate_or_free(random, blocks);
  for (CUdeviceptr p : blocks) require(cuMemFree(p));
  for (unsigned i = 0; i < seed; ++i) {
    CUdeviceptr p;
    require(cuMemAlloc(&p, kBlockBytes));
  }
  say("done");
}

void fill() {
  CUdeviceptr p;
  int count = 0;
  CUresult r;
  while (!(r = cuMemAlloc(&p, kBlockBytes))) ++count;
  if (r != CUDA_ERROR_OUT_OF_MEMORY) require(r);
  say(("ready " + std::to_string(count)).c_str());
}

void work_beside_an_allocation(CUcontext context) {
  CUdeviceptr own, other;
  require(cuMemAlloc(&own, 4096));
  say("ready");
  char byte;
  (void)!read(0, &byte, 1);
  std::thread second([&] {
    require(cuCtxSetCurrent(context));
    require(cuMemAlloc(&other, 2 * kBlockBytes));
  });
  for (int i = 0; i < kRounds; ++i) {
    require(cuMemsetD8(own, (unsigned char)i, 4096));
    require(cuCtxSynchronize());
  }
  say("working");
  second.join();
  say("allocated");
}

}  // namespace

int main(int argc, char** argv) {
  CUdevice device;
  CUcontext context;
  if (argc < 2 || cuInit(0) || cuDeviceGet(&device, 0) ||
      cuDevicePrimaryCtxRetain(&context, device) || cuCtxSetCurrent(context))
    return 2;
  CUdeviceptr p;
  if (!std::strcmp(argv[1], "hold")) {
    require(cuMemAlloc(&p, std::strtoull(argv[2], nullptr, 10)));
    say("ready");
  } else if (!std::strcmp(argv[1], "fill")) {
    fill();
  } else if (!std::strcmp(argv[1], "storm")) {
    storm((unsigned)std::strtoul(argv[2], nullptr, 10));
  } else {
    work_beside_an_allocation(context);
  }
  wait_for_the_end();
}
