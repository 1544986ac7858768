// Limits of graph nodes.
#pragma once
#include <cstdint>

namespace busbar::server {

constexpr uint32_t kMaxBatchMemOps = 256;         // operations of one node
constexpr uint32_t kMaxConditionalBodies = 1024;  // graphs of one node

}  // namespace busbar::server
