// cp.async.bulk, cp.reduce.async.bulk and their copies of tensors. A copy is done at once, so
// groups and waits need no code; a copy to shared memory then completes its bytes at the mbarrier.
#include <algorithm>
#include <map>

#include "softgpu/device/cta.h"
#include "softgpu/emit/access.h"
#include "softgpu/emit/geometry.h"
#include "softgpu/emit/instructions.h"

namespace softgpu::emit {

using ptx::Instruction;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Space;
using ptx::Type;

namespace {

constexpr int kChunkBytes = 16;

const std::map<std::string, int> kReductions = {
    {"add", TENSOR_ADD}, {"min", TENSOR_MIN}, {"max", TENSOR_MAX}, {"inc", TENSOR_INC},
    {"dec", TENSOR_DEC}, {"and", TENSOR_AND}, {"or", TENSOR_OR},   {"xor", TENSOR_XOR}};

// The state spaces of a copy, in the order of its modifiers.
struct Direction {
  bool loads = false;  // to shared memory
  bool reduces = false;
};

bool take_shared(const Instruction& ins, bool cluster) {
  return ins.take("shared::cta") || (cluster && ins.take("shared::cluster"));
}

Direction direction_of(const FunctionScope& scope, const Instruction& ins) {
  Direction d;
  d.reduces = ins.take("reduce");
  d.loads = ins.take("mbarrier::complete_tx::bytes");
  if (d.loads == ins.take("bulk_group")) scope.refuse();
  if (d.loads && d.reduces) scope.refuse("reductions in shared memory of clusters");
  bool both = ins.has("shared::cta") && ins.has("shared::cluster");
  if (both || !ins.take("global") || !take_shared(ins, d.loads)) scope.refuse();
  // The destination comes first.
  auto first = std::find_if(ins.mods.begin(), ins.mods.end(),
                            [](auto& m) { return m == "global" || m.rfind("shared::", 0) == 0; });
  if ((*first == "global") == d.loads) scope.refuse();
  return d;
}

// Append the completion of the bytes of variable `bytes`.
void emit_completion(const FunctionScope& scope, const Instruction& ins, const Operand& barrier,
                     Code& out) {
  Operand where = barrier;
  if (where.kind != OperandKind::address) {
    Operand base{OperandKind::reg, barrier.name, 0, 0, false, {}};
    where = {OperandKind::address, "", 0, barrier.offset, false, {base}};
  }
  Access::single(scope, ins, {where, Space::shared, 8, ""}).declare(out, "m");
  out.add("mbarrier_expect(m, -bytes)");
}

// Return the address in shared memory of an operand.
Expr shared_address(const FunctionScope& scope, const Operand& o) {
  if (o.kind != OperandKind::address) return scope.read(o, kU32);
  if (o.elements.size() != 1) scope.reject("it needs an address");
  const std::string& name = o.elements[0].name;
  std::string base = scope.is_register(name) ? scope.reg(name).text : scope.symbol_address(name);
  return expr(kU32, "(u32){} + (u32){}", base, hex((uint64_t)o.offset, 64));
}

// The operand [tensor map, coordinates].
void emit_box(const FunctionScope& scope, const Operand& tensor, int dimensions, bool gather4,
              Code& out) {
  if (tensor.kind != OperandKind::address || tensor.elements.size() != 2 || tensor.offset)
    scope.reject("it needs a tensor map and coordinates");
  const Operand& where = tensor.elements[1];
  size_t coordinates = gather4 ? 5 : (size_t)dimensions;
  if (where.kind != OperandKind::vector || where.elements.size() != coordinates)
    scope.reject("it has a wrong number of coordinates");
  const std::string& map = tensor.elements[0].name;
  const ptx::Variable* v = scope.is_register(map) ? nullptr : scope.variable(map);
  if (v && v->space != Space::global && v->space != Space::constant)
    scope.reject("its tensor map needs a generic address");
  if (!v) check_scalar(scope, tensor.elements[0], kU64);
  for (size_t i = 0; i < coordinates; ++i) {
    check_scalar(scope, where.elements[i], kS32);
    out.add("copy.where[{}] = {}", i, scope.read(where.elements[i], kS32));
  }
  out.add("copy.dimensions = {}", dimensions);
  if (gather4) out.add("copy.gather4 = 1");
}

int dimensions_of(const FunctionScope& scope, const Instruction& ins) {
  static const std::map<std::string, int> kDimensions = {
      {"1d", 1}, {"2d", 2}, {"3d", 3}, {"4d", 4}, {"5d", 5}};
  const std::string* word = ins.take_one_of(kDimensions);
  if (!word) scope.refuse();
  return kDimensions.at(*word);
}

int operation_of(const FunctionScope& scope, const Instruction& ins, const Direction& d) {
  if (!d.reduces) return d.loads ? TENSOR_LOAD : TENSOR_STORE;
  const std::string* word = ins.take_one_of(kReductions);
  if (!word) scope.refuse();
  return kReductions.at(*word);
}

void refuse_other_modes(const FunctionScope& scope, const Instruction& ins) {
  for (auto& m : ins.mods)
    if (m.rfind("im2col", 0) == 0 || m == "tile::scatter4" || m.rfind("multicast", 0) == 0)
      scope.refuse("modifier ." + m);
}

void emit_tensor_copy(const FunctionScope& scope, const Instruction& ins, Code& out) {
  refuse_other_modes(scope, ins);
  Direction d = direction_of(scope, ins);
  int dimensions = dimensions_of(scope, ins);
  bool gather4 = d.loads && ins.take("tile::gather4");
  if (!gather4) (void)ins.take("tile");
  if (ins.operands.size() != (d.loads ? 3u : 2u) + (ins.has("L2::cache_hint") ? 1 : 0))
    scope.reject("it has a wrong number of operands");
  if (gather4 && (dimensions != 2 || !ins.has("shared::cta")))
    scope.reject("it gathers rows of two dimensions in .shared::cta");
  auto block = out.block("");
  out.add("TensorCopy copy = {0}");
  out.add("copy.operation = {}", operation_of(scope, ins, d));
  emit_box(scope, ins.operands.at(d.loads ? 1 : 0), dimensions, gather4, out);
  out.add("copy.shared = {}", shared_address(scope, ins.operands.at(d.loads ? 0 : 1)));
  const Operand& map = ins.operands[d.loads ? 1 : 0].elements[0];
  out.add("u32 bytes = c->host->tensor(c, {}, &copy)", scope.read(map, kU64));
  if (d.loads)
    emit_completion(scope, ins, ins.operands.at(2), out);
  else
    out.add("(void)bytes");
}

void check_size(const FunctionScope& scope, const Operand& o) {
  if (o.kind == OperandKind::integer && o.bits % kChunkBytes)
    scope.reject("its size is no multiple of 16");
}

// Append the copy of a number of bytes that the kernel knows, in checked parts.
void emit_plain_copy(const FunctionScope& scope, const Instruction& ins, Code& out) {
  refuse_other_modes(scope, ins);
  Direction d = direction_of(scope, ins);
  Space to = d.loads ? Space::shared : Space::global,
        from = d.loads ? Space::global : Space::shared;
  check_size(scope, ins.operands.at(2));
  auto block = out.block("");
  out.add("u32 bytes = {}", scope.read(ins.operands[2], kU32));
  out.add("if (bytes & 15) c->host->fault(c, FAULT_MISALIGNED, bytes)");
  {
    auto loop = out.block("for (u32 i = 0; i < bytes; i += {})", kChunkBytes);
    out.add("copy_async({}, {}, {}, {})",
            Access::single(scope, ins, {ins.operands[0], to, kChunkBytes, "i"}),
            Access::single(scope, ins, {ins.operands[1], from, kChunkBytes, "i"}), kChunkBytes,
            kChunkBytes);
  }
  if (d.loads) emit_completion(scope, ins, ins.operands.at(3), out);
}

// Return the type in the C of an element of a reduction.
Type reduced_type(const FunctionScope& scope, const Instruction& ins,
                  const std::string& operation) {
  Type t = last_type(ins);
  bool bitwise = operation == "and" || operation == "or" || operation == "xor";
  bool counts = operation == "inc" || operation == "dec";
  bool order = operation == "min" || operation == "max";
  if (bitwise != (t.kind == 'b') || t.bits < 16 || t.bits > 64 || (counts && t != kU32) ||
      (order && t.is_float() && t.bits > 16) || (!t.is_float() && t.bits == 16) ||
      (operation == "add" && t == Type{'s', 64}))
    scope.refuse();
  if (t.bits == 16 && !order && !ins.take("noftz")) scope.reject("it needs .noftz");
  if (t.kind == 'b') t.kind = 'u';
  return t;
}

// cp.reduce.async.bulk.global.shared::cta.bulk_group.operation.type [to], [from], bytes
void emit_plain_reduction(const FunctionScope& scope, const Instruction& ins, Code& out) {
  (void)direction_of(scope, ins);
  const std::string* word = ins.take_one_of(kReductions);
  if (!word) scope.refuse();
  Type t = reduced_type(scope, ins, *word);
  check_size(scope, ins.operands.at(2));
  auto block = out.block("");
  out.add("u32 bytes = {}", scope.read(ins.operands[2], kU32));
  out.add("if (bytes & 15) c->host->fault(c, FAULT_MISALIGNED, bytes)");
  auto loop = out.block("for (u32 i = 0; i < bytes; i += {})", t.bytes());
  AddressText from = Access::single(scope, ins, {ins.operands[1], Space::shared, t.bytes(), "i"})
                         .declare(out, "from");
  Expr value = from.load({'u', t.bits}, 0, Ordering::none);
  std::string type = c_type(t);
  std::string typed =
      t.is_float() ? render("as_{}({})", type, value) : render("({}){}", type, value);
  out.add("(void)atomic_{}_{}({}, {})", *word, type,
          Access::single(scope, ins, {ins.operands[0], Space::global, t.bytes(), "i"}), typed);
}

// cp.async.bulk.prefetch: there are no caches.
void check_prefetch(const FunctionScope& scope, const Instruction& ins, Code& out) {
  refuse_other_modes(scope, ins);
  if (!ins.take("L2") || !ins.take("global")) scope.refuse();
  if (!ins.take("tensor")) return check_size(scope, ins.operands.at(1));
  int dimensions = dimensions_of(scope, ins);
  bool gather4 = ins.take("tile::gather4");
  if (!gather4) (void)ins.take("tile");
  auto block = out.block("");
  out.add("TensorCopy copy = {0}");
  emit_box(scope, ins.operands.at(0), dimensions, gather4, out);
  out.add("(void)copy");
}

}  // namespace

void emit_bulk_copy(FunctionScope& scope, const Instruction& ins, Code& out) {
  size_t first = ins.has("reduce") ? 1 : 0;
  if (ins.take_at(first) != "async" || ins.take_at(first + 1) != "bulk") scope.refuse();
  if (ins.take("commit_group")) return;
  if (ins.take("wait_group")) {
    (void)ins.take("read");
    return;
  }
  if (ins.take("prefetch")) return check_prefetch(scope, ins, out);
  if (ins.take("tensor")) return emit_tensor_copy(scope, ins, out);
  if (ins.has("reduce")) return emit_plain_reduction(scope, ins, out);
  emit_plain_copy(scope, ins, out);
}

}  // namespace softgpu::emit
