// CUDA entry points: the linker. Inputs are collected in the client and linked on the node.
#include <cstring>

#include "client/api/require.h"
#include "client/call.h"
#include "client/image.h"
#include "client/link_job.h"
#include "client/missing_code.h"
#include "wire/growing_encoder.h"

using namespace busbar;
using namespace busbar::client;

static constexpr size_t kMaxInputs = wire::kMaxListElements;
static constexpr size_t kMaxInputBytes = 2ull << 30;

API CUresult cuLinkCreate(unsigned n, CUjit_option* options, void** values, CUlinkState* out) {
  REQUIRE_CONTEXT(c);
  if (!out || !valid_jit_options(n, options, values)) return CUDA_ERROR_INVALID_VALUE;
  auto* j = new LinkJob;
  j->options = numeric_jit_options(n, options, values);
  j->logs = JitLogs(n, options, values);
  *out = (CUlinkState)session()->link_jobs.add(j);
  return CUDA_SUCCESS;
}

API CUresult cuLinkAddData(CUlinkState h, CUjitInputType type, void* data, size_t bytes,
                           const char*, unsigned, CUjit_option*, void**) {
  REQUIRE_LINK_JOB(j, h);
  if (!data || !bytes) return CUDA_ERROR_INVALID_VALUE;
  if (type == CU_JIT_INPUT_PTX) bytes = strnlen((const char*)data, bytes);
  if (!bytes || bytes > kMaxInputBytes) return CUDA_ERROR_INVALID_VALUE;
  std::string input((const char*)data, bytes);
  if (type == CU_JIT_INPUT_PTX && input.back() != '\0') input += '\0';
  j->inputs.emplace_back((int)type, std::move(input));
  return CUDA_SUCCESS;
}

API CUresult cuLinkComplete(CUlinkState h, void** image, size_t* bytes) {
  REQUIRE_LINK_JOB(j, h);
  Call call;
  if (CUresult r = call.begin(kNoStreamHandle)) return r;
  if (!image || j->inputs.empty() || j->inputs.size() > kMaxInputs) return CUDA_ERROR_INVALID_VALUE;
  wire::GrowingEncoder e(wire::Op::link, call.context_id());
  e.put(call.reply_id())
      .put((uint32_t)j->inputs.size())
      .put((uint32_t)j->options.size())
      .put(j->logs.sizes())
      .raw(j->options.data(), (uint32_t)(j->options.size() * sizeof j->options[0]));
  for (auto& [type, text] : j->inputs) {
    uint64_t transfer = call.link()->upload(text.data(), text.size());
    if (!transfer) return call.link()->error();
    e.put((uint32_t)type).put<uint32_t>(0).put((uint64_t)text.size()).put(transfer);
  }
  wire::Decoder d = call.send_and_wait(e.finish(), e.size());
  explain_missing_code(call.context()->device, call.status(), j->logs.read(d));
  if (call.status()) return call.status();
  uint64_t n = d.left();
  j->image.assign((const char*)d.raw(n), n);
  *image = j->image.data();
  if (bytes) *bytes = j->image.size();
  return CUDA_SUCCESS;
}

API CUresult cuLinkDestroy(CUlinkState h) {
  if (!has_session()) return CUDA_ERROR_DEINITIALIZED;
  LinkJob* j = session()->link_jobs.remove(h);
  if (!j) return CUDA_ERROR_INVALID_HANDLE;
  delete j;
  return CUDA_SUCCESS;
}
