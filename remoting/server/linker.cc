// Links images of the program.
#include "server/code_image.h"
#include "server/handlers.h"
#include "server/jit_options.h"
#include "server/module_image.h"
#include "server/session.h"
#include "wire/enumeration.h"

namespace busbar::server {

namespace {
constexpr uint32_t kInputBytes = 24;  // of an input in the record

// Receives `count` inputs and adds them to the link. The images must outlive it.
CUresult add_inputs(Session& s, wire::Decoder& in, uint32_t count, CUlinkState state,
                    std::vector<std::string>& images) {
  for (uint32_t i = 0; i < count; ++i) {
    auto type = wire::take<CUjitInputType>(in);
    in.get<uint32_t>();
    uint64_t bytes = in.get<uint64_t>(), transfer = in.get<uint64_t>();
    if (!in.ok() || bytes > wire::kMaxImageBytes || !s.bulk.wait(transfer, bytes, kUploadTimeoutMs))
      return CUDA_ERROR_INVALID_VALUE;
    std::string received = join_transfer(s, transfer);
    s.credit(received.size());
    std::string& image = images.emplace_back();
    if (CUresult r = pack_link_input(type, received, image)) return r;
    if (CUresult r = s.cu.cuLinkAddData(state, type, image.data(), image.size(), "input", 0,
                                        nullptr, nullptr))
      return r;
  }
  return CUDA_SUCCESS;
}
}  // namespace

// number of inputs, number of options, bytes of the error log and of the information log, options;
// then type, 0, bytes, transfer of each input
// -> error log, information log, the linked image
void handlers::link(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  uint32_t count = in.get<uint32_t>();
  uint32_t option_count = in.get<uint32_t>();
  JitLogs logs;
  bool has_logs = logs.read_sizes(in);
  JitOptions options;
  if (!has_logs || !options.read(in, option_count) || count == 0 || count > in.left() / kInputBytes)
    return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  options.log_to(logs);
  CUlinkState state;
  if (CUresult r = s.cu.cuLinkCreate(options.count(), options.names(), options.values(), &state))
    return s.reply(reply, r);
  std::vector<std::string> images;
  images.reserve(count);
  CUresult r = add_inputs(s, in, count, state, images);
  void* image = nullptr;
  size_t bytes = 0;
  if (!r) r = s.cu.cuLinkComplete(state, &image, &bytes);
  std::string body = logs.encode();
  if (!r && bytes > wire::kMaxFrameBytes - 64 - body.size()) r = CUDA_ERROR_OUT_OF_MEMORY;
  if (!r) body.append((const char*)image, bytes);
  s.reply(reply, r, body);
  s.cu.cuLinkDestroy(state);
}

}  // namespace busbar::server
