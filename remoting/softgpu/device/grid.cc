#include "softgpu/device/grid.h"

#include <signal.h>
#include <sys/mman.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "checked_size.h"
#include "softgpu/device/arena.h"
#include "softgpu/device/clock.h"
#include "softgpu/device/conditions.h"
#include "softgpu/device/print.h"

namespace softgpu {

namespace {
// Layout of the scratch area of a worker, in bytes.
constexpr uint64_t kSharedAt = 0, kSharedSpan = 1 << 20, kParamsAt = 2 << 20,
                   kParamsSpan = 64 << 10, kLocalAt = 4 << 20;
constexpr uint64_t kLocalSpan = kScratchPerWorker - kLocalAt;
constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kMaxFrameBytes = 1ull << 30;  // of the registers of one block in lockstep mode

__attribute__((noreturn)) void fault(Cta*, int kind, uint64_t address) {
  raise_fault(kind, address);
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
__attribute__((noreturn)) void assertion(Cta* c, uint64_t message, uint64_t file, uint32_t line,
                                         uint64_t function, uint32_t x, uint32_t y, uint32_t z) {
  const uint32_t thread[3] = {x, y, z};
  print_assertion(message, file, line, function, c->ctaid, thread);
  fault(c, FAULT_ASSERT, 0);
}
void texture(Cta* c, uint64_t handle, const TextureRead* read, uint32_t* out) {
  if (!runner_of(c)->host().sample(handle, *read, out)) fault(c, FAULT_ADDRESS, handle);
}
void surface(Cta* c, uint64_t handle, const SurfaceAccess* access, uint64_t* values) {
  if (int kind = runner_of(c)->host().access_surface(handle, *access, values))
    fault(c, kind, handle);
}
uint32_t query(Cta* c, uint64_t handle, const ObjectQuery* q) {
  uint32_t value = 0;
  if (!runner_of(c)->host().query(handle, *q, value)) fault(c, FAULT_ADDRESS, handle);
  return value;
}
uint32_t tensor(Cta* c, uint64_t map, const TensorCopy* copy) {
  const SharedMemory shared{(uint8_t*)c->shared_base, c->shared_bytes};
  TensorResult result = runner_of(c)->host().copy_tensor(map, *copy, shared);
  if (result.fault) fault(c, result.fault, result.address);
  return result.bytes;
}
uint8_t* outside(Cta* c, uint64_t address, uint32_t bytes) {
  if (!runner_of(c)->host().registered(address, bytes)) fault(c, FAULT_ADDRESS, address);
  return (uint8_t*)address;
}
void condition(Cta* c, uint64_t handle, uint32_t value) {
  if (!set_condition(handle, value)) fault(c, FAULT_ADDRESS, handle);
}
constexpr Host kHost{fault,   print, allocate, release, assertion, texture,
                     surface, query, tensor,   outside, condition};

}  // namespace

struct GridRunner::Worker {
  uint32_t index = 0;
  uint64_t scratch = 0;  // window address of shared memory, parameters and stacks
  std::vector<uint8_t> frames;
  uint64_t shared_mapped = 0, local_mapped = 0;  // accessible bytes
};

struct GridRunner::Job {
  const Launch* launch = nullptr;
  uint64_t total = 0;                  // blocks
  std::atomic<uint64_t> next{0};       // index of the next block
  std::atomic<uint64_t> slice_end{0};  // nanoseconds
  std::atomic<int> pause{0};           // the slice has ended
  std::mutex fault_mutex;
  Fault fault;
};

// The meeting point of worker threads that wait for a job.
struct GridRunner::Rendezvous {
  std::mutex mutex;
  std::condition_variable wake, idle;
  Job* job = nullptr;
  uint64_t round = 0;
  unsigned busy = 0;
  std::mutex one_grid;
};

GridRunner::GridRunner(Engine* engine, unsigned workers, const HostMemory& host)
    : engine_(engine), rendezvous_(new Rendezvous), host_(host) {
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
    std::unique_lock lock(rendezvous_->mutex);
    rendezvous_->wake.wait(lock, [&] { return rendezvous_->round != seen && rendezvous_->job; });
    seen = rendezvous_->round;
    Job* job = rendezvous_->job;
    ++rendezvous_->busy;
    lock.unlock();
    work(*w, *job);
    lock.lock();
    if (--rendezvous_->busy == 0) rendezvous_->idle.notify_all();
  }
}

// Make shared memory or stacks accessible up to the size that a launch needs. New pages are zero.
// Return false if they do not fit.
static bool make_accessible(uint64_t base, uint64_t need, uint64_t& mapped, uint64_t span) {
  CheckedSize pages = CheckedSize(need).rounded_up(kPageBytes);
  if (!pages.within(span)) return false;
  need = pages.value();
  if (need > mapped) {
    if (mprotect((void*)base, need, PROT_READ | PROT_WRITE)) return false;
    mapped = need;
  }
  return true;
}

// Return a block of a launch without its index.
Cta GridRunner::make_block(const Launch& l, uint64_t shared_base, uint64_t local_base, void* frames,
                           uint32_t worker) {
  const CompiledKernel& k = *l.kernel;
  Cta c{};
  c.host = &kHost;
  c.owner = this;
  c.threads = (uint32_t)l.threads();
  c.shared_bytes = shared_bytes(l);
  c.dynamic_shared_bytes = l.dynamic_shared_bytes;
  c.local_bytes = k.local_bytes;
  c.local_span = l.local_bytes();
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

static void set_index(Cta& c, const Launch& l, uint64_t i) {
  c.ctaid[0] = (uint32_t)(i % l.grid[0]);
  c.ctaid[1] = (uint32_t)(i / l.grid[0] % l.grid[1]);
  c.ctaid[2] = (uint32_t)(i / l.grid[0] / l.grid[1]);
  c.started = 0;
  std::memset(c.arrived, 0, sizeof c.arrived);
}

void GridRunner::work(Worker& w, Job& job) {
  const Launch& l = *job.launch;
  const CompiledKernel& k = *l.kernel;
  uint64_t frame = k.frame_bytes((uint32_t)l.threads());
  if (frame > kMaxFrameBytes ||
      !make_accessible(w.scratch + kSharedAt, shared_bytes(l), w.shared_mapped, kSharedSpan) ||
      !make_accessible(w.scratch + kLocalAt, l.local_bytes(), w.local_mapped, kLocalSpan)) {
    std::lock_guard guard(job.fault_mutex);
    job.fault = {FAULT_STACK, 0};
    job.next = job.total;
    return;
  }
  if (w.frames.size() < frame) w.frames.resize(frame);
  std::memcpy((void*)(w.scratch + kParamsAt), l.params.data(), l.params.size());
  Cta c = make_block(l, w.scratch + kSharedAt, w.scratch + kLocalAt, w.frames.data(), w.index);
  c.params = (const uint8_t*)(w.scratch + kParamsAt);
  uint64_t begin = thread_time(), blocks = 0;
  Fault fault = run_guarded([&] {
    while (!job.pause.load(std::memory_order_relaxed)) {
      uint64_t i = job.next.fetch_add(1);
      if (i >= job.total) break;
      set_index(c, l, i);
      k.run(&c);
      ++blocks;
      uint64_t end = job.slice_end.load(std::memory_order_relaxed), at = now();
      if (at > end) {
        if (engine_->contended())
          job.pause = 1;
        else
          job.slice_end = at + kSliceNanoseconds;
      }
    }
  });
  engine_->count_blocks(blocks, thread_time() - begin);
  if (!fault.kind) return;
  job.next = job.total;
  std::lock_guard guard(job.fault_mutex);
  if (!job.fault.kind) job.fault = fault;
}

// All blocks are resident and alternate on one thread. Blocks at the grid barrier continue when all
// blocks have reached it.
Fault GridRunner::run_cooperative(const Launch& l) {
  const CompiledKernel& k = *l.kernel;
  uint64_t total = l.blocks();
  CheckedSize shared_span = CheckedSize(shared_bytes(l)).rounded_up(kPageBytes),
              span = shared_span + CheckedSize(l.local_bytes()).rounded_up(kPageBytes),
              frame = CheckedSize(k.frame_bytes((uint32_t)l.threads())).rounded_up(64),
              frame_bytes = frame * total, bytes = span * total + kPageBytes + kParamsSpan;
  if (!frame_bytes.within(kMaxFrameBytes) || !bytes.valid()) return {FAULT_STACK, 0};
  uint64_t at = map_private(bytes.value());
  if (!at) return {FAULT_STACK, 0};
  std::vector<uint8_t> frames((frame_bytes + 64).value());
  std::memcpy((void*)(at + kPageBytes), l.params.data(), l.params.size());
  *(uint32_t*)at = 4096;  // the size of the workspace, for cooperative groups
  std::vector<Cta> blocks;
  for (uint64_t i = 0; i < total; ++i) {
    CheckedSize own = span * i + at + kPageBytes + kParamsSpan;
    blocks.push_back(make_block(l, own.value(), (own + shared_span).value(),
                                frames.data() + (frame * i).value(), 0));
    Cta& c = blocks.back();
    c.params = (const uint8_t*)(at + kPageBytes);
    c.cooperative = 1;
    c.workspace = at;
    set_index(c, l, i);
  }
  engine_->acquire();
  uint64_t begin = now(), executed = thread_time();
  Fault out = run_guarded([&] { run_slices(k, blocks, begin); });
  engine_->count_blocks(out.kind ? 0 : total, thread_time() - executed);
  engine_->release(now() - begin);
  unmap_private(at, bytes.value());
  return out;
}

void GridRunner::run_slices(const CompiledKernel& k, std::vector<Cta>& blocks, uint64_t& begin) {
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
  std::lock_guard one(rendezvous_->one_grid);
  if (launch.cooperative) {
    stop_ = 0;
    return run_cooperative(launch);
  }
  Job job;
  job.launch = &launch;
  job.total = launch.blocks();
  bool parallel = job.total > 1 && workers_.size() > 1;
  stop_ = 0;
  while (job.next.load() < job.total) {
    engine_->acquire();
    uint64_t begin = now();
    job.pause = 0;
    job.slice_end = begin + kSliceNanoseconds;
    if (parallel) {
      std::lock_guard lock(rendezvous_->mutex);
      rendezvous_->job = &job;
      ++rendezvous_->round;
      rendezvous_->wake.notify_all();
    }
    work(*workers_[0], job);
    if (parallel) {
      std::unique_lock lock(rendezvous_->mutex);
      rendezvous_->job = nullptr;  // workers that wake late find no job
      rendezvous_->idle.wait(lock, [&] { return rendezvous_->busy == 0; });
    }
    engine_->release(now() - begin);
  }
  return job.fault;
}

void GridRunner::stop() {
  stop_ = 1;
}

}  // namespace softgpu
