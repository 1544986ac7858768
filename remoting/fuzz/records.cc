// libFuzzer: what a client sends a session server. The input is a list of calls: which one, for which context and stream, and its
// bytes; or, when it begins with 0xff, raw bytes where records are expected.
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "fuzz/stub_driver.h"
#include "server/executor.h"
#include "wire/format.h"

using namespace busbar;
using namespace busbar::server;

namespace {
#define CALL(r) (uint16_t)wire::Op::r
const uint16_t kOpcodes[] = {
    CALL(lease_memory), CALL(return_memory), CALL(allocate), CALL(release), CALL(create_context), CALL(destroy_context), CALL(create_stream),
    CALL(destroy_stream), CALL(create_event), CALL(destroy_event), CALL(record_event), CALL(wait_event), CALL(elapsed_time), CALL(mark), CALL(load_module), CALL(unload_module),
    CALL(get_function), CALL(link), CALL(get_global), CALL(list_functions), CALL(active_clusters), CALL(cluster_size), CALL(launch), CALL(copy_in), CALL(copy_out), CALL(host_function),
    CALL(host_function_done), CALL(memory_info), CALL(reserve_addresses), CALL(free_addresses), CALL(create_memory), CALL(release_memory), CALL(map_memory), CALL(unmap_memory),
    CALL(set_access), CALL(nvml_sample), CALL(tensor_map), CALL(validity), CALL(copy_rows), CALL(create_array), CALL(destroy_array), CALL(begin_capture), CALL(end_capture),
    CALL(capture_info), CALL(update_capture), CALL(capture_host_function), CALL(instantiate), CALL(launch_graph), CALL(stage), CALL(stage_now), CALL(graph_function_done),
    CALL(kernel_node), CALL(copy_node), CALL(host_node), CALL(kernel_node_params), CALL(copy_node_params), CALL(host_node_params)};
constexpr unsigned kOwn = sizeof kOpcodes / sizeof kOpcodes[0];
constexpr unsigned kGenerated = 0xc0;                       // numbers of the specification that are in use lie below

struct World {
  Driver cu = fuzz::stub_driver();
  Ledger* ledger = nullptr;
  std::unique_ptr<transport::SharedMemory> client;
  Link* link = nullptr;
  Staging staging{cu, [] {}};                               // a buffer that is not given back is missed sooner or later
  World() {
    staging.close();                                        // no bulk bytes will come: nobody waits for them
    std::string path = "/tmp/busbar-fuzz-" + std::to_string(getpid());
    uint64_t limits[2] = {1 << 30, 1 << 20};
    Ledger::create(path, limits, 2);
    ledger = Ledger::join(path, 1);
    unlink(path.c_str());
    int fd = -1;
    client = transport::SharedMemory::create(fd);
    link = new Link(-1, transport::SharedMemory::attach(fd));
    close(fd);
    // A client takes what it is sent.
    std::thread([this] {
      std::vector<uint8_t> frames;
      for (;; frames.clear()) {
        client->read(frames, 1 << 20);
        for (uint32_t i = 0; i < transport::kSharedChunks; ++i) client->free_chunk(false, i);
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
    }).detach();
  }
};

uint16_t opcode_of(uint8_t which) { return which < kOwn ? kOpcodes[which] : (uint16_t)(which - kOwn < kGenerated ? which - kOwn : which); }

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
    wire::RecordHeader h{(uint32_t)((sizeof h + bytes + 15) & ~15u), opcode_of(which), 0, place & 3u, place >> 2 & 3u ? wire::kFirstStream + (place >> 2 & 3u) : 0};
    size_t at = out.size();
    out.resize(at + h.bytes);
    std::memcpy(out.data() + at, &h, sizeof h);
    std::memcpy(out.data() + at + sizeof h, p, bytes);
    p += bytes;
    n -= bytes;
  }
  return out;
}

// A context with two streams and an event, as every program begins.
void begin(Executor& executor) {
  auto submit = [&](wire::Op op, std::initializer_list<uint32_t> words) {
    std::vector<uint8_t> r(sizeof(wire::RecordHeader) + ((words.size() * 4 + 15) & ~15u));
    wire::RecordHeader h{(uint32_t)r.size(), (uint16_t)op, 0, 1, 0};
    std::memcpy(r.data(), &h, sizeof h);
    std::memcpy(r.data() + sizeof h, words.begin(), words.size() * 4);
    uint64_t used;
    executor.process(r.data(), r.size(), used);
  };
  submit(wire::Op::create_context, {1, 0, 1, 0, wire::kFirstStream + 1});
  submit(wire::Op::create_stream, {wire::kFirstStream + 2, 0, 0});
  submit(wire::Op::create_stream, {wire::kFirstStream + 3, 1, 0});
  submit(wire::Op::create_event, {7, 0});
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n) {
  static World* world = new World;
  if (n < 5) return 0;
  std::memcpy(&fuzz::g_failures, data, 4);
  fuzz::g_calls = 0;
  Session session(world->cu, *world->link, world->staging, *world->ledger, {{0, 0, {}}, {1, 1, {}}}, "");
  {
    Executor executor(session);
    begin(executor);
    uint64_t used;
    if (data[4] == 0xff) executor.process(data + 5, n - 5, used);
    else { auto records = records_of(data + 4, n - 4); executor.process(records.data(), records.size(), used); }
  }
  for (auto& d : session.devices) while (world->ledger->leased_here(d.partition)) world->ledger->give_back(d.partition, world->ledger->leased_here(d.partition));
  return 0;
}
