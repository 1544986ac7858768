// Other names of functions: `.alias a, b;` makes `a` a name of `b`.
#pragma once
#include <string>
#include <vector>

#include "softgpu/ptx/ir.h"

namespace softgpu::ptx {

struct Alias {
  std::string name, aliasee;
  int line;
};

// Let all uses of an alias name its aliasee, so that both have one address. Throw Refusal if an
// alias has a body, or its aliasee has none.
void resolve_aliases(Module& module, const std::vector<Alias>& aliases);

}  // namespace softgpu::ptx
