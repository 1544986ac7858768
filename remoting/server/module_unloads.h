// Unloads of modules that have begun and not ended, for calls that must see their effect.
//
// Thread safety: for any thread.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>

namespace busbar::server {

class ModuleUnloads {
 public:
  void begin();
  // Unloads end in the order in which they began. Runs the work that waited for this one.
  void end();
  // Runs `work` after all unloads that have begun so far: now, or in the thread that ends the last.
  void run_after_begun(std::function<void()> work);

 private:
  std::mutex mutex_;
  uint64_t begun_ = 0, ended_ = 0;
  std::deque<std::pair<uint64_t, std::function<void()>>> waiting_;  // by the last unload
};

}  // namespace busbar::server
