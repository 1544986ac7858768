#include "softgpu/emit/undefined_names.h"

#include "softgpu/emit/calls.h"

namespace softgpu::emit {
namespace {
using Names = std::set<std::string>;

// A launch gives external shared memory its size.
Names declared_only(const ptx::Module& module) {
  Names out;
  for (auto& v : module.variables)
    if (v.external && v.space != ptx::Space::shared) out.insert(v.name);
  for (auto& f : module.functions)
    if (!f.defined && !is_built_in(f.name)) out.insert(f.name);
  return out;
}

void add_used(const ptx::Operand& o, const Names& declared, Names& used) {
  if (declared.count(o.name)) used.insert(o.name);
  for (auto& e : o.elements) add_used(e, declared, used);
}

Names used_by(const ptx::Function& f, const Names& declared) {
  Names used;
  for (auto& ins : f.body)
    for (auto* list : {&ins.operands, &ins.call_returns, &ins.call_arguments})
      for (auto& o : *list) add_used(o, declared, used);
  std::erase_if(used, [&](auto& name) { return f.declares(name); });
  return used;
}

}  // namespace

Names undefined_names(const ptx::Module& module) {
  Names declared = declared_only(module), used;
  for (auto& v : module.variables)
    for (auto& r : v.references)
      if (declared.count(r.symbol)) used.insert(r.symbol);
  for (auto& f : module.functions) used.merge(used_by(f, declared));
  return used;
}

}  // namespace softgpu::emit
