#include "softgpu/driver/memory_word.h"

#include <time.h>

#include <cstdint>

#include "softgpu/driver/context.h"

namespace softgpu {

static bool is_satisfied(uint64_t word, uint64_t value, unsigned flags, bool wide) {
  switch (flags & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ:
      return wide ? (int64_t)(word - value) >= 0 : (int32_t)((uint32_t)word - (uint32_t)value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ: return word == value;
    case CU_STREAM_WAIT_VALUE_AND: return (word & value) != 0;
    default: return wide ? ~(word | value) != 0 : (uint32_t)~(word | value) != 0;
  }
}

template <typename T>
void wait_for_word(Context* c, CUdeviceptr p, T value, unsigned flags) {
  timespec pause{0, 20'000};  // polling: stores of kernels and of the host cause no event
  while (!is_satisfied(__atomic_load_n((T*)p, __ATOMIC_ACQUIRE), value, flags, sizeof(T) == 8) &&
         !c->destroyed && !c->error)
    nanosleep(&pause, nullptr);
}

template void wait_for_word<uint32_t>(Context*, CUdeviceptr, uint32_t, unsigned);
template void wait_for_word<uint64_t>(Context*, CUdeviceptr, uint64_t, unsigned);

}  // namespace softgpu
