// libFuzzer: what a client sends a session server. The input is a list of calls: which one, for
// which context and stream, and its bytes; or, when it begins with 0xff, raw bytes where records
// are expected.
#include <cstdint>
#include <cstring>
#include <vector>

#include "fuzz/world.h"

using namespace busbar;
using namespace busbar::server;
using fuzz::World;

namespace {
#define CALL(r) (uint16_t)wire::Op::r
const uint16_t kOpcodes[] = {CALL(lease_memory),
                             CALL(return_memory),
                             CALL(allocate),
                             CALL(release),
                             CALL(create_context),
                             CALL(destroy_context),
                             CALL(create_stream),
                             CALL(destroy_stream),
                             CALL(create_event),
                             CALL(destroy_event),
                             CALL(record_event),
                             CALL(wait_event),
                             CALL(elapsed_time),
                             CALL(mark),
                             CALL(load_module),
                             CALL(unload_module),
                             CALL(get_function),
                             CALL(link),
                             CALL(get_global),
                             CALL(list_functions),
                             CALL(active_clusters),
                             CALL(cluster_size),
                             CALL(launch),
                             CALL(copy_in),
                             CALL(copy_out),
                             CALL(host_function),
                             CALL(host_function_done),
                             CALL(memory_info),
                             CALL(reserve_addresses),
                             CALL(free_addresses),
                             CALL(create_memory),
                             CALL(release_memory),
                             CALL(map_memory),
                             CALL(unmap_memory),
                             CALL(set_access),
                             CALL(nvml_sample),
                             CALL(tensor_map),
                             CALL(validity),
                             CALL(copy_rows),
                             CALL(create_array),
                             CALL(destroy_array),
                             CALL(begin_capture),
                             CALL(end_capture),
                             CALL(capture_info),
                             CALL(update_capture),
                             CALL(capture_host_function),
                             CALL(instantiate),
                             CALL(launch_graph),
                             CALL(stage),
                             CALL(stage_now),
                             CALL(graph_function_done),
                             CALL(kernel_node),
                             CALL(copy_node),
                             CALL(host_node),
                             CALL(kernel_node_params),
                             CALL(copy_node_params),
                             CALL(host_node_params),
                             CALL(words_node),
                             CALL(words_node_params),
                             CALL(conditional_node),
                             CALL(node_event),
                             CALL(query_event),
                             CALL(refused),
                             CALL(flush_output)};
constexpr unsigned kOwn = sizeof kOpcodes / sizeof kOpcodes[0];
constexpr unsigned kGenerated = 0xc0;  // numbers of the specification that are in use lie below

uint16_t opcode_of(uint8_t which) {
  return which < kOwn ? kOpcodes[which]
                      : (uint16_t)(which - kOwn < kGenerated ? which - kOwn : which);
}

// The list of calls as records.
std::vector<uint8_t> records_of(const uint8_t* p, size_t n) {
  std::vector<uint8_t> out;
  while (n >= 4) {
    uint8_t which = p[0], place = p[1];
    uint16_t bytes;
    std::memcpy(&bytes, p + 2, 2);
    p += 4;
    n -= 4;
    if (bytes > n) bytes = (uint16_t)n;
    wire::RecordHeader h{(uint32_t)((sizeof h + bytes + 15) & ~15u), opcode_of(which), 0,
                         place & 3u, place >> 2 & 3u ? wire::kFirstStream + (place >> 2 & 3u) : 0};
    size_t at = out.size();
    out.resize(at + h.bytes);
    std::memcpy(out.data() + at, &h, sizeof h);
    std::memcpy(out.data() + at + sizeof h, p, bytes);
    p += bytes;
    n -= bytes;
  }
  return out;
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n) {
  static World* world = new World;
  if (n < 5) return 0;
  std::memcpy(&fuzz::g_failures, data, 4);
  fuzz::g_calls = 0;
  Session session(world->cu, *world->link, world->staging, *world->ledger, {{0, 0, {}}, {1, 1, {}}},
                  "");
  {
    Executor executor(session);
    fuzz::begin(executor);
    uint64_t used;
    if (data[4] == 0xff)
      executor.process(data + 5, n - 5, used);
    else {
      auto records = records_of(data + 4, n - 4);
      executor.process(records.data(), records.size(), used);
    }
  }
  for (auto& d : session.devices)
    while (world->ledger->leased_here(d.partition))
      world->ledger->give_back(d.partition, world->ledger->leased_here(d.partition));
  return 0;
}
