// The opcode table: one row for each record of the protocol that is no CUDA call of
// spec/cuda_driver.spec (those have opcodes below 0x1000). The enum, the dispatch of the session
// server, the declarations of its handlers and the fuzzer's list derive from these rows.
//
// To add an opcode: add a row here, and define the handler of that name in remoting/server
// (namespace busbar::server::handlers). If it gives work to the GPU, or changes an executable
// graph, also add it to the list for uses_gpu or exec_at in server/operations.cc: without uses_gpu
// its work runs without turns.
#pragma once
#include <cstdint>

namespace busbar::wire {

// The moment at which a record takes effect, relative to the records before it.
enum class Order : uint8_t {
  stream,     // after the records of its stream; parked while a dependency is not met
  barrier,    // after every parked record of every stream
  immediate,  // when it is decoded
};

// The thread of the session server that runs the handler. A handler that may wait for anything runs
// on one of the helper threads (ADR 56). Records of one helper
// thread keep their order; otherwise only records whose caller waits for the reply may leave the
// executor.
enum class Thread : uint8_t {
  executor,
  code,    // loads and unloads code
  memory,  // allocates and frees memory; may wait for all work of the GPU
};

// OP(name, number, order, thread, handler)
//   name     of wire::Op and of the handler
//   number   opcode
//   order    wire::Order
//   thread   wire::Thread
//   handler  signature of the handler:
//              session   session and payload
//              pipeline  stages of the executor, and record
//              stream    stages of the executor, record and its stream
//              upload    the same, for a record that may wait for a bulk transfer
// clang-format off
#define BUSBAR_OPCODES(OP)                                                           \
  /* Device memory of the arenas */                                                  \
  OP(lease_memory,              0x1002, immediate, memory,         session)          \
  OP(return_memory,             0x1003, immediate, memory,         session)          \
  OP(allocate,                  0x1004, immediate, memory,         session)          \
  OP(release,                   0x1005, barrier,   memory,         session)          \
  OP(return_complete,           0x1006, immediate, memory,         session)          \
  /* Contexts, streams and events */                                                 \
  OP(create_context,            0x1010, immediate, executor,       pipeline)         \
  OP(destroy_context,           0x1011, barrier,   executor,       pipeline)         \
  OP(create_stream,             0x1012, immediate, executor,       pipeline)         \
  OP(destroy_stream,            0x1013, barrier,   executor,       pipeline)         \
  OP(create_event,              0x1014, immediate, executor,       pipeline)         \
  OP(destroy_event,             0x1015, barrier,   executor,       pipeline)         \
  OP(record_event,              0x1016, stream,    executor,       stream)           \
  OP(wait_event,                0x1017, stream,    executor,       stream)           \
  OP(elapsed_time,              0x1018, immediate, executor,       pipeline)         \
  OP(completion_fence,          0x1019, stream,    executor,       stream)           \
  OP(query_event,               0x101a, immediate, executor,       pipeline)         \
  OP(set_limit,                 0x101b, immediate, code,           session)          \
  /* Modules and functions */                                                        \
  OP(load_module,               0x1020, immediate, code,           session)          \
  OP(unload_module,             0x1021, barrier,   executor,       pipeline)         \
  OP(get_function,              0x1022, immediate, code,           session)          \
  OP(link,                      0x1023, immediate, code,           session)          \
  OP(get_global,                0x1024, immediate, code,           session)          \
  OP(list_functions,            0x1025, immediate, code,           session)          \
  OP(active_clusters,           0x1026, immediate, code,           session)          \
  OP(cluster_size,              0x1027, immediate, code,           session)          \
  /* Launches and copies */                                                          \
  OP(launch,                    0x1030, stream,    executor,       stream)           \
  OP(copy_in,                   0x1040, stream,    executor,       upload)           \
  OP(copy_out,                  0x1041, stream,    executor,       stream)           \
  OP(copy_rows,                 0x1080, stream,    executor,       upload)           \
  /* Host functions */                                                               \
  OP(host_function,             0x1050, stream,    executor,       stream)           \
  OP(host_function_done,        0x1051, immediate, executor,       pipeline)         \
  /* Virtual memory of the program */                                                \
  OP(memory_info,               0x1060, immediate, memory,         session)          \
  OP(reserve_addresses,         0x1061, immediate, memory,         session)          \
  OP(free_addresses,            0x1062, immediate, memory,         session)          \
  OP(create_memory,             0x1063, immediate, memory,         session)          \
  OP(release_memory,            0x1064, immediate, memory,         session)          \
  OP(map_memory,                0x1065, immediate, memory,         session)          \
  OP(unmap_memory,              0x1066, immediate, memory,         session)          \
  OP(set_access,                0x1067, immediate, memory,         session)          \
  /* Driver objects that need more than a generated call */                          \
  OP(self_test,                 0x1068, immediate, executor,       session)          \
  OP(tensor_map,                0x1069, immediate, executor,       session)          \
  OP(nvml_sample,               0x106a, immediate, code,           session)          \
  OP(ipc_export,                0x106b, immediate, memory,         session)          \
  OP(ipc_open,                  0x106c, immediate, memory,         session)          \
  OP(ipc_close,                 0x106d, immediate, memory,         session)          \
  OP(ipc_export_event,          0x106e, immediate, executor,       session)          \
  OP(ipc_open_event,            0x106f, immediate, memory,         session)          \
  OP(create_array,              0x1081, immediate, memory,         session)          \
  OP(destroy_array,             0x1082, immediate, memory,         session)          \
  /* The session itself */                                                           \
  OP(end_session,               0x1070, immediate, executor,       pipeline)         \
  OP(unsupported_call,          0x1071, immediate, executor,       pipeline)         \
  OP(flush_output,              0x1072, immediate, executor,       pipeline)         \
  OP(part,                      0x1073, immediate, executor,       pipeline)         \
  /* Capture */                                                                      \
  OP(begin_capture,             0x1090, immediate, executor,       stream)           \
  OP(end_capture,               0x1091, immediate, executor,       stream)           \
  OP(capture_info,              0x1092, immediate, executor,       stream)           \
  OP(update_capture,            0x1093, immediate, executor,       stream)           \
  OP(capture_host_function,     0x1094, stream,    executor,       stream)           \
  /* Graphs */                                                                       \
  OP(instantiate,               0x1098, immediate, code,           session)          \
  OP(launch_graph,              0x1099, stream,    executor,       stream)           \
  OP(stage,                     0x109a, stream,    executor,       upload)           \
  OP(stage_immediately,         0x109b, immediate, executor,       session)          \
  OP(graph_function_done,       0x109c, immediate, executor,       session)          \
  OP(allocate_graph_buffer,     0x109d, immediate, memory,         session)          \
  OP(kernel_node,               0x10a0, immediate, executor,       session)          \
  OP(copy_node,                 0x10a1, immediate, executor,       session)          \
  OP(host_node,                 0x10a2, immediate, executor,       session)          \
  OP(kernel_node_params,        0x10a3, immediate, executor,       session)          \
  OP(copy_node_params,          0x10a4, immediate, executor,       session)          \
  OP(host_node_params,          0x10a5, immediate, executor,       session)          \
  OP(batch_mem_op_node,         0x10a6, immediate, executor,       session)          \
  OP(batch_mem_op_node_params,  0x10a7, immediate, executor,       session)          \
  OP(conditional_node,          0x10a8, immediate, executor,       session)          \
  OP(node_event,                0x10a9, immediate, executor,       session)          \
  OP(ipc_create_event,          0x10aa, immediate, memory,         session)
// clang-format on

enum class Op : uint16_t {
#define OP(name, number, order, thread, handler) name = number,
  BUSBAR_OPCODES(OP)
#undef OP
};

// Opcodes below are CUDA calls, opcodes from here are rows of the table.
constexpr uint16_t kFirstOpcode = 0x1000;
constexpr uint16_t kOpcodeEnd = 0x10b0;  // above every row

}  // namespace busbar::wire
