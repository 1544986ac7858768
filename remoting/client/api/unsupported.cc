// Report of functions that the library does not implement. The generated refusals call it.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <set>
#include <string>

#include "client/session.h"
#include "export.h"

using namespace busbar;
using namespace busbar::client;

// Prints the name of a function once and reports it to the first node, whose launcher forwards it
// to the appliance. Returns `result`.
API int refuse_call(const char* name, int result) {
  static std::mutex mutex;
  static auto* reported = new std::set<std::string>;
  std::lock_guard lock(mutex);
  if (!reported->insert(name).second) return result;
  std::fprintf(stderr, "busbar: %s is not supported\n", name);
  if (has_session() && !session()->links.empty()) {
    wire::Encoder<> e(wire::Op::unsupported_call, 0);
    auto bytes = (uint32_t)std::min<size_t>(std::strlen(name), wire::kMaxCallNameBytes);
    e.put(bytes).raw(name, bytes);
    session()->links.front()->submit(e.finish(), e.size());
  }
  return result;
}
