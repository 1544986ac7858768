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
#include "softgpu/device/conditions.h"
#include "softgpu/device/print.h"

namespace softgpu {

namespace {
constexpr uint64_t kSharedAt = 0, kSharedSpan = 1 << 20, kParamsAt = 2 << 20,
                   kParamsSpan = 64 << 10, kLocalAt = 4 << 20;
constexpr uint64_t kLocalSpan = kScratchPerWorker - kLocalAt;

uint64_t now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

struct Landing {  // where a fault in a kernel comes down
  sigjmp_buf place;
  Fault fault;
};
thread_local Landing* t_landing = nullptr;
struct sigaction g_previous_segv, g_previous_bus, g_previous_fpe;

[[noreturn]] void fault(Cta*, int kind, uint64_t address) {
  t_landing->fault = {kind, address};
  siglongjmp(t_landing->place, 1);
}

uint32_t print(Cta*, uint64_t format, uint64_t arguments) {
  return print_from_kernel(format, arguments);
}
GridRunner* runner_of(Cta* c) {
  return (GridRunner*)c->owner;
}
uint64_t allocate(Cta* c, uint64_t bytes) {
  return runner_of(c)->heap().allocate(bytes);
}
void release(Cta* c, uint64_t address) {
  runner_of(c)->heap().release(address);
}
[[noreturn]] void assertion(Cta* c, uint64_t message, uint64_t file, uint32_t line,
                            uint64_t function, uint32_t x, uint32_t y, uint32_t z) {
  const uint32_t thread[3] = {x, y, z};
  print_assertion(message, file, line, function, c->ctaid, thread);
  fault(c, FAULT_ASSERT, 0);
}
void texture(Cta* c, uint64_t handle, int dimensions, const double* at, uint32_t* out) {
  if (!runner_of(c)->sample(handle, dimensions, at, out)) fault(c, FAULT_ADDRESS, handle);
}
uint8_t* outside(Cta* c, uint64_t address, uint32_t bytes) {
  if (!runner_of(c)->registered(address, bytes)) fault(c, FAULT_ADDRESS, address);
  return (uint8_t*)address;
}
void condition(Cta* c, uint64_t handle, uint32_t value) {
  if (!set_condition(handle, value)) fault(c, FAULT_ADDRESS, handle);
}
constexpr Host kHost{fault, print, allocate, release, assertion, texture, outside, condition};

// An unmapped page of the window, or a bug: only threads that run a kernel are rescued.
void on_signal(int number, siginfo_t* info, void* context) {
  if (t_landing) {
    t_landing->fault = {FAULT_ADDRESS, (uint64_t)info->si_addr};
    siglongjmp(t_landing->place, 1);
  }
  struct sigaction& before = number == SIGSEGV  ? g_previous_segv
                             : number == SIGBUS ? g_previous_bus
                                                : g_previous_fpe;
  if (before.sa_flags & SA_SIGINFO && before.sa_sigaction) {
    before.sa_sigaction(number, info, context);
    return;
  }
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN && before.sa_handler) {
    before.sa_handler(number);
    return;
  }
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
  uint64_t scratch = 0;  // window address
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

GridRunner::GridRunner(Engine* engine, unsigned workers, const HostMemory& host)
    : engine_(engine), gate_(new Gate), host_(host) {
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
  if (need > mapped) {
    if (mprotect((void*)base, need, PROT_READ | PROT_WRITE)) return false;
    mapped = need;
  }
  return true;
}

// A block of this launch, but for its number.
Cta GridRunner::block_of(const Launch& l, uint64_t shared_base, uint64_t local_base, void* frames,
                         uint32_t worker) {
  const CompiledKernel& k = *l.kernel;
  Cta c{};
  c.host = &kHost;
  c.owner = this;
  c.threads = l.block[0] * l.block[1] * l.block[2];
  c.shared_bytes = shared_bytes(l);
  c.dynamic_shared_bytes = l.dynamic_shared_bytes;
  c.local_bytes = k.local_bytes;
  c.local_span = k.local_bytes * c.threads;
  c.globals = k.globals.data();
  c.shared_base = shared_base;
  c.local_base = local_base;
  c.frames = frames;
  c.worker = worker;
  c.workers = (uint32_t)workers_.size();
  c.stop = &stop_;
  std::memcpy(c.ntid, l.block, sizeof c.ntid);
  std::memcpy(c.nctaid, l.grid, sizeof c.nctaid);
  return c;
}

uint32_t GridRunner::shared_bytes(const Launch& l) {
  uint64_t fixed = l.kernel->static_shared_bytes;
  return (uint32_t)(l.dynamic_shared_bytes ? ((fixed + 15) & ~15ull) + l.dynamic_shared_bytes
                                           : fixed);
}

static void number(Cta& c, const Launch& l, uint64_t i) {
  c.ctaid[0] = (uint32_t)(i % l.grid[0]);
  c.ctaid[1] = (uint32_t)(i / l.grid[0] % l.grid[1]);
  c.ctaid[2] = (uint32_t)(i / l.grid[0] / l.grid[1]);
  c.started = 0;
  std::memset(c.arrived, 0, sizeof c.arrived);
}

// Runs blocks and returns true, or notes where a kernel faulted and returns false.
template <typename Body>
static bool guarded(std::mutex& mutex, Fault& out, Body body) {
  Landing landing;
  t_landing = &landing;
  if (sigsetjmp(landing.place, 1)) {
    t_landing = nullptr;
    std::lock_guard lock(mutex);
    if (!out.kind) out = landing.fault;
    return false;
  }
  body();
  t_landing = nullptr;
  return true;
}

void GridRunner::work(Worker& w, Job& job) {
  const Launch& l = *job.launch;
  const CompiledKernel& k = *l.kernel;
  uint64_t threads = (uint64_t)l.block[0] * l.block[1] * l.block[2];
  if (!prepare(w.scratch + kSharedAt, shared_bytes(l), w.shared_mapped, kSharedSpan) ||
      !prepare(w.scratch + kLocalAt, k.local_bytes * threads, w.local_mapped, kLocalSpan)) {
    std::lock_guard guard(job.fault_mutex);
    job.fault = {FAULT_STACK, 0};
    job.next = job.total;
    return;
  }
  uint64_t frame = k.frame_bytes((uint32_t)threads);
  if (w.frames.size() < frame) w.frames.resize(frame);
  std::memcpy((void*)(w.scratch + kParamsAt), l.params.data(), l.params.size());
  Cta c = block_of(l, w.scratch + kSharedAt, w.scratch + kLocalAt, w.frames.data(), w.index);
  c.params = (const uint8_t*)(w.scratch + kParamsAt);
  bool fine = guarded(job.fault_mutex, job.fault, [&] {
    while (!job.pause.load(std::memory_order_relaxed)) {
      uint64_t i = job.next.fetch_add(1);
      if (i >= job.total) break;
      number(c, l, i);
      k.run(&c);
      uint64_t end = job.slice_end.load(std::memory_order_relaxed), at = now();
      if (at > end) {
        if (engine_->contended())
          job.pause = 1;
        else
          job.slice_end = at + kSliceNanoseconds;
      }
    }
  });
  if (!fine) job.next = job.total;
}

// All blocks are alive at once and take turns on one thread; those that wait for the grid go on
// when every other does.
Fault GridRunner::run_cooperative(const Launch& l) {
  const CompiledKernel& k = *l.kernel;
  uint64_t total = (uint64_t)l.grid[0] * l.grid[1] * l.grid[2],
           threads = (uint64_t)l.block[0] * l.block[1] * l.block[2];
  uint64_t shared_span = (shared_bytes(l) + 4095ull) & ~4095ull,
           local_span = (k.local_bytes * threads + 4095) & ~4095ull,
           frame = (k.frame_bytes((uint32_t)threads) + 63) & ~63ull;
  uint64_t params = 4096 + kParamsSpan, bytes = params + total * (shared_span + local_span);
  uint64_t at = map_private(bytes);
  std::vector<uint8_t> frames(frame * total + 64);
  if (!at) return {FAULT_STACK, 0};
  std::memcpy((void*)(at + 4096), l.params.data(), l.params.size());
  *(uint32_t*)at = 4096;  // the size that cooperative groups look for
  std::vector<Cta> blocks;
  for (uint64_t i = 0; i < total; ++i) {
    uint64_t own = at + params + i * (shared_span + local_span);
    blocks.push_back(block_of(l, own, own + shared_span, frames.data() + i * frame, 0));
    Cta& c = blocks.back();
    c.params = (const uint8_t*)(at + 4096);
    c.cooperative = 1;
    c.workspace = at;
    number(c, l, i);
  }
  std::mutex mutex;
  Fault out;
  engine_->acquire();
  uint64_t begin = now();
  guarded(mutex, out, [&] { take_turns(k, blocks, begin); });
  engine_->release(now() - begin);
  unmap_private(at, bytes);
  return out;
}

void GridRunner::take_turns(const CompiledKernel& k, std::vector<Cta>& blocks, uint64_t& begin) {
  std::vector<Cta*> live;
  for (auto& c : blocks) live.push_back(&c);
  while (!live.empty()) {
    size_t waiting = 0, kept = 0;
    for (size_t i = 0; i < live.size(); ++i) {
      Cta* c = live[i];
      int state = c->grid_waiting && !c->grid_release ? CTA_AT_GRID_BARRIER : k.run(c);
      if (state == CTA_DONE) continue;
      waiting += state == CTA_AT_GRID_BARRIER;
      live[kept++] = c;
      if (uint64_t t = now(); t - begin > kSliceNanoseconds && engine_->contended()) {
        engine_->release(t - begin);
        engine_->acquire();
        begin = now();
      }
    }
    live.resize(kept);
    if (waiting == live.size())
      for (Cta* c : live) {
        c->grid_waiting = 0;
        c->grid_release = 1;
      }
  }
}

Fault GridRunner::run(const Launch& launch) {
  std::lock_guard one(gate_->one_grid);
  if (launch.cooperative) {
    stop_ = 0;
    return run_cooperative(launch);
  }
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
    if (parallel) {
      std::lock_guard lock(gate_->mutex);
      gate_->job = &job;
      ++gate_->round;
      gate_->wake.notify_all();
    }
    work(*workers_[0], job);
    if (parallel) {
      std::unique_lock lock(gate_->mutex);
      gate_->job = nullptr;  // late risers find nothing
      gate_->idle.wait(lock, [&] { return gate_->busy == 0; });
    }
    engine_->release(now() - begin);
  }
  return job.fault;
}

void GridRunner::stop() {
  stop_ = 1;
}

}  // namespace softgpu
