#include "softgpu/emit/row_mode.h"

#include <algorithm>

#include "softgpu/emit/access.h"
#include "softgpu/emit/instructions.h"
#include "softgpu/emit/row_analysis.h"

namespace softgpu::emit {

using ptx::Instruction;
using ptx::Operand;

namespace {

class RowFunction {
 public:
  RowFunction(FunctionScope& scope, const RowAnalysis& row, Code& out)
      : scope_(scope), row_(row), out_(out) {}
  void emit();

 private:
  void emit_samples();
  void emit_sampled_values();
  void emit_checks();
  void emit_row();
  bool sampled(const Instruction& ins) const;

  FunctionScope& scope_;
  const RowAnalysis& row_;
  Code& out_;
};

bool ends_kernel(const Instruction& ins) {
  return ins.op == "ret" || ins.op == "exit";
}

void RowFunction::emit() {
  auto function = out_.block("ROW_FUNCTION");
  out_.add("u64 addresses[3][{}]", row_.accesses.size());
  out_.add("s128 compared[3][{}]", std::max<size_t>(row_.guards.size(), 1));
  out_.add("u32 exits = 0");
  out_.add("(void)compared");
  emit_samples();
  emit_checks();
  emit_row();
  out_.add("return 1");
}

// Evaluate addresses and compared values at the first, second and last thread.
void RowFunction::emit_samples() {
  auto loop = out_.block("for (u32 e = 0; e < 3; ++e)");
  out_.add("const u32 x = e == 0 ? first : e == 1 ? first + 1 : first + length - 1");
  out_.add("(void)x");
  scope_.declare_registers(out_);
  emit_sampled_values();
  for (size_t i = 0; i < row_.accesses.size(); ++i) {
    const Operand& where = row_.accesses[i].where();
    out_.add("addresses[e][{}] = (u64){} + {}", i, scope_.reg(where.elements[0].name),
             hex((uint64_t)where.offset, 64));
  }
  for (size_t g = 0; g < row_.guards.size(); ++g) {
    const Instruction& compare = *row_.ordered.at(row_.guards[g]->guard);
    bool first = row_.of(compare.operands[1]) == RowShape::affine;
    out_.add("exits |= {}", scope_.predicate(*row_.guards[g]));
    out_.add("compared[e][{}] = (s128){}", g,
             scope_.read(compare.operands[first ? 1 : 2], last_type(compare)));
  }
}

// Return whether the result is needed for addresses or guards and does not depend on a load.
bool RowFunction::sampled(const Instruction& ins) const {
  bool from_memory = ins.op == "ld" && state_space(ins) != ptx::Space::param;
  if (ins.op == "bra" || ins.op == "st" || from_memory) return false;
  const Operand& to = ins.operands[0];
  bool guard = row_.ordered.count(to.name) > 0;
  auto shape = row_.shapes.find(to.name);
  bool known = to.kind == ptx::OperandKind::reg && shape != row_.shapes.end() &&
               shape->second != RowShape::varying;
  bool loaded = std::any_of(ins.operands.begin() + 1, ins.operands.end(),
                            [&](auto& o) { return row_.of(o) == RowShape::varying; });
  return (known || guard) && !loaded;
}

void RowFunction::emit_sampled_values() {
  for (auto& ins : scope_.function.body) {
    if (ends_kernel(ins)) break;
    if (sampled(ins)) emit_instruction(scope_, ins, out_);
  }
}

void RowFunction::emit_checks() {
  out_.add("if (exits) return 0");
  for (size_t g = 0; g < row_.guards.size(); ++g)
    out_.add(
        "if (compared[2][{}] - compared[0][{}] != (compared[1][{}] - compared[0][{}]) "
        "* (length - 1)) return 0",
        g, g, g, g);
  for (size_t i = 0; i < row_.accesses.size(); ++i) {
    const RowAccess& access = row_.accesses[i];
    scope_.covered.emplace(access.ins, Access::row(out_, render("row{}", i), i, access.bytes));
  }
}

void RowFunction::emit_row() {
  out_.line("_Pragma(\"GCC ivdep\")");
  auto loop = out_.block("for (u32 l = 0; l < length; ++l)");
  out_.add("const u32 x = first + l");
  out_.add("(void)x");
  scope_.declare_registers(out_);
  for (auto& ins : scope_.function.body) {
    if (ends_kernel(ins)) break;
    if (ins.op != "bra") emit_instruction(scope_, ins, out_);
  }
  scope_.covered.clear();
}

}  // namespace

bool emit_row_function(FunctionScope& scope, Code& out) {
  if (scope.flow.cross_lane || !scope.function.entry) return false;
  auto row = analyse_row(scope.function);
  if (!row) return false;
  scope.mode = FunctionScope::Mode::serial;
  RowFunction(scope, *row, out).emit();
  return true;
}

}  // namespace softgpu::emit
