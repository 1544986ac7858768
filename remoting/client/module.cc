#include "client/module.h"

#include <openssl/sha.h>

#include <algorithm>
#include <cstring>

#include "client/context.h"
#include "client/image.h"
#include "client/memory_request.h"
#include "client/missing_code.h"
#include "client/session.h"
#include "mutex.h"
#include "wire/growing_encoder.h"

namespace busbar::client {

namespace {
// Images up to this size are part of the load record.
constexpr uint32_t kInlineImageBytes = 48 << 10;

struct Modules {
  Mutex mutex;
  std::vector<Module*> loaded GUARDED_BY(mutex);
};
Modules& modules() {
  static auto* m = new Modules;
  return *m;
}

std::string usable_image(Context* c, const void* image) {
  auto& a = c->device->attributes;
  return image_bytes(image, a[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR],
                     a[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR]);
}

// Requests the load of an image, which is identified by its hash. The bytes of a large image are
// sent only with `send`. With `asks`, other sessions are asked for unused memory.
Reply request_load(Context* c, uint32_t module, uint32_t first_function, const std::string& bytes,
                   const JitOptions& options, const JitLogs& logs, bool send, bool asks) {
  Link* link = c->device->link;
  bool inlined = bytes.size() <= kInlineImageBytes;
  uint8_t hash[32];
  SHA256((const uint8_t*)bytes.data(), bytes.size(), hash);
  uint64_t transfer = send && !inlined ? link->upload(bytes.data(), bytes.size()) : 0;
  uint64_t id = link->next_id();
  if (send && !inlined && !transfer) return {(uint32_t)link->error(), ""};
  wire::Encoder<kInlineImageBytes + 256 + wire::kMaxJitOptions * sizeof(wire::JitOption)> e(
      wire::Op::load_module, c->id);
  e.put(id)
      .put(module)
      .put<uint32_t>(inlined)
      .put((uint64_t)bytes.size())
      .put(transfer)
      .put(first_function)
      .put<uint32_t>(asks)
      .put((uint64_t)options.size())
      .put(logs.sizes())
      .raw(hash, 32)
      .raw(options.data(), (uint32_t)(options.size() * sizeof options[0]));
  if (inlined) e.raw(bytes.data(), (uint32_t)bytes.size());
  return link->call(id, e.finish(), e.size());
}

// Creates a function from its description. Returns null if the description is malformed.
Function* read_function(Module* m, const std::string& name, uint32_t id, wire::Decoder d)
    REQUIRES(m->mutex) {
  auto f = std::make_unique<Function>();
  f->module = m;
  f->name = name;
  f->id = id;
  for (int i = 0; i < wire::kFunctionAttributes; ++i) {
    f->attributes[i] = d.get<int32_t>();
    f->attribute_status[i] = d.get<uint32_t>();
  }
  uint32_t count = d.get<uint32_t>();
  for (uint32_t i = 0; i < count && d.ok(); ++i) {
    Parameter p{d.get<uint32_t>(), d.get<uint32_t>()};
    f->parameter_bytes = std::max(f->parameter_bytes, p.offset + p.bytes);
    f->layout.push_back(p);
    f->has_unaligned |= p.bytes >= 8 && p.offset % 8;
  }
  if (!d.ok() || f->parameter_bytes > kMaxParameterBytes) return nullptr;
  f->handle = session()->functions.add(f.get());
  session()->functions_by_id.add(f->id, f.get());
  m->functions.emplace_back(name, f.get());
  return f.release();
}

// Reads the functions in the reply to a load.
void read_functions(Module* m, wire::Decoder d) REQUIRES(m->mutex) {
  while (d.ok() && d.left()) {
    uint32_t id = d.get<uint32_t>();
    std::string name(d.text());
    auto description = d.text(wire::kMaxFrameBytes);
    if (d.ok()) read_function(m, name, id, wire::Decoder(description.data(), description.size()));
  }
}
}  // namespace

CUresult load_module(Context* c, const void* image, const JitOptions& options, const JitLogs& logs,
                     Attempt attempt, Module*& out) {
  std::string bytes = usable_image(c, image);
  // Kernels that print call vprintf by name.
  if (bytes.find("vprintf") != std::string::npos) session()->prints = true;
  if (bytes.empty()) return CUDA_ERROR_INVALID_IMAGE;
  uint32_t id = session()->next_id++;
  uint32_t first = session()->next_function.fetch_add(wire::kFunctionsInLoadReply);
  Reply reply;
  request_memory(c->device, c, attempt, [&](bool asks) {
    reply = request_load(c, id, first, bytes, options, logs, false, asks);
    if (reply.status == wire::kImageRequired)
      reply = request_load(c, id, first, bytes, options, logs, true, asks);
    return (CUresult)reply.status;
  });
  wire::Decoder body(reply.body.data(), reply.body.size());
  explain_missing_code(c->device, (CUresult)reply.status, logs.read(body));
  if (reply.status) return (CUresult)reply.status;
  auto* m = new Module;
  m->context = c;
  m->context_generation = c->generation;
  m->id = id;
  m->handle = session()->modules.add(m);
  {
    MutexLock lock(m->mutex);
    read_functions(m, body);
  }
  {
    MutexLock lock(modules().mutex);
    modules().loaded.push_back(m);
  }
  out = m;
  return CUDA_SUCCESS;
}

namespace {
CUresult try_get_function(Module* m, const char* name, Attempt attempt, Function*& out) {
  MutexLock lock(m->mutex);
  for (auto& [known, f] : m->functions)
    if (known == name) {
      out = f;
      return CUDA_SUCCESS;
    }
  if (std::strlen(name) > wire::kMaxNameBytes) return CUDA_ERROR_NOT_FOUND;
  Link* link = m->context->device->link;
  uint32_t function = session()->next_function++;
  Reply reply;
  request_memory(m->context->device, m->context, attempt, [&](bool asks) {
    uint64_t id = link->next_id();
    wire::GrowingEncoder e(wire::Op::get_function, m->context->id);
    e.put(id).put(m->id).put(function).put<uint32_t>(asks).text(name);
    reply = link->call(id, e.finish(), e.size());
    return (CUresult)reply.status;
  });
  if (reply.status) return (CUresult)reply.status;
  out = read_function(m, name, function, wire::Decoder(reply.body.data(), reply.body.size()));
  return out ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}
}  // namespace

CUresult get_function(Module* m, const char* name, Function*& out) {
  return request_with_lock(
      m->context, [&](Attempt attempt) { return try_get_function(m, name, attempt, out); });
}

CUresult list_functions(Module* m, std::vector<std::string>& names) {
  Link* link = m->context->device->link;
  uint64_t id = link->next_id();
  wire::Encoder<> e(wire::Op::list_functions, m->context->id);
  e.put(id).put(m->id);
  Reply reply = link->call(id, e.finish(), e.size());
  if (reply.status) return (CUresult)reply.status;
  wire::Decoder d(reply.body.data(), reply.body.size());
  for (uint32_t n = d.get<uint32_t>(); n && d.ok(); --n) names.emplace_back(d.text());
  return d.ok() ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

std::vector<Module*> modules_of(Context* c) {
  MutexLock lock(modules().mutex);
  std::vector<Module*> list;
  for (Module* m : modules().loaded)
    if (m->context == c && m->context_generation == c->generation) list.push_back(m);
  return list;
}

void unload_module(Module* m) {
  {
    MutexLock lock(modules().mutex);
    std::erase(modules().loaded, m);
  }
  session()->modules.remove(m->handle);
  decltype(m->functions) functions;
  decltype(m->globals) globals;
  {
    MutexLock lock(m->mutex);
    functions.swap(m->functions);
    globals.swap(m->globals);
  }
  for (auto& [name, f] : functions) {
    session()->functions.remove(f->handle);
    session()->functions_by_id.remove(f->id);
  }
  for (uint64_t at : globals) session()->addresses.remove(at, Region::global);
  wire::Encoder<> e(wire::Op::unload_module, m->context->id);
  e.put(m->id);
  m->context->device->link->submit(e.finish(), e.size());
  for (auto& [name, f] : functions) delete f;
  delete m;
}

}  // namespace busbar::client
