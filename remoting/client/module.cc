// Modules, functions, libraries and kernels. A function comes with its attributes and layout in one
// answer.
#include <openssl/sha.h>

#include <algorithm>
#include <cstring>

#include "client/call.h"

namespace busbar::client {

namespace {
constexpr uint32_t kSendAtOnceBytes = 48 << 10;

std::string image_for(Context* c, const void* image) {
  auto& a = c->device->attributes;
  return image_bytes(image, a[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR],
                     a[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR]);
}

// The name of an image is its hash. Small ones travel with it; of others the node may have kept the
// bytes.
Answer request_load(Context* c, uint32_t module, uint32_t first_function, const std::string& bytes,
                    const JitOptions& options, bool send) {
  Link* link = c->device->link;
  bool inlined = bytes.size() <= kSendAtOnceBytes;
  uint8_t hash[32];
  SHA256((const uint8_t*)bytes.data(), bytes.size(), hash);
  uint64_t transfer = send && !inlined ? link->upload(bytes.data(), bytes.size()) : 0,
           id = link->next_id();
  if (send && !inlined && !transfer) return {(uint32_t)link->error(), ""};
  wire::Encoder<kSendAtOnceBytes + 256 + wire::kMaxJitOptions * sizeof(wire::JitOption)> e(
      wire::Op::load_module, c->id);
  e.put(id)
      .put(module)
      .put<uint32_t>(inlined)
      .put((uint64_t)bytes.size())
      .put(transfer)
      .put((uint64_t)first_function)
      .put((uint64_t)options.size())
      .raw(hash, 32)
      .raw(options.data(), (uint32_t)(options.size() * sizeof options[0]));
  if (inlined) e.raw(bytes.data(), (uint32_t)bytes.size());
  return link->ask(id, e.finish(), e.size());
}

Function* read_function(Module* m, const std::string& name, uint32_t number, wire::Decoder d) {
  auto f = std::make_unique<Function>();
  f->module = m;
  f->name = name;
  f->id = number;
  for (int i = 0; i < 16; ++i) {
    f->attributes[i] = d.get<int32_t>();
    f->attribute_status[i] = d.get<uint32_t>();
  }
  uint32_t count = d.get<uint32_t>();
  for (uint32_t i = 0; i < count && d.ok(); ++i) {
    Parameter p{d.get<uint32_t>(), d.get<uint32_t>()};
    f->parameter_bytes = std::max(f->parameter_bytes, p.offset + p.bytes);
    f->layout.push_back(p);
  }
  if (!d.ok() || f->parameter_bytes > 32764) return nullptr;
  f->handle = session()->functions.add(f.get());
  session()->function_numbers.add(f->id, f.get());
  m->functions.emplace_back(name, f.get());
  return f.release();
}

// The functions that came with the answer to the load.
void read_functions(Module* m, const std::string& body) {
  wire::Decoder d(body.data(), body.size());
  while (d.ok() && d.left()) {
    uint32_t number = d.get<uint32_t>();
    std::string name(d.text());
    auto about = d.text(wire::kMaxRecordBytes);
    if (d.ok()) read_function(m, name, number, wire::Decoder(about.data(), about.size()));
  }
}
}  // namespace

CUresult load_module(Context* c, const void* image, const JitOptions& options, std::string* log,
                     Module*& out) {
  std::string bytes = image_for(c, image);
  if (bytes.find("vprintf") != std::string::npos) session()->prints = true;
  if (bytes.empty()) return CUDA_ERROR_INVALID_IMAGE;
  uint32_t id = session()->next_number++,
           first = session()->next_function.fetch_add(wire::kFunctionsWithLoad);
  Answer a = request_load(c, id, first, bytes, options, false);
  if (a.status == wire::kNeedImage) a = request_load(c, id, first, bytes, options, true);
  if (a.status) {
    if (log) *log = a.body;
    return (CUresult)a.status;
  }
  auto* m = new Module;
  m->context = c;
  m->context_life = c->life;
  m->id = id;
  m->handle = session()->modules.add(m);
  read_functions(m, a.body);
  note_module(m);
  out = m;
  return CUDA_SUCCESS;
}

CUresult get_function(Module* m, const char* name, Function*& out) {
  std::lock_guard lock(m->mutex);
  for (auto& [known, f] : m->functions)
    if (known == name) {
      out = f;
      return CUDA_SUCCESS;
    }
  size_t n = std::strlen(name);
  if (n > wire::kMaxNameBytes - 64) return CUDA_ERROR_INVALID_VALUE;
  Link* link = m->context->device->link;
  uint32_t number = session()->next_function++;
  uint64_t id = link->next_id();
  wire::Encoder<wire::kMaxNameBytes + 64> e(wire::Op::get_function, m->context->id);
  e.put(id).put(m->id).put(number).text(name);
  Answer a = link->ask(id, e.finish(), e.size());
  if (a.status) return (CUresult)a.status;
  out = read_function(m, name, number, wire::Decoder(a.body.data(), a.body.size()));
  return out ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

CUresult module_of(Library* l, Context* c, Module*& out) {
  std::lock_guard lock(l->mutex);
  std::erase_if(l->modules, [](auto& m) { return m.life != m.context->life; });
  for (auto& loaded : l->modules)
    if (loaded.context == c) {
      out = loaded.module;
      return CUDA_SUCCESS;
    }
  if (CUresult r = load_module(c, l->image.data(), l->options, nullptr, out)) return r;
  out->of_library = true;
  l->modules.push_back({c, c->life, out});
  return CUDA_SUCCESS;
}

Function* function_of(CUfunction h, CUresult& error) {
  error = CUDA_ERROR_INVALID_HANDLE;
  if (Function* f = session()->functions.get(h)) {
    error = CUDA_SUCCESS;
    return f;
  }
  Kernel* k = session()->kernels.get(h);  // runtimes pass a CUkernel where a CUfunction is meant
  if (!k) return nullptr;
  Context* c;
  if ((error = require_context(c))) return nullptr;
  Module* m;
  Function* f = nullptr;
  if ((error = module_of(k->library, c, m)) || (error = get_function(m, k->name.c_str(), f)))
    return nullptr;
  return f;
}

}  // namespace busbar::client

using namespace busbar;
using namespace busbar::client;

#define CURRENT(c) \
  Context* c;      \
  if (CUresult r = require_context(c)) return r
#define MODULE(m, h)                                 \
  if (!session()) return CUDA_ERROR_NOT_INITIALIZED; \
  Module* m = session()->modules.get(h);             \
  if (!m) return CUDA_ERROR_INVALID_HANDLE

JitOptions busbar::client::jit_options(unsigned n, const CUjit_option* options, void** values) {
  JitOptions kept;
  for (unsigned i = 0; i < n && options && values && kept.size() < wire::kMaxJitOptions; ++i)
    if (wire::is_number(options[i])) kept.push_back({(uint32_t)options[i], 0, (uint64_t)values[i]});
  return kept;
}

void busbar::client::write_log(unsigned n, const CUjit_option* options, void** values,
                               const std::string& log) {
  char* buffer = nullptr;
  size_t room = 0;
  for (unsigned i = 0; i < n && options && values; ++i) {
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER) buffer = (char*)values[i];
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) room = (size_t)values[i];
  }
  if (!buffer || !room) return;
  size_t k = std::min(room - 1, log.size());
  std::memcpy(buffer, log.data(), k);
  buffer[k] = 0;
}

API CUresult cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned n, CUjit_option* options,
                                void** values) {
  CURRENT(c);
  if (!out || !image) return CUDA_ERROR_INVALID_VALUE;
  Module* m;
  std::string log;
  if (CUresult r = load_module(c, image, jit_options(n, options, values), &log, m)) {
    write_log(n, options, values, log);
    return r;
  }
  *out = (CUmodule)m->handle;
  return CUDA_SUCCESS;
}
API CUresult cuModuleLoadData(CUmodule* out, const void* image) {
  return cuModuleLoadDataEx(out, image, 0, nullptr, nullptr);
}
API CUresult cuModuleLoadFatBinary(CUmodule* out, const void* image) {
  return cuModuleLoadDataEx(out, image, 0, nullptr, nullptr);
}

API CUresult cuModuleLoad(CUmodule* out, const char* path) {
  std::string bytes;
  if (!path) return CUDA_ERROR_INVALID_VALUE;
  return read_file(path, bytes) ? cuModuleLoadData(out, bytes.c_str()) : CUDA_ERROR_FILE_NOT_FOUND;
}

static std::mutex g_modules_mutex;
static std::vector<Module*>& all_modules() {
  static auto* v = new std::vector<Module*>;
  return *v;
}

std::vector<Module*> busbar::client::modules_of(Context* c) {
  std::lock_guard lock(g_modules_mutex);
  std::vector<Module*> list;
  for (Module* m : all_modules())
    if (m->context == c && m->context_life == c->life) list.push_back(m);
  return list;
}
void busbar::client::note_module(Module* m) {
  std::lock_guard lock(g_modules_mutex);
  all_modules().push_back(m);
}

void busbar::client::unload_module(Module* m) {
  {
    std::lock_guard lock(g_modules_mutex);
    std::erase(all_modules(), m);
  }
  session()->modules.remove(m->handle);
  for (auto& [name, f] : m->functions) {
    session()->functions.remove(f->handle);
    session()->function_numbers.remove(f->id);
  }
  for (uint64_t at : m->globals) session()->addresses.remove(at, Region::global);
  wire::Encoder<> e(wire::Op::unload_module, m->context->id);
  e.put(m->id);
  m->context->device->link->submit(e.finish(), e.size());
  for (auto& [name, f] : m->functions) delete f;
  delete m;
}

API CUresult cuModuleUnload(CUmodule h) {
  MODULE(m, h);
  CURRENT(c);
  if (m->of_library) return CUDA_ERROR_NOT_PERMITTED;
  if (CUresult r = unsafe_in_capture()) return r;
  synchronize(c);
  unload_module(m);
  return CUDA_SUCCESS;
}
API CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  if (!mode) return CUDA_ERROR_INVALID_VALUE;
  *mode = CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

API CUresult cuModuleGetFunction(CUfunction* out, CUmodule h, const char* name) {
  MODULE(m, h);
  if (!out || !name || !*name) return CUDA_ERROR_INVALID_VALUE;
  Function* f;
  if (CUresult r = get_function(m, name, f)) return r;
  *out = (CUfunction)f->handle;
  return CUDA_SUCCESS;
}

API CUresult cuModuleGetGlobal(CUdeviceptr* p, size_t* bytes, CUmodule h, const char* name) {
  MODULE(m, h);
  if (!name || std::strlen(name) > wire::kMaxNameBytes - 64) return CUDA_ERROR_INVALID_VALUE;
  Link* link = m->context->device->link;
  uint64_t id = link->next_id();
  wire::Encoder<wire::kMaxNameBytes + 64> e(wire::Op::get_global, m->context->id);
  e.put(id).put(m->id).text(name);
  Answer a = link->ask(id, e.finish(), e.size());
  if (a.status) return (CUresult)a.status;
  wire::Decoder d(a.body.data(), a.body.size());
  uint64_t at = d.get<uint64_t>(), n = d.get<uint64_t>();
  if (session()->addresses.find(at).kind == Region::none) {
    session()->addresses.add({Region::global, at, n, 0, m->context, 0});
    std::lock_guard lock(m->mutex);
    m->globals.push_back(at);
  }
  if (p) *p = at;
  if (bytes) *bytes = n;
  return CUDA_SUCCESS;
}

// ---- what a module holds ----
static CUresult function_names(Context* c, uint32_t module, std::vector<std::string>& names) {
  Link* link = c->device->link;
  uint64_t id = link->next_id();
  wire::Encoder<> e(wire::Op::list_functions, c->id);
  e.put(id).put(module);
  Answer a = link->ask(id, e.finish(), e.size());
  if (a.status) return (CUresult)a.status;
  wire::Decoder d(a.body.data(), a.body.size());
  for (uint32_t n = d.get<uint32_t>(); n && d.ok(); --n) names.emplace_back(d.text());
  return d.ok() ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

CUresult busbar::client::function_names(Module* m, std::vector<std::string>& names) {
  return ::function_names(m->context, m->id, names);
}

API CUresult cuModuleGetFunctionCount(unsigned* count, CUmodule h) {
  MODULE(m, h);
  std::vector<std::string> names;
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = function_names(m->context, m->id, names)) return r;
  *count = (unsigned)names.size();
  return CUDA_SUCCESS;
}
API CUresult cuModuleEnumerateFunctions(CUfunction* out, unsigned n, CUmodule h) {
  MODULE(m, h);
  std::vector<std::string> names;
  if (!out || !n) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = function_names(m->context, m->id, names)) return r;
  for (size_t i = 0; i < names.size() && i < n; ++i)
    if (CUresult r = cuModuleGetFunction(&out[i], h, names[i].c_str())) return r;
  return CUDA_SUCCESS;
}
