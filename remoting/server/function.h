// Functions of modules, as the client learns them.
//
// Thread safety: thread `code`.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <string>

#include "server/session.h"

namespace busbar::server {

// Loads the function and charges its stacks, so that no launch loads code, and appends its
// attributes and the layout of its parameters.
CUresult describe_function(Session& s, CUfunction f, bool asks, std::string& out);

// Describes each function of a module with at most wire::kFunctionsInLoadReply functions, as
// get_function does: number, name, description. The client has reserved the ids from `first_id` on
// (0: none). Functions that fail are left out.
std::string describe_small_module(Session& s, LoadedModule& m, uint32_t first_id);

}  // namespace busbar::server
