// tex.1d and tex.2d: the driver reads the texture; all other forms are refused by name.
#include "softgpu/emit/instructions.h"

namespace softgpu::emit {

using ptx::Instruction;
using ptx::Operand;
using ptx::OperandKind;

void emit_texture(FunctionScope& scope, const Instruction& ins, Code& out) {
  bool one_dimension = ins.take("1d");
  std::optional<ptx::Type> type;
  if (!ins.mods.empty()) type = type_of(ins.take_at(ins.mods.size() - 1));
  if (first_type(ins).bits != 32 || (!one_dimension && !ins.take("2d")) || !ins.take("v4") ||
      !type || type->bits != 32 || ins.operands.size() != 2)
    scope.refuse();
  const Operand &to = ins.operands[0], &where = ins.operands[1];
  if (to.kind != OperandKind::vector || to.elements.size() != 4 ||
      where.kind != OperandKind::address || where.elements.size() != 2)
    scope.refuse();
  const Operand& at = where.elements[1];
  auto coordinate = [&](size_t i) {
    if (at.kind != OperandKind::vector) return scope.read(at, *type);
    if (i >= at.elements.size()) scope.reject("it needs more coordinates");
    return scope.read(at.elements[i], *type);
  };
  auto block = out.block("");
  out.add("double at[2] = {{}, {}}", coordinate(0), one_dimension ? "0" : coordinate(1).text);
  out.add("u32 texel[4]");
  out.add("c->host->texture(c, {}, {}, at, texel)", scope.read(where.elements[0], kU64),
          one_dimension ? 1 : 2);
  for (size_t i = 0; i < 4; ++i)
    if (to.elements[i].kind != OperandKind::sink)
      scope.assign(out, to.elements[i], expr(kU32, "texel[{}]", i));
}

}  // namespace softgpu::emit
