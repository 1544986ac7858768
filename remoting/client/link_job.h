// State of a CUlinkState: inputs are collected in the client and linked on the node.
//
// Thread safety: none; as in CUDA, the program serializes calls for one link state.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "client/jit_options.h"

namespace busbar::client {

struct LinkJob {
  JitOptions options;
  std::vector<std::pair<int, std::string>> inputs;  // CUjitInputType and bytes
  std::string image;                                // result of cuLinkComplete
  JitLogs logs;
};

}  // namespace busbar::client
