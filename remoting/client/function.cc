// What is known about a function, and the linker.
#include <algorithm>
#include <cstring>

#include "client/call.h"

using namespace busbar;
using namespace busbar::client;

#define FUNCTION(f, h)                               \
  if (!session()) return CUDA_ERROR_NOT_INITIALIZED; \
  CUresult why;                                      \
  Function* f = function_of(h, why);                 \
  if (!f) return why

API CUresult cuFuncGetAttribute(int* value, CUfunction_attribute which, CUfunction h) {
  FUNCTION(f, h);
  if (!value || (int)which < 0 || (int)which >= 16) return CUDA_ERROR_INVALID_VALUE;
  *value = f->attributes[which];
  return (CUresult)f->attribute_status[which];
}
API CUresult cuKernelGetAttribute(int* value, CUfunction_attribute which, CUkernel k, CUdevice) {
  return cuFuncGetAttribute(value, which, (CUfunction)k);
}
API CUresult cuKernelSetAttribute(CUfunction_attribute which, int value, CUkernel k, CUdevice) {
  CUresult r = cuFuncSetAttribute((CUfunction)k, which, value);
  CUresult why;
  if (Function* f = r ? nullptr : function_of((CUfunction)k, why))
    if ((int)which < 16) f->attributes[which] = value;
  return r;
}

API CUresult cuFuncGetParamInfo(CUfunction h, size_t index, size_t* offset, size_t* bytes) {
  FUNCTION(f, h);
  if (!offset || index >= f->layout.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = f->layout[index].offset;
  if (bytes) *bytes = f->layout[index].bytes;
  return CUDA_SUCCESS;
}
API CUresult cuKernelGetParamInfo(CUkernel k, size_t index, size_t* offset, size_t* bytes) {
  return cuFuncGetParamInfo((CUfunction)k, index, offset, bytes);
}

API CUresult cuFuncGetModule(CUmodule* out, CUfunction h) {
  FUNCTION(f, h);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = (CUmodule)f->module->handle;
  return CUDA_SUCCESS;
}
API CUresult cuFuncGetName(const char** name, CUfunction h) {
  FUNCTION(f, h);
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  *name = f->name.c_str();
  return CUDA_SUCCESS;
}
API CUresult cuFuncLoad(CUfunction h) {
  FUNCTION(f, h);
  (void)f;
  return CUDA_SUCCESS;
}  // it was loaded with its handle
API CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction h) {
  FUNCTION(f, h);
  (void)f;
  if (!state) return CUDA_ERROR_INVALID_VALUE;
  *state = CU_FUNCTION_LOADING_STATE_LOADED;
  return CUDA_SUCCESS;
}

API CUresult cuFuncGetParamCount(CUfunction h, size_t* count) {
  FUNCTION(f, h);
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  *count = f->layout.size();
  return CUDA_SUCCESS;
}
API CUresult cuKernelGetParamCount(CUkernel k, size_t* count) {
  return cuFuncGetParamCount((CUfunction)k, count);
}
API CUresult cuKernelSetCacheConfig(CUkernel k, CUfunc_cache config, CUdevice) {
  return cuFuncSetCacheConfig((CUfunction)k, config);
}

// ---- occupancy ----
// The largest block that keeps a multiprocessor fullest. The program's own function may say how
// much shared memory a block of some size needs.
API CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, CUfunction h,
                                                       CUoccupancyB2DSize size_of, size_t dynamic,
                                                       int limit, unsigned flags) {
  FUNCTION(f, h);
  if (!grid || !block) return CUDA_ERROR_INVALID_VALUE;
  const Device* d = f->module->context->device;
  int most = f->attributes[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK];
  if (limit > 0) most = std::min(most, limit);
  int best = 32, best_threads = 0;
  for (int t = (most + 31) / 32 * 32; t >= 32; t -= 32) {
    int blocks = 0, threads = std::min(t, most);
    if (CUresult r = cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
            &blocks, h, threads, size_of ? size_of(threads) : dynamic, flags))
      return r;
    if (blocks * threads > best_threads) {
      best_threads = blocks * threads;
      best = threads;
      *grid = blocks * d->attributes[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT];
    }
  }
  *block = best;
  return CUDA_SUCCESS;
}
API CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction h,
                                              CUoccupancyB2DSize size_of, size_t dynamic,
                                              int limit) {
  return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, h, size_of, dynamic, limit, 0);
}

static CUresult ask_clusters(int* out, CUfunction h, const CUlaunchConfig* c, wire::Op op) {
  FUNCTION(f, h);
  if (!out || !c || c->numAttrs > 8 || (c->numAttrs && !c->attrs)) return CUDA_ERROR_INVALID_VALUE;
  Call call;
  if (CUresult r = call.begin(kNoStreamHandle)) return r;
  wire::Encoder<8 * sizeof(CUlaunchAttribute) + 128> e(op, call.context_id());
  e.put(call.reply_id())
      .put(f->id)
      .put(c->gridDimX)
      .put(c->gridDimY)
      .put(c->gridDimZ)
      .put(c->blockDimX)
      .put(c->blockDimY)
      .put(c->blockDimZ)
      .put(c->sharedMemBytes)
      .put((uint32_t)c->numAttrs);
  if (c->numAttrs) e.raw(c->attrs, (uint32_t)(c->numAttrs * sizeof(CUlaunchAttribute)));
  wire::Decoder answer = call.answer(e.finish(), e.size());
  if (!call.status()) *out = answer.get<int>();
  return call.status();
}
API CUresult cuOccupancyMaxActiveClusters(int* out, CUfunction h, const CUlaunchConfig* c) {
  return ask_clusters(out, h, c, wire::Op::active_clusters);
}
API CUresult cuOccupancyMaxPotentialClusterSize(int* out, CUfunction h, const CUlaunchConfig* c) {
  return ask_clusters(out, h, c, wire::Op::cluster_size);
}

// ---- linker: inputs are collected here and linked on the node ----
#define JOB(j, h)                                    \
  if (!session()) return CUDA_ERROR_NOT_INITIALIZED; \
  LinkJob* j = session()->link_jobs.get(h);          \
  if (!j) return CUDA_ERROR_INVALID_HANDLE

API CUresult cuLinkCreate(unsigned n, CUjit_option* options, void** values, CUlinkState* out) {
  Context* c;
  if (CUresult r = require_context(c)) return r;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  auto* j = new LinkJob;
  j->options = jit_options(n, options, values);
  for (unsigned i = 0; i < n && options && values; ++i) {
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER) j->log_buffer = (char*)values[i];
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) j->log_room = (size_t)values[i];
  }
  *out = (CUlinkState)session()->link_jobs.add(j);
  return CUDA_SUCCESS;
}

API CUresult cuLinkAddData(CUlinkState h, CUjitInputType type, void* data, size_t bytes,
                           const char*, unsigned, CUjit_option*, void**) {
  JOB(j, h);
  if (!data || !bytes) return CUDA_ERROR_INVALID_VALUE;
  std::string input((const char*)data, bytes);
  if (type == CU_JIT_INPUT_PTX && input.back() != '\0') input += '\0';
  j->inputs.emplace_back((int)type, std::move(input));
  return CUDA_SUCCESS;
}

API CUresult cuLinkAddFile(CUlinkState h, CUjitInputType type, const char* path, unsigned n,
                           CUjit_option* options, void** values) {
  std::string bytes;
  if (!path || !read_file(path, bytes))
    return path ? CUDA_ERROR_FILE_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
  return cuLinkAddData(h, type, bytes.data(), bytes.size(), path, n, options, values);
}

API CUresult cuLinkComplete(CUlinkState h, void** image, size_t* bytes) {
  JOB(j, h);
  Call call;
  if (CUresult r = call.begin(kNoStreamHandle)) return r;
  if (!image || j->inputs.empty() || j->inputs.size() > 256) return CUDA_ERROR_INVALID_VALUE;
  wire::Encoder<256 * 24 + 64 + wire::kMaxJitOptions * sizeof(wire::JitOption)> e(
      wire::Op::link, call.context_id());
  e.put(call.reply_id())
      .put((uint32_t)j->inputs.size())
      .put((uint32_t)j->options.size())
      .raw(j->options.data(), (uint32_t)(j->options.size() * sizeof j->options[0]));
  for (auto& [type, text] : j->inputs) {
    uint64_t transfer = call.link()->upload(text.data(), text.size());
    if (!transfer) return call.link()->error();
    e.put((uint32_t)type).put<uint32_t>(0).put((uint64_t)text.size()).put(transfer);
  }
  wire::Decoder d = call.answer(e.finish(), e.size());
  uint64_t n = d.left();
  std::string body((const char*)d.raw(n), n);
  if (call.status()) {
    if (j->log_buffer && j->log_room) {
      size_t k = std::min(j->log_room - 1, body.size());
      std::memcpy(j->log_buffer, body.data(), k);
      j->log_buffer[k] = 0;
    }
    return call.status();
  }
  j->image = std::move(body);
  *image = j->image.data();
  if (bytes) *bytes = j->image.size();
  return CUDA_SUCCESS;
}

API CUresult cuLinkDestroy(CUlinkState h) {
  if (!session()) return CUDA_ERROR_DEINITIALIZED;
  LinkJob* j = session()->link_jobs.remove(h);
  if (!j) return CUDA_ERROR_INVALID_HANDLE;
  delete j;
  return CUDA_SUCCESS;
}
