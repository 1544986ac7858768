// Calls a function that the driver of the node may lack.
#pragma once
#include "server/driver.h"

namespace busbar::server {

// Returns CUDA_ERROR_NOT_SUPPORTED if the driver lacks `function`.
template <typename... Parameters, typename... Arguments>
CUresult optional_call(CUresult (*function)(Parameters...), Arguments... arguments) {
  return function ? function(arguments...) : CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace busbar::server
