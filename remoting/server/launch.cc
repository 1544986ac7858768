// Launches of kernels.
#include "server/handlers.h"
#include "server/launch_config.h"
#include "server/pipeline.h"

namespace busbar::server {

// wire::LaunchFields, attributes, parameters
Outcome handlers::launch(Pipeline& p, Record& r, StreamState& st) {
  Session& s = p.session;
  wire::Decoder in = r.decoder();
  auto fields = in.get<wire::LaunchFields>();
  CUfunction f = s.function_handle(fields.function);
  CUlaunchConfig config = driver_config(fields.config);
  size_t bytes = fields.parameter_bytes;
  if (config.numAttrs > wire::kMaxLaunchAttributes) return Outcome::malformed;
  LaunchAttributes attributes;
  CUresult refused = attributes.read(in, config);
  const uint8_t* parameters = in.raw(bytes);
  if (!in.ok()) return Outcome::malformed;
  if (!f) refused = CUDA_ERROR_INVALID_HANDLE;  // also if its module was unloaded
  if (refused) {
    p.fences.check(refused, st);
    return Outcome::done;
  }
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void*)parameters, CU_LAUNCH_PARAM_BUFFER_SIZE,
                   &bytes, CU_LAUNCH_PARAM_END};
  config.hStream = st.handle;
  ++s.launches;
  p.fences.check(s.cu.cuLaunchKernelEx(&config, f, nullptr, extra), st);
  return Outcome::done;
}

}  // namespace busbar::server
