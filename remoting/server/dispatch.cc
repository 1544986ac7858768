// What a record asks for: decoded here, before it has any effect.
#include <algorithm>
#include <cctype>

#include "server/executor.h"

namespace busbar::server {

using wire::Op;

namespace {
#include "server_calls.inc"

}  // namespace

const GeneratedCall* generated(uint16_t opcode) {
  static const auto table = [] {
    std::vector<const GeneratedCall*> t(0x1000);
    for (auto& c : kGeneratedCalls) t[c.opcode] = &c;
    return t;
  }();
  return opcode < table.size() ? table[opcode] : nullptr;
}

bool Executor::take(const uint8_t* p, uint64_t n, uint64_t& used) {
  Record r;
  int state = wire::next_record(p, n, r.head);
  if (state < 0) return false;
  if (state == 0) return true;
  r.payload = p + sizeof r.head;
  position_ += r.head.bytes;
  r.position = position_;
  used = r.head.bytes;
  return handle(r) && !malformed_;
}

bool Executor::handle(const Record& r) {
  use_context(r.head.context);
  const GeneratedCall* g = generated(r.head.opcode);
  if (g && g->replies) return generated_reply(*g, r);
  if (g) return r.head.stream && admit(r);
  switch ((Op)r.head.opcode) {
    case Op::launch:
    case Op::copy_in:
    case Op::copy_out:
    case Op::record_event:
    case Op::wait_event:
    case Op::host_function:
    case Op::mark:
    case Op::copy_rows:
    case Op::stage:
    case Op::launch_graph:
    case Op::capture_host_function: return admit(r);
    case Op::begin_capture:
    case Op::end_capture:
    case Op::capture_info:
    case Op::update_capture: return stream_reply(r);
    case Op::return_memory:
    case Op::release:
    case Op::unload_module:
    case Op::destroy_stream:
    case Op::destroy_event:
    case Op::destroy_context: global(r); return true;
    case Op::create_stream: create_stream(r); return true;
    case Op::create_event: {
      wire::Decoder in = r.decoder();
      uint32_t id = in.get<uint32_t>(), flags = in.get<uint32_t>();
      if (s_.events.size() >= wire::kMaxObjects) return false;
      s_.events[id] = {r.head.context, flags & (CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC),
                       nullptr, 0, 0};
      return in.ok();
    }
    case Op::host_function_done: host_function_done(r.decoder()); return true;
    case Op::goodbye: leaving_ = true; return true;
    case Op::refused: return note_refused(r.decoder());
    default: return reply_call(r);
  }
}

// length, name
bool Executor::note_refused(wire::Decoder in) {
  uint32_t bytes = in.get<uint32_t>();
  const uint8_t* p = bytes && bytes <= wire::kMaxCallName ? in.raw(bytes) : nullptr;
  if (!p || !std::all_of(p, p + bytes, [](uint8_t c) { return std::isalnum(c) || c == '_'; }))
    return false;
  s_.ledger.note_refused(std::string((const char*)p, bytes));
  return true;
}

bool Executor::generated_reply(const GeneratedCall& g, const Record& r) {
  auto run = [this, &g](wire::Decoder in) {
    uint64_t id = in.get<uint64_t>();
    std::string out;
    CUresult status = g.run(s_, in, nullptr, out);
    s_.reply(id, status, out);
  };
  if (!g.slow) {
    run(r.decoder());
    return true;
  }
  auto bytes =
      std::make_shared<std::vector<uint8_t>>(r.payload, r.payload + r.head.bytes - sizeof r.head);
  helper_.post(s_.current, [run, bytes] { run(wire::Decoder(bytes->data(), bytes->size())); });
  return true;
}

// Calls with an answer. Those that may block go to the helper: the caller waits, so no later record
// depends on them.
bool Executor::reply_call(const Record& r) {
  using Body = void (*)(Session&, wire::Decoder);
  Body body = nullptr;
  switch ((Op)r.head.opcode) {
    case Op::memory_info: memory_info(s_, r.decoder()); return true;
    case Op::create_context: create_context(r.decoder()); return true;
    case Op::elapsed_time: elapsed(r.decoder()); return true;
    case Op::query_event: query_event(r.decoder()); return true;
    case Op::lease_memory: lease_memory(s_, r.decoder()); return true;
    case Op::allocate: allocate(s_, r.decoder()); return true;
    case Op::get_global: get_global(s_, r.decoder()); return true;
#ifdef BUSBAR_NVIDIA_RUNTIME
    case Op::validity: validity(s_, r.decoder()); return true;
#endif
    case Op::nvml_sample: body = nvml_sample; break;
    case Op::flush_output:
      if (captures_) {
        s_.reply(r.decoder().get<uint64_t>(), CUDA_SUCCESS);
        return true;
      }  // nothing may be waited for now
      body = flush_output;
      break;
    case Op::ipc_export: ipc_export(s_, r.decoder()); return true;
    case Op::ipc_open: ipc_open(s_, r.decoder()); return true;
    case Op::ipc_close: ipc_close(s_, r.decoder()); return true;
    case Op::tensor_map: tensor_map(s_, r.decoder()); return true;
    case Op::reserve_addresses: reserve_addresses(s_, r.decoder()); return true;
    case Op::free_addresses: free_addresses(s_, r.decoder()); return true;
    case Op::create_memory: create_memory(s_, r.decoder()); return true;
    case Op::release_memory: release_memory(s_, r.decoder()); return true;
    case Op::map_memory: map_memory(s_, r.decoder()); return true;
    case Op::unmap_memory: unmap_memory(s_, r.decoder()); return true;
    case Op::set_access: set_access(s_, r.decoder()); return true;
    case Op::list_functions: body = list_functions; break;
    case Op::active_clusters: active_clusters(s_, r.decoder()); return true;
    case Op::cluster_size: cluster_size(s_, r.decoder()); return true;
    case Op::create_array: create_array(s_, r.decoder()); return true;
    case Op::destroy_array: destroy_array(s_, r.decoder()); return true;
    case Op::kernel_node: kernel_node(s_, r.decoder()); return true;
    case Op::copy_node: copy_node(s_, r.decoder()); return true;
    case Op::host_node: host_node(s_, r.decoder()); return true;
    case Op::kernel_node_params: kernel_node_params(s_, r.decoder()); return true;
    case Op::copy_node_params: copy_node_params(s_, r.decoder()); return true;
    case Op::host_node_params: host_node_params(s_, r.decoder()); return true;
    case Op::words_node: words_node(s_, r.decoder()); return true;
    case Op::words_node_params: words_node_params(s_, r.decoder()); return true;
    case Op::conditional_node: conditional_node(s_, r.decoder()); return true;
    case Op::node_event: node_event(s_, r.decoder()); return true;
    case Op::instantiate: body = instantiate; break;
    case Op::stage_now: body = stage_now; break;
    case Op::graph_function_done:
      body = graph_function_done;
      break;  // behind the bytes that it wrote
    case Op::load_module: body = load_module; break;
    case Op::get_function: body = get_function; break;
    case Op::link: body = link_images; break;
    default: return false;
  }
  auto bytes =
      std::make_shared<std::vector<uint8_t>>(r.payload, r.payload + r.head.bytes - sizeof r.head);
  helper_.post(s_.current,
               [this, bytes, body] { body(s_, wire::Decoder(bytes->data(), bytes->size())); });
  return true;
}

// The bulk bytes that a record cannot run without.
Expected bytes_for(const Record& r) {
  wire::Decoder in = r.decoder();
  switch ((Op)r.head.opcode) {
    case Op::copy_in: {
      in.get<uint64_t>();
      uint64_t bytes = in.get<uint64_t>();
      return {in.get<uint64_t>(), bytes};
    }
    case Op::copy_rows: {
      auto c = in.get<CUDA_MEMCPY3D>();
      bool from_program = in.get<uint32_t>() == 1;
      in.get<uint32_t>();
      return {from_program ? in.get<uint64_t>() : 0, c.WidthInBytes * c.Height * c.Depth};
    }
    case Op::stage: {
      in.get<uint64_t>();
      in.get<uint64_t>();
      in.get<uint64_t>();
      uint64_t bytes = in.get<uint64_t>();
      return {in.get<uint64_t>(), bytes};
    }
    default: return {};
  }
}

}  // namespace busbar::server
