// Generated client calls that hand-written entry points extend (`wrapped` in cuda_driver.spec).
#pragma once
#include <cuda.h>

namespace busbar::client {

#include "wrapped_calls.inc"

}  // namespace busbar::client
