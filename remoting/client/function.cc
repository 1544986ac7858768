// What is known about a function, and the linker.
#include <cstring>

#include "client/call.h"

using namespace busbar;
using namespace busbar::client;

#define FUNCTION(f, h) if (!session()) return CUDA_ERROR_NOT_INITIALIZED; CUresult why; Function* f = function_of(h, why); if (!f) return why

API CUresult cuFuncGetAttribute(int* value, CUfunction_attribute which, CUfunction h) {
  FUNCTION(f, h);
  if (!value || (int)which < 0 || (int)which >= 16) return CUDA_ERROR_INVALID_VALUE;
  *value = f->attributes[which];
  return (CUresult)f->attribute_status[which];
}
API CUresult cuKernelGetAttribute(int* value, CUfunction_attribute which, CUkernel k, CUdevice) { return cuFuncGetAttribute(value, which, (CUfunction)k); }
API CUresult cuKernelSetAttribute(CUfunction_attribute which, int value, CUkernel k, CUdevice) {
  CUresult r = cuFuncSetAttribute((CUfunction)k, which, value);
  CUresult why;
  if (Function* f = r ? nullptr : function_of((CUfunction)k, why)) if ((int)which < 16) f->attributes[which] = value;
  return r;
}

API CUresult cuFuncGetParamInfo(CUfunction h, size_t index, size_t* offset, size_t* bytes) {
  FUNCTION(f, h);
  if (!offset || index >= f->layout.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = f->layout[index].offset;
  if (bytes) *bytes = f->layout[index].bytes;
  return CUDA_SUCCESS;
}
API CUresult cuKernelGetParamInfo(CUkernel k, size_t index, size_t* offset, size_t* bytes) { return cuFuncGetParamInfo((CUfunction)k, index, offset, bytes); }

API CUresult cuFuncGetModule(CUmodule* out, CUfunction h) { FUNCTION(f, h); if (!out) return CUDA_ERROR_INVALID_VALUE; *out = (CUmodule)f->module->handle; return CUDA_SUCCESS; }
API CUresult cuFuncGetName(const char** name, CUfunction h) { FUNCTION(f, h); if (!name) return CUDA_ERROR_INVALID_VALUE; *name = f->name.c_str(); return CUDA_SUCCESS; }
API CUresult cuFuncLoad(CUfunction h) { FUNCTION(f, h); (void)f; return CUDA_SUCCESS; }                  // it was loaded with its handle
API CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction h) { FUNCTION(f, h); (void)f; if (!state) return CUDA_ERROR_INVALID_VALUE; *state = CU_FUNCTION_LOADING_STATE_LOADED; return CUDA_SUCCESS; }

// ---- linker: inputs are collected here and linked on the node ----
#define JOB(j, h) if (!session()) return CUDA_ERROR_NOT_INITIALIZED; LinkJob* j = session()->link_jobs.get(h); if (!j) return CUDA_ERROR_INVALID_HANDLE

API CUresult cuLinkCreate(unsigned n, CUjit_option* options, void** values, CUlinkState* out) {
  Context* c;
  if (CUresult r = require_context(c)) return r;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  auto* j = new LinkJob;
  for (unsigned i = 0; i < n && options && values; ++i) {
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER) j->log_buffer = (char*)values[i];
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) j->log_room = (size_t)values[i];
  }
  *out = (CUlinkState)session()->link_jobs.add(j);
  return CUDA_SUCCESS;
}

API CUresult cuLinkAddData(CUlinkState h, CUjitInputType type, void* data, size_t bytes, const char*, unsigned, CUjit_option*, void**) {
  JOB(j, h);
  if (!data || !bytes) return CUDA_ERROR_INVALID_VALUE;
  std::string input((const char*)data, bytes);
  if (type == CU_JIT_INPUT_PTX && input.back() != '\0') input += '\0';
  j->inputs.emplace_back((int)type, std::move(input));
  return CUDA_SUCCESS;
}

API CUresult cuLinkComplete(CUlinkState h, void** image, size_t* bytes) {
  JOB(j, h);
  Call call;
  if (CUresult r = call.begin(kNoStreamHandle)) return r;
  if (!image || j->inputs.empty() || j->inputs.size() > 256) return CUDA_ERROR_INVALID_VALUE;
  wire::Encoder<256 * 24 + 64> e(wire::Op::link, call.context_id());
  e.put(call.reply_id()).put((uint32_t)j->inputs.size());
  for (auto& [type, text] : j->inputs) {
    uint64_t transfer = call.link()->upload(text.data(), text.size());
    if (!transfer) return call.link()->error();
    e.put((uint32_t)type).put<uint32_t>(0).put((uint64_t)text.size()).put(transfer);
  }
  wire::Decoder d = call.answer(e.finish(), e.size());
  uint64_t n = d.left();
  std::string body((const char*)d.raw(n), n);
  if (call.status()) {
    if (j->log_buffer && j->log_room) { size_t k = std::min(j->log_room - 1, body.size()); std::memcpy(j->log_buffer, body.data(), k); j->log_buffer[k] = 0; }
    return call.status();
  }
  j->image = std::move(body);
  *image = j->image.data();
  if (bytes) *bytes = j->image.size();
  return CUDA_SUCCESS;
}

API CUresult cuLinkDestroy(CUlinkState h) { if (!session()) return CUDA_ERROR_DEINITIALIZED; LinkJob* j = session()->link_jobs.remove(h); if (!j) return CUDA_ERROR_INVALID_HANDLE; delete j; return CUDA_SUCCESS; }
