#include "softgpu/ptx/aliases.h"

#include <map>

namespace softgpu::ptx {
namespace {
using Aliasees = std::map<std::string, std::string>;  // by alias

Aliasees checked(const Module& module, const std::vector<Alias>& aliases) {
  Aliasees out;
  for (auto& a : aliases) {
    if (module.find(a.name)) throw Refusal{a.line, "alias " + a.name + " has a body"};
    if (!module.find(a.aliasee))
      throw Refusal{a.line, "function " + a.aliasee + " has an alias and no body"};
    auto [it, fresh] = out.emplace(a.name, a.aliasee);
    if (!fresh && it->second != a.aliasee)
      throw Refusal{a.line, "alias " + a.name + " has several functions"};
  }
  return out;
}

void resolve(const Function& f, Operand& o, const Aliasees& aliasees) {
  if (auto it = aliasees.find(o.name); it != aliasees.end() && !f.declares(o.name))
    o.name = it->second;
  for (auto& e : o.elements) resolve(f, e, aliasees);
}

}  // namespace

void resolve_aliases(Module& module, const std::vector<Alias>& aliases) {
  if (aliases.empty()) return;
  Aliasees aliasees = checked(module, aliases);
  for (auto& f : module.functions)
    for (auto& ins : f.body)
      for (auto* list : {&ins.operands, &ins.call_returns, &ins.call_arguments})
        for (auto& o : *list) resolve(f, o, aliasees);
  for (auto& v : module.variables)
    for (auto& r : v.references)
      if (auto it = aliasees.find(r.symbol); it != aliasees.end()) r.symbol = it->second;
}

}  // namespace softgpu::ptx
