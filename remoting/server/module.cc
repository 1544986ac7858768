// Modules of the program.
#include "server/code_image.h"
#include "server/function.h"
#include "server/handlers.h"
#include "server/image_memory.h"
#include "server/jit_options.h"
#include "server/module_image.h"
#include "server/pipeline.h"
#include "server/reply.h"
#include "server/session.h"
#include "server/submit.h"

namespace busbar::server {

namespace {
constexpr char kNoMemory[] = "the module's variables need more memory than the partition has free";

uint64_t memory_to_charge(uint64_t measured) {
#ifdef BUSBAR_PLANTED_UNCHARGED  // a test leaves the charge out to prove that it is detected
  return measured & 0;
#endif
  return measured;
}

// Makes a module known before its functions are. False if its unload was received already.
bool publish(Session& s, uint32_t id, const ModuleRef& loaded) {
  std::lock_guard lock(s.modules_mutex);
  if (s.unloading.count(id)) return false;
  s.modules[id] = loaded;
  return true;
}

void drop_module(Session& s, uint32_t id) {
  ModuleRef last;  // is destroyed after the lock
  std::lock_guard lock(s.modules_mutex);
  s.unloading.erase(id);
  auto it = s.modules.find(id);
  if (it == s.modules.end()) return;
  last = std::move(it->second);
  s.modules.erase(it);
}
}  // namespace

// module, whether the image follows, bytes, transfer, the first reserved function id, 1: ask other
// sessions for unused memory, number of options, bytes of the error log and of the information log,
// hash, options, image
// -> error log, information log, descriptions of its functions
void handlers::load_module(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  uint32_t id = in.get<uint32_t>(), inlined = in.get<uint32_t>();
  uint64_t bytes = in.get<uint64_t>(), transfer = in.get<uint64_t>();
  uint32_t first_function = in.get<uint32_t>();
  bool asks = in.get<uint32_t>() != 0;
  uint64_t option_count = in.get<uint64_t>();
  JitLogs logs;
  bool has_logs = logs.read_sizes(in);
  const uint8_t* hash = in.raw(32);
  JitOptions options;
  if (!has_logs || !options.read(in, option_count) || s.module(id))
    return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  const uint8_t* inline_image = inlined && bytes <= in.left() ? in.raw(bytes) : nullptr;
  if (!in.ok() || bytes > wire::kMaxImageBytes || s.too_many_modules())
    return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  std::string image;
  if (inline_image)
    image.assign((const char*)inline_image, bytes);
  else if (uint32_t status = obtain_image(s, {hash, bytes, transfer}, image))
    return s.reply(reply, status);
  std::string packed;
  if (CUresult r = pack_module_image(image, packed))
    return s.reply(reply, r, JitLogs::encode("malformed image"));
  uint64_t memory = 0;
  const char* error = "malformed image";
  if (CUresult r = measure_image(packed, s.cu.software, memory, error))
    return s.reply(reply, r, JitLogs::encode(error));
  MemoryCharge charge(s.account, s.current_partition(), memory_to_charge(memory), asks);
  if (!charge.granted())
    return s.reply(reply, CUDA_ERROR_OUT_OF_MEMORY, JitLogs::encode(kNoMemory));
  options.log_to(logs);
  CUmodule module = nullptr;
  CUresult r = s.cu.cuModuleLoadDataEx(&module, packed.c_str(), options.count(), options.names(),
                                       options.values());
  if (r) return s.reply(reply, r, logs.encode());
  if (!inline_image && transfer) keep_image(s, hash, image);
  auto loaded = std::make_shared<LoadedModule>(s.cu, module, std::move(charge));
  if (!publish(s, id, loaded)) return s.reply(reply, CUDA_ERROR_INVALID_HANDLE);
  s.reply(reply, CUDA_SUCCESS, logs.encode() + describe_small_module(s, *loaded, first_function));
}

// module. Its functions are removed at once, so that no later launch calls them; the driver unloads
// the module on the thread of code, behind the loads and queries before it.
bool handlers::unload_module(Pipeline& p, const Record& r) {
  Session& s = p.session;
  uint32_t id = r.decoder().get<uint32_t>();
  {
    std::lock_guard lock(s.modules_mutex);
    auto it = s.modules.find(id);
    if (it == s.modules.end())
      s.unloading.insert(id);
    else
      it->second->remove_functions(s.functions);
  }
  s.unloads.begin();
  post(p, p.workers.code, 0, [&s, id] {
    drop_module(s, id);
    s.unloads.end();
  });
  return true;
}

// module, name -> address, bytes
void handlers::get_global(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  ModuleRef m = s.module(in.get<uint32_t>());
  std::string name(in.text());
  if (!in.ok() || !m) return s.reply(reply, CUDA_ERROR_INVALID_HANDLE);
  CUdeviceptr at = 0;
  size_t bytes = 0;
  CUresult r = s.cu.cuModuleGetGlobal(&at, &bytes, m->handle, name.c_str());
  std::string out;
  append<uint64_t>(out, at);
  append<uint64_t>(out, bytes);
  s.reply(reply, r, out);
}

}  // namespace busbar::server
