// The time and bytes of one copy, which its copy engine has completed when the object ends.
//
// Thread safety: an object belongs to one thread.
#pragma once
#include <cstdint>

#include "softgpu/device/clock.h"
#include "softgpu/device/engine.h"

namespace softgpu {

class CopyMeasure {
 public:
  CopyMeasure(Engine* engine, uint64_t bytes)
      : engine_(engine), bytes_(bytes), begin_(thread_time()) {}
  ~CopyMeasure() { engine_->count_copy(bytes_, thread_time() - begin_); }
  CopyMeasure(const CopyMeasure&) = delete;

 private:
  Engine* const engine_;
  const uint64_t bytes_, begin_;
};

}  // namespace softgpu
