// Launches of kernels.
#include <cstring>

#include "server/handlers.h"
#include "server/launch_config.h"
#include "server/pipeline.h"

namespace busbar::server {

// function, grid, block, shared bytes, number of attributes, parameter bytes, 0, attributes,
// parameters
Outcome handlers::launch(Pipeline& p, Record& r, StreamState& st) {
  Session& s = p.session;
  wire::Decoder in = r.decoder();
  CUfunction f = s.function_handle(in.get<uint32_t>());
  CUlaunchConfig config = read_launch_config(in);
  size_t bytes = in.get<uint32_t>();
  in.get<uint32_t>();
  CUlaunchAttribute attributes[kMaxLaunchAttributes];
  if (config.numAttrs > kMaxLaunchAttributes) return Outcome::malformed;
  size_t attribute_bytes = config.numAttrs * sizeof attributes[0];
  const uint8_t* from = in.raw(attribute_bytes);
  const uint8_t* parameters = in.raw(bytes);
  if (!in.ok() || !f) return Outcome::malformed;
  std::memcpy(attributes, from, attribute_bytes);
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void*)parameters, CU_LAUNCH_PARAM_BUFFER_SIZE,
                   &bytes, CU_LAUNCH_PARAM_END};
  config.hStream = st.handle;
  config.attrs = attributes;
  ++s.launches;
  p.fences.check(s.cu.cuLaunchKernelEx(&config, f, nullptr, extra), st);
  return Outcome::done;
}

}  // namespace busbar::server
