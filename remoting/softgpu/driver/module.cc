// Code images, modules, libraries, kernels and the linker that hands PTX through.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "softgpu/driver/state.h"

namespace softgpu {

// The linker hands PTX through; what it was told of registers travels as its first line.
static const std::string kMaxRegisters = "// softgpu max registers ";

static void log_to(std::string* log, const std::string& text) {
  if (log) *log = text;
}

static CUresult error_of(jit::Status s) {
  switch (s) {
    case jit::Status::ok: return CUDA_SUCCESS;
    case jit::Status::invalid_ptx: return CUDA_ERROR_INVALID_PTX;
    case jit::Status::not_supported: return CUDA_ERROR_NOT_SUPPORTED;
    case jit::Status::unknown_kernel: return CUDA_ERROR_NOT_FOUND;
    default: return CUDA_ERROR_JIT_COMPILER_NOT_FOUND;
  }
}

// Places the module's variables in one block of device memory and fills them.
static CUresult place_globals(ModuleState* m, const jit::ModuleDescription& d) {
  uint64_t total = 0;
  for (auto& g : d.globals) {
    uint64_t align = std::max<uint64_t>(g.align, 16);
    total = (total + align - 1) / align * align;
    m->globals[g.name] = {total, g.bytes};
    total += g.bytes;
  }
  if (!total) return CUDA_SUCCESS;
  m->memory_bytes = (total + 4095) & ~4095ull;
  Engine* engine = device_at(m->ordinal)->engine;
  if (!engine->charge(m->memory_bytes)) {
    m->memory_bytes = 0;
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  m->memory = map_private(m->memory_bytes);
  for (auto& [name, g] : m->globals) g.address += m->memory;
  for (auto& g : d.globals) {
    uint64_t at = m->globals[g.name].address;
    std::memcpy((void*)at, g.initial.data(), std::min<size_t>(g.initial.size(), g.bytes));
    for (auto& r : g.references) {
      auto it = m->globals.find(r.symbol);
      if (it == m->globals.end() || r.at + 8 > g.bytes) return CUDA_ERROR_INVALID_PTX;
      uint64_t value = it->second.address + r.addend;
      std::memcpy((void*)(at + r.at), &value, 8);
    }
  }
  Driver* dr = driver();
  std::lock_guard lock(dr->mutex);
  dr->allocations[m->memory] = {Allocation::mapped, m->memory,    m->memory_bytes, 0, nullptr, 0,
                                m->ordinal,         dr->next_id++};
  return CUDA_SUCCESS;
}

CUresult load_module(const void* image, int ordinal, ModuleState*& out, std::string* log) {
  bool binary = false;
  std::string ptx = ptx_of_image(image, binary);
  if (ptx.empty()) {
    log_to(
        log,
        binary
            ? "the image has machine code only; a software GPU needs PTX (numba: hide nvJitLink; nvcc: -gencode arch=compute_75,code=compute_75)"
            : "not a PTX, fatbin or cubin image");
    return binary ? CUDA_ERROR_NO_BINARY_FOR_GPU : CUDA_ERROR_INVALID_IMAGE;
  }
  jit::ModuleDescription d;
  std::string text;
  if (auto s = driver()->compiler.describe(ptx, d, text); s != jit::Status::ok) {
    log_to(log, text);
    if (std::getenv("BUSBAR_SOFTGPU_VERBOSE"))
      std::fprintf(stderr, "software GPU: %s\n", text.c_str());
    return error_of(s);
  }
  auto m = std::make_unique<ModuleState>();
  m->ordinal = ordinal;
  if (ptx.rfind(kMaxRegisters, 0) == 0)
    m->max_registers = std::clamp(std::atoi(ptx.c_str() + kMaxRegisters.size()), 8, 255);
  m->ptx = std::move(ptx);
  for (auto& k : d.kernels) {
    auto kernel = std::make_unique<KernelState>();
    kernel->module = m.get();
    kernel->description = k;
    m->order.push_back(kernel.get());
    remember(kernel.get());
    m->kernels[k.name] = std::move(kernel);
  }
  CUresult r = place_globals(m.get(), d);
  if (r) {
    unload_module(m.release());
    return r;
  }
  remember(m.get());
  out = m.release();
  return CUDA_SUCCESS;
}

void unload_module(ModuleState* m) {
  for (auto& [name, k] : m->kernels) forget(k.get());
  forget(m);
  if (m->memory) {
    {
      std::lock_guard lock(driver()->mutex);
      driver()->allocations.erase(m->memory);
    }
    unmap_private(m->memory, m->memory_bytes);
  }
  if (m->memory_bytes) device_at(m->ordinal)->engine->refund(m->memory_bytes);
  delete m;
}

CUresult compile_kernel(KernelState* k, std::string* log) {
  std::lock_guard lock(k->mutex);
  if (k->compiled) return CUDA_SUCCESS;
  jit::Compiled c;
  std::string text;
  if (auto s = driver()->compiler.compile(k->module->ptx, k->description.name, c, text);
      s != jit::Status::ok) {
    log_to(log, text);
    std::fprintf(stderr, "software GPU: kernel %s: %s\n", k->description.name.c_str(),
                 text.c_str());
    return error_of(s);
  }
  void* library = dlopen(c.library.c_str(), RTLD_NOW | RTLD_LOCAL);
  auto compiled = std::make_unique<CompiledKernel>();
  if (library) {
    compiled->run = (int (*)(Cta*))dlsym(library, "softgpu_kernel");
    compiled->frame_bytes = (uint64_t (*)(uint32_t))dlsym(library, "softgpu_frame_bytes");
  }
  if (!compiled->run || !compiled->frame_bytes) {
    const char* why = dlerror();
    log_to(log,
           std::string("the compiled kernel cannot be loaded: ") + (why ? why : "it has no entry"));
    return CUDA_ERROR_INVALID_IMAGE;
  }
  compiled->static_shared_bytes = c.shared_bytes;
  compiled->local_bytes = c.local_bytes;
  compiled->constant_bytes = c.constant_bytes;
  compiled->registers = c.registers;
  for (auto& name : c.globals) {
    auto it = k->module->globals.find(name);
    if (it == k->module->globals.end()) {
      log_to(log, "unresolved variable " + name);
      return CUDA_ERROR_NOT_FOUND;
    }
    compiled->globals.push_back(it->second.address);
  }
  k->compiled = std::move(compiled);
  return CUDA_SUCCESS;
}

// A CUfunction and a CUkernel are the same object here.
KernelState* kernel_of(CUfunction f) {
  return f && known((KernelState*)f) ? (KernelState*)f : nullptr;
}

}  // namespace softgpu

using namespace softgpu;

#define CURRENT(c) \
  Context* c;      \
  if (CUresult r = current_context(c)) return r

static bool wants_log(unsigned n, const CUjit_option* options) {
  return options && std::count(options, options + n, CU_JIT_ERROR_LOG_BUFFER);
}

static void write_log(unsigned n, const CUjit_option* options, void** values,
                      const std::string& log) {
  char* buffer = nullptr;
  size_t room = 0;
  for (unsigned i = 0; i < n && options && values; ++i) {
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER) buffer = (char*)values[i];
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) room = (size_t)values[i];
  }
  if (buffer && room) {
    size_t k = std::min(room - 1, log.size());
    std::memcpy(buffer, log.data(), k);
    buffer[k] = 0;
  }
}

API CUresult cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned n, CUjit_option* options,
                                void** values) {
  CURRENT(c);
  if (!out || !image) return CUDA_ERROR_INVALID_VALUE;
  ModuleState* m = nullptr;
  std::string log;
  CUresult r = load_module(image, c->device->ordinal, m, &log);
  if (!r && wants_log(n, options)) log = driver()->compiler.examine(m->ptx);
  if (!log.empty()) write_log(n, options, values, log);
  if (r) return r;
  *out = (CUmodule)m;
  return CUDA_SUCCESS;
}
API CUresult cuModuleLoadData(CUmodule* out, const void* image) {
  return cuModuleLoadDataEx(out, image, 0, nullptr, nullptr);
}
API CUresult cuModuleLoadFatBinary(CUmodule* out, const void* image) {
  return cuModuleLoadDataEx(out, image, 0, nullptr, nullptr);
}

API CUresult cuModuleLoad(CUmodule* out, const char* path) {
  if (!path) return CUDA_ERROR_INVALID_VALUE;
  FILE* f = std::fopen(path, "rb");
  if (!f) return CUDA_ERROR_FILE_NOT_FOUND;
  std::string bytes;
  char buffer[65536];
  size_t n;
  while ((n = std::fread(buffer, 1, sizeof buffer, f)) > 0) bytes.append(buffer, n);
  std::fclose(f);
  return cuModuleLoadData(out, bytes.c_str());
}

API CUresult cuModuleUnload(CUmodule h) {
  CURRENT(c);
  if (!h || !known((ModuleState*)h)) return CUDA_ERROR_INVALID_HANDLE;
  if (CUresult r = wait_for_context(c)) return r;
  unload_module((ModuleState*)h);
  return CUDA_SUCCESS;
}

API CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  if (!mode) return CUDA_ERROR_INVALID_VALUE;
  *mode = CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

static CUresult find_kernel(void* module, const char* name, void** out) {
  if (!driver()) return CUDA_ERROR_NOT_INITIALIZED;
  if (!out || !name || !*name) return CUDA_ERROR_INVALID_VALUE;
  auto* m = (ModuleState*)module;
  if (!m || !known(m)) return CUDA_ERROR_INVALID_HANDLE;
  auto it = m->kernels.find(name);
  if (it == m->kernels.end()) return CUDA_ERROR_NOT_FOUND;
  *out = it->second.get();
  return CUDA_SUCCESS;
}

static CUresult find_global(void* module, const char* name, CUdeviceptr* p, size_t* bytes) {
  if (!driver()) return CUDA_ERROR_NOT_INITIALIZED;
  auto* m = (ModuleState*)module;
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  if (!m || !known(m)) return CUDA_ERROR_INVALID_HANDLE;
  auto it = m->globals.find(name);
  if (it == m->globals.end()) return CUDA_ERROR_NOT_FOUND;
  if (p) *p = it->second.address;
  if (bytes) *bytes = it->second.bytes;
  return CUDA_SUCCESS;
}

API CUresult cuModuleGetFunction(CUfunction* out, CUmodule m, const char* name) {
  return find_kernel(m, name, (void**)out);
}
API CUresult cuModuleGetGlobal(CUdeviceptr* p, size_t* bytes, CUmodule m, const char* name) {
  return find_global(m, name, p, bytes);
}
API CUresult cuModuleGetFunctionCount(unsigned* n, CUmodule m) {
  if (!n || !known((ModuleState*)m)) return CUDA_ERROR_INVALID_HANDLE;
  *n = (unsigned)((ModuleState*)m)->order.size();
  return CUDA_SUCCESS;
}
API CUresult cuModuleEnumerateFunctions(CUfunction* out, unsigned n, CUmodule m) {
  if (!out || !known((ModuleState*)m)) return CUDA_ERROR_INVALID_HANDLE;
  auto& o = ((ModuleState*)m)->order;
  for (unsigned i = 0; i < n && i < o.size(); ++i) out[i] = (CUfunction)o[i];
  return CUDA_SUCCESS;
}

// A library is a module of the device that is current, or of device 0.
API CUresult cuLibraryLoadData(CUlibrary* out, const void* code, CUjit_option* options,
                               void** values, unsigned n, CUlibraryOption*, void**, unsigned) {
  if (!driver()) return CUDA_ERROR_NOT_INITIALIZED;
  if (!out || !code) return CUDA_ERROR_INVALID_VALUE;
  ModuleState* m = nullptr;
  std::string log;
  Context* c = current();
  CUresult r = load_module(code, c ? c->device->ordinal : 0, m, &log);
  if (!r && wants_log(n, options)) log = driver()->compiler.examine(m->ptx);
  if (!log.empty()) write_log(n, options, values, log);
  if (r) return r;
  *out = (CUlibrary)m;
  return CUDA_SUCCESS;
}
API CUresult cuLibraryUnload(CUlibrary h) {
  if (!driver()) return CUDA_ERROR_NOT_INITIALIZED;
  if (!h || !known((ModuleState*)h)) return CUDA_ERROR_INVALID_HANDLE;
  if (Context* c = current()) wait_for_context(c);
  unload_module((ModuleState*)h);
  return CUDA_SUCCESS;
}
API CUresult cuLibraryGetKernel(CUkernel* out, CUlibrary l, const char* name) {
  return find_kernel(l, name, (void**)out);
}
API CUresult cuLibraryGetGlobal(CUdeviceptr* p, size_t* bytes, CUlibrary l, const char* name) {
  return find_global(l, name, p, bytes);
}
API CUresult cuLibraryGetModule(CUmodule* out, CUlibrary l) {
  if (!out || !known((ModuleState*)l)) return CUDA_ERROR_INVALID_HANDLE;
  *out = (CUmodule)l;
  return CUDA_SUCCESS;
}
API CUresult cuLibraryGetKernelCount(unsigned* n, CUlibrary l) {
  return cuModuleGetFunctionCount(n, (CUmodule)l);
}
API CUresult cuLibraryEnumerateKernels(CUkernel* out, unsigned n, CUlibrary l) {
  return cuModuleEnumerateFunctions((CUfunction*)out, n, (CUmodule)l);
}
API CUresult cuKernelGetFunction(CUfunction* out, CUkernel k) {
  if (!out || !kernel_of((CUfunction)k)) return CUDA_ERROR_INVALID_HANDLE;
  *out = (CUfunction)k;
  return CUDA_SUCCESS;
}
API CUresult cuKernelGetLibrary(CUlibrary* out, CUkernel k) {
  KernelState* s = kernel_of((CUfunction)k);
  if (!out || !s) return CUDA_ERROR_INVALID_HANDLE;
  *out = (CUlibrary)s->module;
  return CUDA_SUCCESS;
}
API CUresult cuFuncGetModule(CUmodule* out, CUfunction f) {
  KernelState* s = kernel_of(f);
  if (!out || !s) return CUDA_ERROR_INVALID_HANDLE;
  *out = (CUmodule)s->module;
  return CUDA_SUCCESS;
}

// ---- linker: one PTX input is its own output ----
namespace {
struct Link {
  std::vector<std::string> inputs;
  std::string joined;
  int max_registers = 0;
};
}  // namespace

API CUresult cuLinkCreate(unsigned n, CUjit_option* options, void** values, CUlinkState* out) {
  if (!driver()) return CUDA_ERROR_NOT_INITIALIZED;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  auto* l = new Link;
  for (unsigned i = 0; i < n && options && values; ++i)
    if (options[i] == CU_JIT_MAX_REGISTERS) l->max_registers = (int)(uintptr_t)values[i];
  remember(l);
  *out = (CUlinkState)l;
  return CUDA_SUCCESS;
}

API CUresult cuLinkAddData(CUlinkState h, CUjitInputType type, void* data, size_t bytes,
                           const char*, unsigned, CUjit_option*, void**) {
  auto* l = (Link*)h;
  if (!l || !known(l) || !data) return CUDA_ERROR_INVALID_HANDLE;
  std::string text;
  if (type == CU_JIT_INPUT_PTX)
    text.assign((const char*)data, strnlen((const char*)data, bytes));
  else if (bytes >= 8 && !std::memcmp(data, "!<arch>\n", 8))
    return CUDA_SUCCESS;  // machine code of the device runtime: what it gives is built in
  else {
    bool binary;
    text = ptx_of_image(data, binary);
  }
  if (text.empty()) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  l->inputs.push_back(std::move(text));
  return CUDA_SUCCESS;
}

// Later inputs follow the first without their header lines.
static std::string join(const std::vector<std::string>& inputs) {
  std::string out;
  for (auto& text : inputs) {
    size_t from = 0;
    if (!out.empty())
      if (size_t at = text.find(".address_size"); at != std::string::npos)
        from = text.find('\n', at);
    out += text.substr(std::min(from, text.size())) + "\n";
  }
  return out;
}

API CUresult cuLinkComplete(CUlinkState h, void** image, size_t* bytes) {
  auto* l = (Link*)h;
  if (!l || !known(l) || !image) return CUDA_ERROR_INVALID_HANDLE;
  if (l->inputs.empty()) return CUDA_ERROR_INVALID_VALUE;
  l->joined = join(l->inputs);
  if (l->max_registers > 0)
    l->joined = kMaxRegisters + std::to_string(l->max_registers) + "\n" + l->joined;
  *image = l->joined.data();
  if (bytes) *bytes = l->joined.size() + 1;
  return CUDA_SUCCESS;
}
API CUresult cuLinkDestroy(CUlinkState h) {
  if (!h || !forget((Link*)h)) return CUDA_ERROR_INVALID_HANDLE;
  delete (Link*)h;
  return CUDA_SUCCESS;
}
