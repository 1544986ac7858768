// Accesses of one block through the same register, at constant offsets: all of them happen, so one
// check of their whole range does for all.
#include <algorithm>

#include "softgpu/emit/emitter.h"

namespace softgpu::emit {

using ptx::Instruction;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Space;

namespace {

constexpr int64_t kMaxSpan = 4096;

struct Group {
  size_t first = 0;
  int bytes = 0;
  int64_t low = 0, high = 0;
  Space space = Space::none;
  std::vector<const Instruction*> members;
};

Space plain_space(const Instruction& ins) {
  if (ins.op != "ld" && ins.op != "st") return Space::none;
  for (auto& m : ins.mods) {
    if (m == "global") return Space::global;
    if (m == "shared" || m == "shared::cta") return Space::shared;
    if (m == "param" || m == "local" || m == "const") return Space::none;
  }
  return Space::global;  // generic: an address like any other
}

void collect(const Operand& o, std::set<std::string>& out) {
  if (!o.name.empty()) out.insert(o.name);
  for (auto& e : o.elements) collect(e, out);
}

std::set<std::string> written(const Instruction& ins) {
  std::set<std::string> out;
  if (ins.op != "st" && ins.op != "red" && !ins.operands.empty()) collect(ins.operands[0], out);
  for (auto& r : ins.call_returns) collect(r, out);
  return out;
}

int bytes_of(const Instruction& ins) {
  ptx::Type t = last_type(ins);
  return t.bytes() * (ins.has("v8") ? 8 : ins.has("v4") ? 4 : ins.has("v2") ? 2 : 1);
}

}  // namespace

void FunctionEmitter::group_accesses(const ptx::Block& block,
                                     std::map<size_t, std::string>& before) {
  std::map<std::string, Group> open;  // by base register
  auto close = [&](const std::string& base) {
    auto it = open.find(base);
    if (it == open.end()) return;
    Group& g = it->second;
    if (g.members.size() > 1) {
      std::string name = "g" + std::to_string(groups_++), low = hex((uint64_t)g.low, 64),
                  span = std::to_string(g.high - g.low + g.bytes), n = std::to_string(g.bytes);
      before[g.first] +=
          "u8* " + name + " = " +
          (g.space == Space::shared ? "shared_group(c, &k, (u32)" + reg(base) + " + (u32)" + low
                                    : "global_group(c, (u64)" + reg(base) + " + " + low) +
          ", " + span + ", " + n + ");\n";
      for (auto* ins : g.members)
        grouped_[ins] = "(" + name + " + " +
                        std::to_string(ins->operands[ins->op == "st" ? 0 : 1].offset - g.low) + ")";
    }
    open.erase(it);
  };
  for (size_t i = block.first; i < block.last; ++i) {
    const Instruction& ins = f_.body[i];
    Space space = plain_space(ins);
    const Operand* where = space != Space::none && ins.guard.empty() && ins.operands.size() == 2
                               ? &ins.operands[ins.op == "st" ? 0 : 1]
                               : nullptr;
    if (where && where->kind == OperandKind::address && where->elements.size() == 1 &&
        f_.registers.count(where->elements[0].name)) {
      const std::string& base = where->elements[0].name;
      int bytes = bytes_of(ins);
      auto it = open.find(base);
      if (it != open.end()) {
        Group& g = it->second;
        int64_t low = std::min(g.low, where->offset), high = std::max(g.high, where->offset);
        if (g.bytes != bytes || g.space != space || (where->offset - g.low) % bytes ||
            high - low > kMaxSpan)
          close(base);
        else {
          g.low = low;
          g.high = high;
          g.members.push_back(&ins);
        }
      }
      if (!open.count(base) && bytes <= 32 && where->offset > -kMaxSpan && where->offset < kMaxSpan)
        open[base] = {i, bytes, where->offset, where->offset, space, {&ins}};
    }
    if (ins.op == "call")
      while (!open.empty()) close(open.begin()->first);
    for (auto& r : written(ins)) close(r);
  }
  while (!open.empty()) close(open.begin()->first);
}

}  // namespace softgpu::emit
