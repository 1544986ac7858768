#include "server/operations.h"

#include <array>
#include <vector>

#include "server/reply.h"
#include "server/session.h"
#include "wire/enumeration.h"
#include "wire/launch_attribute.h"

namespace busbar::server {

namespace {

// ---- CUDA calls ----
constexpr uint32_t kExecOfCall = 8;  // the first argument, behind the reply id
struct GeneratedCall {
  uint16_t opcode;
  Operation operation;
};
#include "server_calls.inc"

constexpr size_t generated_end() {
  size_t end = 0;
  for (auto& call : kGeneratedCalls)
    if (call.opcode >= end) end = call.opcode + 1u;
  return end;
}

constexpr auto kCalls = [] {
  std::array<Operation, generated_end()> table{};
  for (auto& call : kGeneratedCalls) table[call.opcode] = call.operation;
  return table;
}();
static_assert(kCalls.size() <= wire::kFirstOpcode);

// Behind reply id, action, count and graph; see graph_nodes.cc.
constexpr uint32_t kExecOfNodeRequest = 24;

// ---- rows of wire/opcodes.h, by the kind of their handler ----
constexpr Operation row(const char* name, wire::Op op, wire::Order order, wire::Thread thread,
                        SessionHandler h) {
  return {.name = name, .order = order, .thread = thread, .session = h, .op = op};
}
constexpr Operation row(const char* name, wire::Op op, wire::Order order, wire::Thread thread,
                        PipelineHandler h) {
  return {.name = name, .order = order, .thread = thread, .pipeline = h, .op = op};
}
constexpr Operation row(const char* name, wire::Op op, wire::Order order, wire::Thread thread,
                        StreamHandler h, TransferOf transfer = nullptr) {
  return {
      .name = name, .order = order, .thread = thread, .stream = h, .transfer = transfer, .op = op};
}

#define ARGUMENTS_session(name) handlers::name
#define ARGUMENTS_pipeline(name) handlers::name
#define ARGUMENTS_stream(name) handlers::name
#define ARGUMENTS_upload(name) handlers::name, handlers::name##_transfer

constexpr auto kOperations = [] {
  std::array<Operation, wire::kOpcodeEnd - wire::kFirstOpcode> table{};
#define OP(name, number, order, thread, handler)                                      \
  table[number - wire::kFirstOpcode] = row(#name, wire::Op::name, wire::Order::order, \
                                           wire::Thread::thread, ARGUMENTS_##handler(name));
  BUSBAR_OPCODES(OP)
#undef OP
  for (wire::Op op : {wire::Op::kernel_node, wire::Op::copy_node, wire::Op::host_node,
                      wire::Op::batch_mem_op_node})
    table[(uint16_t)op - wire::kFirstOpcode].exec_at = kExecOfNodeRequest;
  for (wire::Op op : {wire::Op::launch, wire::Op::launch_graph, wire::Op::copy_in,
                      wire::Op::copy_out, wire::Op::copy_rows})
    table[(uint16_t)op - wire::kFirstOpcode].uses_gpu = true;
  return table;
}();

}  // namespace

const Operation* find_operation(uint16_t opcode) {
  const Operation* found = nullptr;
  if (opcode < kCalls.size())
    found = &kCalls[opcode];
  else if (opcode >= wire::kFirstOpcode && opcode < wire::kOpcodeEnd)
    found = &kOperations[opcode - wire::kFirstOpcode];
  return found && found->name ? found : nullptr;
}

}  // namespace busbar::server
