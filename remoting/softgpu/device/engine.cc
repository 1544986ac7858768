#include "softgpu/device/engine.h"

#include <algorithm>

namespace softgpu {

Engine::Engine(int index, const DeviceConfig& config, const OwnPage& own)
    : index_(index),
      config_(config),
      own_(own),
      use_(own.page ? own.page->devices[index] : unused_),
      pages_of_turns_(state_directory(), own.file),
      turns_(use_, index, pages_of_turns_),
      pages_(state_directory(), own.file) {}

Engine* Engine::open(int index, const DeviceConfig& config, bool takes_part) {
  DeviceConfig known = config;
  if (!read_config(index, known)) return nullptr;
  OwnPage own = takes_part ? own_page() : OwnPage{};
  return takes_part && !own.page ? nullptr : new Engine(index, known, own);
}

std::vector<ProcessUse> Engine::processes() {
  std::lock_guard lock(mutex_);
  pages_.refresh();
  std::vector<ProcessUse> list;
  auto add = [&](ino_t file, const UsePage& page) {
    const DeviceUse& use = page.devices[index_];
    list.push_back({file, page.pid, std::min(use.memory_bytes.load(), config_.memory_bytes),
                    use.busy_nanoseconds, use.turns, use.executed_blocks, use.executed_nanoseconds,
                    use.copied_bytes, use.copy_nanoseconds});
  };
  if (own_.page) add(own_.file, *own_.page);
  for (auto& p : pages_.peers()) add(p.file, *p.page);
  return list;
}

uint64_t Engine::used_bytes() {
  uint64_t used = 0;
  for (auto& p : processes()) used = std::min(used + p.memory_bytes, config_.memory_bytes);
  return used;
}

bool Engine::charge(uint64_t bytes) {
  uint64_t total = config_.memory_bytes, before = use_.memory_bytes.load();
  do
    if (bytes > total || before > total - bytes) return false;
  while (!use_.memory_bytes.compare_exchange_weak(before, before + bytes));
  if (own_.from_spawner) return true;
  // Others see the charge before this process reads theirs, so at least one of two that exceed the
  // memory together notices it.
  uint64_t used = 0;
  for (auto& p : processes()) used += p.memory_bytes;
  if (used <= total) return true;
  use_.memory_bytes -= bytes;
  return false;
}

void Engine::refund(uint64_t bytes) {
  uint64_t before = use_.memory_bytes.load();
  while (!use_.memory_bytes.compare_exchange_weak(before, before - std::min(before, bytes))) {
  }
}

void Engine::count_blocks(uint64_t blocks, uint64_t nanoseconds) {
  use_.executed_blocks.fetch_add(blocks, std::memory_order_relaxed);
  use_.executed_nanoseconds.fetch_add(nanoseconds, std::memory_order_relaxed);
}

void Engine::count_copy(uint64_t bytes, uint64_t nanoseconds) {
  use_.copied_bytes.fetch_add(bytes, std::memory_order_relaxed);
  use_.copy_nanoseconds.fetch_add(nanoseconds, std::memory_order_relaxed);
}

}  // namespace softgpu
