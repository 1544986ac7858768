// The handler of self_test in a build without BUSBAR_NVIDIA_RUNTIME: the node never answers it.
#include "server/handlers.h"
#include "server/reply.h"
#include "server/session.h"

namespace busbar::server {

void handlers::self_test(Session& s, wire::Decoder in) {
  s.reply(in.get<uint64_t>(), CUDA_ERROR_NOT_SUPPORTED);
}

}  // namespace busbar::server
