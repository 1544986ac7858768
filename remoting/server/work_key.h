// The key of a record with work of the GPU: records with one key are expected to take about as long
// as each other. A kernel is known by its function and geometry, a graph by its executable, a copy
// or fill by the number of bits of its size.
//
// Thread safety: functions without state.
#pragma once
#include <cstdint>

#include "server/record.h"

namespace busbar::server {

// Returns a hash, never 0. Cheap: it is called for each launch in a turn.
uint64_t work_key(const Record& r);

}  // namespace busbar::server
