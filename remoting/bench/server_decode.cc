// Cost of a launch record in the session server, excluding the driver's call: records are decoded
// from memory and executed on the driver given as argument.
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "server/executor.h"
#include "wire/encode.h"

using namespace busbar;
using namespace busbar::server;

namespace {
constexpr int kLaunches = 8000, kRounds = 15;
constexpr uint32_t kLegacy = wire::kFirstStream + 1;  // the legacy stream of the context
double now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

void append_record(std::vector<uint8_t>& out, const uint8_t* p, uint32_t n) {
  out.insert(out.end(), p, p + n);
}

template <typename F>
void request(Executor& executor, wire::Op op, F fields) {
  wire::Encoder<4096> e(op, 1);
  e.put<uint64_t>(1);
  fields(e);
  uint64_t used;
  executor.process(e.finish(), e.size(), used);
}

std::vector<uint8_t> launches(uint32_t function) {
  std::vector<uint8_t> out;
  for (int i = 0; i < kLaunches; ++i) {
    wire::Encoder<> e(wire::Op::launch, 1, kLegacy);
    e.put(function);
    for (uint32_t v : {1u, 1u, 1u, 128u, 1u, 1u, 0u, 0u, 56u, 0u}) e.put(v);
    uint8_t params[56] = {};
    e.raw(params, sizeof params);
    append_record(out, e.finish(), e.size());
  }
  return out;
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}
// An executor over shared memory, with a kernel of seven parameters as function 1. It is never
// destroyed, because its threads still wait for the driver when the program ends.
struct Bench {
  Driver& cu;
  Executor* executor = nullptr;
  CUfunction function = nullptr;
};

constexpr const char* kKernel =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry nothing(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d, "
    ".param .u64 e, .param .u64 f, .param .u64 g)\n{ ret; }\n";

Bench make_bench(Driver& cu) {
  Bench bench{cu};
  int fd = -1;
  static auto client = transport::SharedMemory::create(fd);
  auto* link = new Link(-1, transport::SharedMemory::attach(fd));
  auto* pinned = new PinnedPool(cu);
  auto* bulk = new BulkTransfers(*pinned, [] {});
  auto* account = new Account({1ull << 30});
  auto* session = new Session(cu, *link, *pinned, *bulk, *account, {{0, 0, {}}}, "");
  session->charged_contexts = 1;
  bench.executor = new Executor(*session);
  request(*bench.executor, wire::Op::create_context,
          [](auto& e) { e.put(1u).put(0u).put(kLegacy); });
  CUmodule m;
  cu.cuCtxSetCurrent(session->context(1)->handle);
  if (cu.cuModuleLoadDataEx(&m, kKernel, 0, nullptr, nullptr) ||
      cu.cuModuleGetFunction(&bench.function, m, "nothing"))
    std::exit(1);
  session->functions.add(1, bench.function);
  return bench;
}

// Nanoseconds per launch that the executor needs for the records.
double measure_decode(Bench& bench, const std::vector<uint8_t>& records) {
  uint64_t used;
  double start = now_ns();
  if (!bench.executor->process(records.data(), records.size(), used) || used != records.size())
    std::exit(1);
  return (now_ns() - start) / kLaunches;
}

// Nanoseconds per launch that the driver needs.
double measure_driver(Bench& bench) {
  uint8_t params[56] = {};
  size_t bytes = sizeof params;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, params, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  CUlaunchConfig config{1, 1, 1, 128, 1, 1, 0, nullptr, nullptr, 0};
  double start = now_ns();
  for (int i = 0; i < kLaunches; ++i)
    bench.cu.cuLaunchKernelEx(&config, bench.function, nullptr, extra);
  return (now_ns() - start) / kLaunches;
}
}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: server_decode DRIVER\n");
    return 2;
  }
  Driver cu;
  std::string error;
  if (!cu.load(argv[1], error) || cu.cuInit(0)) {
    std::fprintf(stderr, "%s\n", error.c_str());
    return 1;
  }
  Bench bench = make_bench(cu);
  std::vector<uint8_t> records = launches(1);
  std::vector<double> decoded, direct;
  for (int r = 0; r < kRounds; ++r) {
    decoded.push_back(measure_decode(bench, records));
    direct.push_back(measure_driver(bench));
  }
  std::printf("{\"server_decode_ns\": %.1f, \"driver_ns\": %.1f}\n",
              median(decoded) - median(direct), median(direct));
  std::fflush(stdout);
  std::_Exit(0);  // other threads still wait for the driver
}
