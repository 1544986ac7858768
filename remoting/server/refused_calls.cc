// Calls of the program that the client library does not support. They are shown with the session.
#include <algorithm>
#include <cctype>

#include "server/handlers.h"
#include "server/pipeline.h"

namespace busbar::server {

// length, name
bool handlers::unsupported_call(Pipeline& p, const Record& r) {
  wire::Decoder in = r.decoder();
  uint32_t bytes = in.get<uint32_t>();
  const uint8_t* name = bytes && bytes <= wire::kMaxCallNameBytes ? in.raw(bytes) : nullptr;
  auto allowed = [](uint8_t c) {
    return std::isalnum(c) || c == '_';
  };
  if (!name || !std::all_of(name, name + bytes, allowed)) return false;
  p.session.account.add_refused_call(std::string((const char*)name, bytes));
  return true;
}

}  // namespace busbar::server
