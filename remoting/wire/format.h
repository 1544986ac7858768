// Every layout and every limit of the wire; PROTOCOL.md beside this folder says it in words. Little
// endian, no padding.
#pragma once
#include <cstdint>

namespace busbar::wire {

constexpr uint32_t kProtocolVersion = 5;

// ---- limits ----
constexpr uint32_t kMaxRecordBytes =
    64 << 10;  // header included; a launch may carry 32,764 bytes of parameters
constexpr uint32_t kMaxInlineBytes =
    4 << 10;  // of host data in a record; more goes over the bulk connection
constexpr uint32_t kMaxFrameBytes = 64 << 20;  // server to client
constexpr uint32_t kMaxTicketBytes = 4 << 10;
constexpr uint32_t kMaxChunkBytes = 4 << 20;  // one transfer on the bulk connection
constexpr uint32_t kPieceBytes =
    1 << 20;  // of a large copy: both ends work at the same time, and on what is in their caches
constexpr uint64_t kMaxImageBytes = 1ull << 30;
constexpr uint64_t kBulkCreditBytes = 64ull << 20;  // sent and not yet consumed
constexpr uint32_t kMaxCallName = 64;
constexpr uint32_t kMaxObjects = 1u << 22;  // handles of one kind in a session
constexpr uint32_t kMaxNameBytes = 4096;
constexpr uint32_t kFunctionsWithLoad =
    2;  // a module with no more is described whole when it is loaded
constexpr uint32_t kMaxListed = 1u << 20;  // elements of one answer
constexpr uint64_t kMaxStagedBytes = 1ull
                                     << 30;  // host memory that stands for the program's in graphs
constexpr uint32_t kMaxParallelRequests = 1u << 16;  // records parked in stream queues
constexpr uint32_t kMaxDevices = 16;
constexpr uint32_t kMaxDescriptionBytes = 32 << 10;  // of a session's devices
constexpr int kDeviceAttributes = 160;
constexpr uint64_t kArenaTimes = 4;  // a device's arena is so many times its memory
constexpr uint64_t kArenaSlotBytes =
    1ull << 40;  // what the client keeps free at each address that it offers
constexpr uint32_t kArenaSlots = 14, kArenaRounds = 4;  // offered; tried for one device
constexpr uint64_t kLeaseBytes = 64ull << 20;
constexpr uint64_t kGranularity = 2ull << 20;

// ---- before TLS: the client's first bytes; the port answers nothing until they are right ----
enum class Purpose : uint32_t { open = 1, bulk = 2 };
struct Preamble {
  char magic[8];  // "BUSBAR1\n"
  uint32_t purpose;
  uint32_t bytes;  // of what follows: the ticket, or a session id
};
constexpr char kMagic[8] = {'B', 'U', 'S', 'B', 'A', 'R', '1', '\n'};
static_assert(sizeof(Preamble) == 16);

// ---- launcher and client, inside TLS, before the session server takes over ----
struct OpenRequest {
  uint32_t protocol, pid;
  char program[56];
  uint8_t meeting[16];  // the client listens for a session server on its machine under this name;
                        // zero: it does not
  uint64_t free_addresses[kArenaSlots];  // kArenaSlotBytes each, kept free in the client; zeros at
                                         // the end
};
// `shared`: the session server is on the client's machine and met it. The devices' description
// follows, unless `status` is set.
struct OpenReply {
  uint32_t status, shared, description_bytes, reserved;
  uint8_t session[16];
  char message[224];
};
static_assert(sizeof(OpenRequest) == 192 && sizeof(OpenReply) == 256);
constexpr char kExporterLabel[] = "EXPORTER-busbar-session-v1";

constexpr uint64_t kSharedTransfer =
    1ull << 63;  // in the place of a transfer: the chunk of shared memory that holds the bytes

// ---- client to session server: records ----
// `bytes` counts the header and is a multiple of 16. The end of a record in the byte stream is its
// position.
struct RecordHeader {
  uint32_t bytes;
  uint16_t opcode;
  uint16_t flags;
  uint32_t context;  // 0: none
  uint32_t stream;   // id, or one of the constants below
};
static_assert(sizeof(RecordHeader) == 16);
constexpr uint32_t kNoStream = 0, kLegacyStream = 1, kFirstStream = 16;

// Opcodes below 0x1000 are CUDA functions and come from spec/cuda_driver.spec. These are the
// protocol's own.
enum class Op : uint16_t {
  lease_memory = 0x1002,     // reply: device, address, bytes
  return_memory = 0x1003,    // fire: device, address, bytes
  allocate = 0x1004,         // reply: without an arena the driver chooses the address
  release = 0x1005,          // fire
  create_context = 0x1010,   // reply
  destroy_context = 0x1011,  // fire
  create_stream = 0x1012,
  destroy_stream = 0x1013,
  create_event = 0x1014,
  destroy_event = 0x1015,
  record_event = 0x1016,
  wait_event = 0x1017,
  elapsed_time = 0x1018,
  mark = 0x1019,         // publish the completion of the stream as soon as it is there
  query_event = 0x101a,  // reply: only for one that a graph records
  load_module = 0x1020,
  unload_module = 0x1021,
  get_function = 0x1022,
  link = 0x1023,
  get_global = 0x1024,
  list_functions = 0x1025,  // reply
  active_clusters = 0x1026,
  cluster_size = 0x1027,  // reply
  launch = 0x1030,
  copy_in = 0x1040,   // bytes inline or a bulk transfer, to a device address
  copy_out = 0x1041,  // a device address to a transfer of the client
  host_function = 0x1050,
  host_function_done = 0x1051,
  memory_info = 0x1060,
  reserve_addresses = 0x1061,
  free_addresses = 0x1062,
  create_memory = 0x1063,
  release_memory = 0x1064,  // reply: the program's own VMM
  map_memory = 0x1065,
  unmap_memory = 0x1066,
  set_access = 0x1067,
  ipc_export = 0x106b,
  ipc_open = 0x106c,
  ipc_close = 0x106d,  // reply: memory of one session in another of the same allocation
  copy_rows = 0x1080,  // 2D, 3D and array copies: the copy, which side is the program's, a staging
                       // buffer or a transfer
  create_array = 0x1081,
  destroy_array = 0x1082,  // reply
  begin_capture = 0x1090,
  end_capture = 0x1091,
  capture_info = 0x1092,
  update_capture = 0x1093,  // reply
  capture_host_function = 0x1094,
  instantiate = 0x1098,   // reply
  launch_graph = 0x1099,  // an executable graph, and for each buffer that it fills the transfer
                          // that brings it back
  stage = 0x109a,         // bytes into a staging buffer, in the order of the stream
  stage_now = 0x109b,     // the same at once, while a graph waits for a host function
  graph_function_done = 0x109c,
  kernel_node = 0x10a0,
  copy_node = 0x10a1,
  host_node = 0x10a2,  // reply: add, or change parameters
  kernel_node_params = 0x10a3,
  copy_node_params = 0x10a4,
  host_node_params = 0x10a5,  // reply
  words_node = 0x10a6,
  words_node_params = 0x10a7,
  conditional_node = 0x10a8,
  node_event = 0x10a9,    // reply
  nvml_sample = 0x106a,   // reply: see nvml_sample.h
  tensor_map = 0x1069,    // reply
  validity = 0x1068,      // reply: NVIDIA's self-test, asked of the node's driver
  flush_output = 0x1072,  // reply: what kernels of this context printed has been sent
  goodbye = 0x1070,
  refused = 0x1071,  // fire: a call of the program that this side has no answer to, by name
};

// What a CUipcMemHandle holds: which session has the memory, and a secret that proves it was told.
struct IpcToken {
  char magic[8];
  uint8_t session[16], secret[16];
  uint64_t lease, bytes, offset;  // the whole lease is shared, the pointer lies at `offset` in it
};
static_assert(sizeof(IpcToken) == 64);
constexpr char kIpcMagic[8] = {'B', 'U', 'S', 'B', 'I', 'P', 'C', '1'};

// ---- session server to client: frames ----
enum class Frame : uint16_t {
  completion = 1,      // u32 stream, u32 error, u64 position, u64 bulk bytes sent before it
  reply = 2,           // u64 id, u32 status, then the answer
  push = 3,            // u64 transfer, u64 offset, bytes
  host_function = 4,   // u64 id
  credit = 5,          // u64 bulk bytes consumed since the start
  session_error = 6,   // u32 error, text
  graph_function = 7,  // u64 id, u64 round: a graph waits for this host function of the program
  output = 10,         // what kernels printed, for the program's standard output
  push_shared = 9,     // u64 transfer, u64 offset, u64 bytes, u32 chunk: they lie in shared memory,
                       // and the chunk goes back to the node
  graph_output = 8,    // u32 staging, u32 0, u64 offset, bytes: what a graph's copy brought, before
                       // such a function
};
struct FrameHeader {
  uint32_t bytes;
  uint16_t kind;
  uint16_t flags;
};  // bytes: of what follows the header
static_assert(sizeof(FrameHeader) == 8);

// ---- bulk connection, both directions ----
struct BulkHeader {
  uint64_t transfer, offset;
  uint64_t bytes;
};
static_assert(sizeof(BulkHeader) == 24);

// Answers a load_module that named only a hash the node does not have.
constexpr uint32_t kNeedImage = 0xffff0001;

}  // namespace busbar::wire
