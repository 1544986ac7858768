// tex.1d and tex.2d: the driver knows the texture; all other forms are refused by name.
#include "softgpu/emit/emitter.h"

namespace softgpu::emit {

using ptx::Instruction;
using ptx::Operand;
using ptx::OperandKind;

bool FunctionEmitter::texture(const Instruction& ins, std::string& out) {
  if (ins.op != "tex") return false;
  bool flat = ins.has("1d"), known = false;
  ptx::Type coordinate;
  if (!ins.mods.empty()) coordinate = type_of(ins.mods.back(), known);
  if ((!flat && !ins.has("2d")) || !ins.has("v4") || !known || coordinate.bits != 32 ||
      ins.operands.size() != 2)
    refuse(ins);
  const Operand &to = ins.operands[0], &where = ins.operands[1];
  if (to.kind != OperandKind::vector || to.elements.size() != 4 ||
      where.kind != OperandKind::address || where.elements.size() != 2)
    refuse(ins);
  const Operand& at = where.elements[1];
  auto part = [&](size_t i) -> const Operand& {
    if (at.kind != OperandKind::vector) return at;
    if (i >= at.elements.size()) refuse(ins, "it needs more coordinates");
    return at.elements[i];
  };
  out += "{ double at[2] = {" + read(part(0), coordinate) + ", " +
         (flat ? "0" : read(part(1), coordinate)) + "}; u32 texel[4];\n";
  out += "c->host->texture(c, " + read(where.elements[0], {'u', 64}) + ", " + (flat ? "1" : "2") +
         ", at, texel);\n";
  for (size_t i = 0; i < 4; ++i)
    if (to.elements[i].kind != OperandKind::sink)
      out += write(to.elements[i], {'u', 32}, "texel[" + std::to_string(i) + "]");
  out += "}\n";
  return true;
}

}  // namespace softgpu::emit
