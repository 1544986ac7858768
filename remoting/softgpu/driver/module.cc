#include "softgpu/driver/module.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "checked_size.h"
#include "images/program_image.h"
#include "softgpu/device/arena.h"
#include "softgpu/driver/driver.h"
#include "softgpu/driver/handles.h"
#include "softgpu/driver/image.h"
#include "softgpu/driver/linked_ptx.h"

namespace softgpu {

constexpr uint64_t kPageBytes = 4096;

static void log_to(std::string* log, const std::string& text) {
  if (log) *log = text;
}

static const char* kNoPtx =
    "the image has no PTX, which the software GPU needs in place of machine code and LTO-IR (nvcc: "
    "-gencode arch=compute_75,code=compute_75; cuda.core: compile(\"ptx\"); numba: hide nvJitLink)";

static CUresult error_of(jit::Status s) {
  switch (s) {
    case jit::Status::ok: return CUDA_SUCCESS;
    case jit::Status::invalid_ptx: return CUDA_ERROR_INVALID_PTX;
    case jit::Status::not_supported: return CUDA_ERROR_NOT_SUPPORTED;
    case jit::Status::unknown_kernel: return CUDA_ERROR_NOT_FOUND;
    case jit::Status::limit_exceeded: return CUDA_ERROR_OUT_OF_MEMORY;
    default: return CUDA_ERROR_JIT_COMPILER_NOT_FOUND;
  }
}

// Place the module's variables behind each other. Return false if a name is repeated.
static bool lay_out_globals(ModuleState* m, const jit::ModuleDescription& d, CheckedSize* total,
                            uint64_t* alignment) {
  for (auto& g : d.globals) {
    uint64_t align = std::max<uint64_t>(g.align, 16);
    CheckedSize at = total->rounded_up(align);
    if (!m->globals.emplace(g.name, GlobalState{at.value(), g.bytes}).second) return false;
    *total = at + g.bytes;
    *alignment = std::max(*alignment, align);
  }
  return true;
}

// Allocate one block of device memory for the module's variables and initialise them.
static CUresult place_globals(ModuleState* m, const jit::ModuleDescription& d) {
  CheckedSize total = 0;
  uint64_t alignment = kPageBytes;  // of the block
  if (!lay_out_globals(m, d, &total, &alignment)) return CUDA_ERROR_INVALID_PTX;
  if (alignment > kPageBytes) total = total + alignment;
  total = total.rounded_up(kPageBytes);
  if (!total.valid()) return CUDA_ERROR_OUT_OF_MEMORY;
  if (total.value() == 0) return CUDA_SUCCESS;
  Engine* engine = device_at(m->ordinal)->engine;
  if (!engine->charge(total.value())) return CUDA_ERROR_OUT_OF_MEMORY;
  m->memory_bytes = total.value();
  m->memory = map_private(m->memory_bytes);
  if (!m->memory) return CUDA_ERROR_OUT_OF_MEMORY;
  uint64_t start = CheckedSize(m->memory).rounded_up(alignment).value();
  for (auto& [name, g] : m->globals) g.address += start;
  for (auto& g : d.globals) {
    uint64_t at = m->globals[g.name].address;
    std::memcpy((void*)at, g.initial.data(), std::min<size_t>(g.initial.size(), g.bytes));
    for (auto& r : g.references) {
      auto it = m->globals.find(r.symbol);
      CheckedSize offset = r.at;
      if (it == m->globals.end() || !(offset + 8).within(g.bytes)) return CUDA_ERROR_INVALID_PTX;
      // NOLINTNEXTLINE(custom-unchecked-sum): an addend may be negative
      uint64_t value = it->second.address + r.addend;
      std::memcpy((void*)(offset + at).value(), &value, 8);
    }
  }
  Driver* dr = driver();
  std::lock_guard lock(dr->mutex);
  dr->allocations[m->memory] = {Allocation::mapped, m->memory,    m->memory_bytes, 0, nullptr, 0,
                                m->ordinal,         dr->next_id++};
  return CUDA_SUCCESS;
}

static void add_kernel(ModuleState* m, const jit::KernelDescription& description) {
  auto kernel = std::make_unique<KernelState>();
  kernel->module = m;
  kernel->description = description;
  m->order.push_back(kernel.get());
  add_handle(kernel.get());
  m->kernels[description.name] = std::move(kernel);
}

CUresult load_module(const void* image, int ordinal, ModuleState*& out, std::string* log) {
  bool binary = false;
  std::string ptx = ptx_of_image(busbar::images::image_at(image), binary);
  if (ptx.empty()) {
    log_to(log, binary ? kNoPtx : "the image is not PTX, a fatbin or a cubin");
    return binary ? CUDA_ERROR_NO_BINARY_FOR_GPU : CUDA_ERROR_INVALID_IMAGE;
  }
  jit::ModuleDescription d;
  std::string text;
  if (auto s = driver()->compiler.describe(ptx, d, text); s != jit::Status::ok) {
    log_to(log, text);
    if (s == jit::Status::limit_exceeded || std::getenv("BUSBAR_SOFTGPU_VERBOSE"))
      std::fprintf(stderr, "software GPU: %s\n", text.c_str());
    return error_of(s);
  }
  auto m = std::make_unique<ModuleState>();
  m->ordinal = ordinal;
  m->max_registers = max_registers_of(ptx);
  m->ptx = std::move(ptx);
  for (auto& k : d.kernels) add_kernel(m.get(), k);
  CUresult r = place_globals(m.get(), d);
  if (r) {
    unload_module(m.release());
    return r;
  }
  add_handle(m.get());
  out = m.release();
  return CUDA_SUCCESS;
}

void unload_module(ModuleState* m) {
  for (auto& [name, k] : m->kernels) remove_handle(k.get());
  remove_handle(m);
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
  auto compiled = std::make_shared<CompiledKernel>();
  if (library) {
    compiled->run = (int (*)(Cta*))dlsym(library, "softgpu_kernel");
    compiled->frame_bytes = (uint64_t (*)(uint32_t))dlsym(library, "softgpu_frame_bytes");
  }
  if (!compiled->run || !compiled->frame_bytes) {
    const char* why = dlerror();
    log_to(log,
           std::string("the compiled kernel cannot be loaded: ") + (why ? why : "no entry point"));
    return CUDA_ERROR_INVALID_IMAGE;
  }
  compiled->static_shared_bytes = c.shared_bytes;
  compiled->local_bytes = c.local_bytes;
  compiled->constant_bytes = c.constant_bytes;
  compiled->registers = c.registers;
  for (auto& name : c.globals) {
    auto it = k->module->globals.find(name);
    if (it == k->module->globals.end()) {
      log_to(log, "variable " + name + " is not defined in the module");
      return CUDA_ERROR_NOT_FOUND;
    }
    compiled->globals.push_back(it->second.address);
  }
  k->compiled = std::move(compiled);
  return CUDA_SUCCESS;
}

KernelState* kernel_of(CUfunction f) {
  return f && is_live((KernelState*)f) ? (KernelState*)f : nullptr;
}

}  // namespace softgpu
