#include "softgpu/device/grid.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "softgpu/device/arena.h"
#include "softgpu/device/print.h"

namespace softgpu {

namespace {
constexpr uint64_t kSharedAt = 0, kSharedSpan = 1 << 20, kParamsAt = 2 << 20, kParamsSpan = 64 << 10, kLocalAt = 4 << 20;
constexpr uint64_t kLocalSpan = kScratchPerWorker - kLocalAt;

uint64_t now() { timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec; }

struct Landing {                       // where a fault in a kernel comes down
  sigjmp_buf place;
  Fault fault;
};
thread_local Landing* t_landing = nullptr;
struct sigaction g_previous_segv, g_previous_bus, g_previous_fpe;

[[noreturn]] void fault(Cta*, int kind, uint64_t address) {
  t_landing->fault = {kind, address};
  siglongjmp(t_landing->place, 1);
}

uint32_t print(Cta*, uint64_t format, uint64_t arguments) { return print_from_kernel(format, arguments); }
constexpr Host kHost{fault, print};

// An unmapped page of the window, or a bug: only threads that run a kernel are rescued.
void on_signal(int number, siginfo_t* info, void* context) {
  if (t_landing) {
    t_landing->fault = {FAULT_ADDRESS, (uint64_t)info->si_addr};
    siglongjmp(t_landing->place, 1);
  }
  struct sigaction& before = number == SIGSEGV ? g_previous_segv : number == SIGBUS ? g_previous_bus : g_previous_fpe;
  if (before.sa_flags & SA_SIGINFO && before.sa_sigaction) { before.sa_sigaction(number, info, context); return; }
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN && before.sa_handler) { before.sa_handler(number); return; }
  signal(number, SIG_DFL);
}

void install_handlers() {
  struct sigaction a{};
  a.sa_sigaction = on_signal;
  a.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigaction(SIGSEGV, &a, &g_previous_segv);
  sigaction(SIGBUS, &a, &g_previous_bus);
  sigaction(SIGFPE, &a, &g_previous_fpe);
}
}  // namespace

struct GridRunner::Worker {
  uint32_t index = 0;
  uint64_t scratch = 0;                // window address
  std::vector<uint8_t> frames;
  uint64_t shared_mapped = 0, local_mapped = 0;
};

struct GridRunner::Job {
  const Launch* launch = nullptr;
  uint64_t total = 0;
  std::atomic<uint64_t> next{0};
  std::atomic<uint64_t> slice_end{0};
  std::atomic<int> pause{0};
  std::mutex fault_mutex;
  Fault fault;
};

struct GridRunner::Gate {
  std::mutex mutex;
  std::condition_variable wake, idle;
  Job* job = nullptr;
  uint64_t round = 0;
  unsigned busy = 0;
  std::mutex one_grid;
};

GridRunner::GridRunner(Engine* engine, unsigned workers) : engine_(engine), gate_(new Gate) {
  static std::once_flag once;
  std::call_once(once, install_handlers);
  for (unsigned i = 0; i < workers; ++i) {
    auto* w = new Worker;
    w->index = i;
    w->scratch = reserve_addresses(kScratchPerWorker, kScratchBase + i * kScratchPerWorker);
    mprotect((void*)(w->scratch + kParamsAt), kParamsSpan, PROT_READ | PROT_WRITE);
    workers_.push_back(w);
    if (i > 0) std::thread([this, w] { thread_main(w); }).detach();
  }
}

void GridRunner::thread_main(Worker* w) {
  sigset_t all;
  sigfillset(&all);
  for (int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigdelset(&all, s);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  uint64_t seen = 0;
  for (;;) {
    std::unique_lock lock(gate_->mutex);
    gate_->wake.wait(lock, [&] { return gate_->round != seen && gate_->job; });
    seen = gate_->round;
    Job* job = gate_->job;
    ++gate_->busy;
    lock.unlock();
    work(*w, *job);
    lock.lock();
    if (--gate_->busy == 0) gate_->idle.notify_all();
  }
}

// Makes shared memory and stacks as large as this launch needs. Freshly mapped pages are zero.
static bool prepare(uint64_t base, uint64_t need, uint64_t& mapped, uint64_t span) {
  need = (need + 4095) & ~4095ull;
  if (need > span) return false;
  if (need > mapped) { if (mprotect((void*)base, need, PROT_READ | PROT_WRITE)) return false; mapped = need; }
  return true;
}

void GridRunner::work(Worker& w, Job& job) {
  const Launch& l = *job.launch;
  const CompiledKernel& k = *l.kernel;
  Cta c{};
  c.threads = l.block[0] * l.block[1] * l.block[2];
  c.shared_bytes = (uint32_t)k.static_shared_bytes + l.dynamic_shared_bytes;
  c.dynamic_shared_bytes = l.dynamic_shared_bytes;
  c.local_bytes = k.local_bytes;
  c.local_span = k.local_bytes * c.threads;
  Landing landing;
  if (!prepare(w.scratch + kSharedAt, c.shared_bytes, w.shared_mapped, kSharedSpan) || !prepare(w.scratch + kLocalAt, c.local_span, w.local_mapped, kLocalSpan)) {
    std::lock_guard guard(job.fault_mutex);
    job.fault = {FAULT_STACK, 0};
    job.next = job.total;
    return;
  }
  uint64_t frame = k.frame_bytes(c.threads);
  if (w.frames.size() < frame) w.frames.resize(frame);
  std::memcpy((void*)(w.scratch + kParamsAt), l.params.data(), l.params.size());
  c.host = &kHost;
  c.params = (const uint8_t*)(w.scratch + kParamsAt);
  c.globals = k.globals.data();
  c.shared_base = w.scratch + kSharedAt;
  c.local_base = w.scratch + kLocalAt;
  c.frames = w.frames.data();
  c.worker = w.index;
  c.workers = (uint32_t)workers_.size();
  c.stop = &stop_;
  std::memcpy(c.ntid, l.block, sizeof c.ntid);
  std::memcpy(c.nctaid, l.grid, sizeof c.nctaid);
  t_landing = &landing;
  if (sigsetjmp(landing.place, 1)) {
    std::lock_guard guard(job.fault_mutex);
    if (!job.fault.kind) job.fault = landing.fault;
    job.next = job.total;
    t_landing = nullptr;
    return;
  }
  while (!job.pause.load(std::memory_order_relaxed)) {
    uint64_t i = job.next.fetch_add(1);
    if (i >= job.total) break;
    c.ctaid[0] = (uint32_t)(i % l.grid[0]);
    c.ctaid[1] = (uint32_t)(i / l.grid[0] % l.grid[1]);
    c.ctaid[2] = (uint32_t)(i / l.grid[0] / l.grid[1]);
    std::memset(c.arrived, 0, sizeof c.arrived);
    k.run(&c);
    uint64_t end = job.slice_end.load(std::memory_order_relaxed), at = now();
    if (at > end) { if (engine_->contended()) job.pause = 1; else job.slice_end = at + kSliceNanoseconds; }
  }
  t_landing = nullptr;
}

Fault GridRunner::run(const Launch& launch) {
  std::lock_guard one(gate_->one_grid);
  Job job;
  job.launch = &launch;
  job.total = (uint64_t)launch.grid[0] * launch.grid[1] * launch.grid[2];
  bool parallel = job.total > 1 && workers_.size() > 1;
  stop_ = 0;
  while (job.next.load() < job.total) {
    engine_->acquire();
    uint64_t begin = now();
    job.pause = 0;
    job.slice_end = begin + kSliceNanoseconds;
    if (parallel) { std::lock_guard lock(gate_->mutex); gate_->job = &job; ++gate_->round; gate_->wake.notify_all(); }
    work(*workers_[0], job);
    if (parallel) {
      std::unique_lock lock(gate_->mutex);
      gate_->job = nullptr;                     // late risers find nothing
      gate_->idle.wait(lock, [&] { return gate_->busy == 0; });
    }
    engine_->release(now() - begin);
  }
  return job.fault;
}

void GridRunner::stop() { stop_ = 1; }

}  // namespace softgpu
