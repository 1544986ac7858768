// tensormap.replace and tensormap.cp_fenceproxy: a kernel changes or copies a tensor map.
#include "softgpu/device/tensor_map.h"

#include <map>

#include "softgpu/emit/access.h"
#include "softgpu/emit/geometry.h"
#include "softgpu/emit/instructions.h"

namespace softgpu::emit {

using ptx::Instruction;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Space;

namespace {

constexpr int kChunkBytes = 16;

// A field, or an array of fields.
struct Field {
  size_t offset;
  int bytes;
  uint64_t count = 0;      // elements of an array; 0: no array
  uint64_t constants = 0;  // the value is a constant below this number; 0: it may be a register
};

const std::map<std::string, Field> kFields = {
    {"global_address", {offsetof(TensorMap, address), 8}},
    {"rank", {offsetof(TensorMap, rank), 4}},
    {"box_dim", {offsetof(TensorMap, box), 4, kMaxTensorRank}},
    {"global_dim", {offsetof(TensorMap, size), 4, kMaxTensorRank}},
    {"global_stride", {offsetof(TensorMap, stride), 8, kMaxTensorRank - 1}},
    {"element_stride", {offsetof(TensorMap, step), 4, kMaxTensorRank}},
    {"elemtype", {offsetof(TensorMap, type), 1, 0, 16}},
    {"interleave_layout", {offsetof(TensorMap, interleave), 1, 0, 3}},
    {"swizzle_mode", {offsetof(TensorMap, swizzle), 1, 0, 4}},
    {"swizzle_atomicity", {offsetof(TensorMap, atom), 1, 0, 4}},
    {"fill_mode", {offsetof(TensorMap, fill), 1, 0, 2}}};

// The values of CUtensorMapDataType, by the numbers of tensormap.replace: u8 u16 u32 s32 u64 s64
// f16 f32 f32.ftz f64 bf16 tf32 tf32.ftz b4x16 b4x16_p64 b6x16_p32.
constexpr uint64_t kTypes[] = {0, 1, 2, 3, 4, 5, 6, 7, 10, 8, 9, 11, 12, 13, 14, 15};

// Return the value of a field as C.
std::string value_of(const FunctionScope& scope, const std::string& name, const Field& field,
                     const Operand& o) {
  if (!field.constants) {
    check_scalar(scope, o, field.bytes == 8 ? kU64 : kU32);
    return scope.read(o, field.bytes == 8 ? kU64 : kU32).text;
  }
  if (o.kind != OperandKind::integer || o.bits >= field.constants)
    scope.reject("its value is no constant of the field");
  return hex(name == "elemtype" ? kTypes[o.bits] : o.bits, 32);
}

void emit_replace(const FunctionScope& scope, const Instruction& ins, Code& out) {
  const std::string* name = ins.take_one_of(kFields);
  if (!name || !ins.take("tile") || !ins.take("b1024")) scope.refuse();
  const Field& field = kFields.at(*name);
  if (last_type(ins) != (field.bytes == 8 ? kB64 : kB32))
    scope.reject("the field has another type");
  size_t operands = field.count ? 3 : 2, offset = field.offset;
  if (ins.operands.size() != operands) scope.reject("it has a wrong number of operands");
  if (field.count) {
    const Operand& index = ins.operands[1];
    if (index.kind != OperandKind::integer || index.bits >= field.count)
      scope.reject("its ordinal is no constant within the rank");
    offset += (size_t)index.bits * (size_t)field.bytes;
  }
  const Operand& where = ins.operands[0];
  Space space = state_space(ins);
  if (space != Space::none && space != Space::global && space != Space::shared)
    scope.reject("a tensor map lies in .global or .shared::cta");
  auto place = [&](size_t at, int bytes) {
    return Access::single(scope, ins, {where, space, bytes, std::to_string(at)});
  };
  auto block = out.block("");
  // A map that the kernel makes from zeros gets its magic number here.
  place(offsetof(TensorMap, magic), 8)
      .store(out, 0, {hex(kTensorMapMagic, 64), kU64}, Ordering::none);
  ptx::Type type{'u', field.bytes * 8};
  place(offset, field.bytes)
      .store(out, 0,
             expr(type, "({}){}", c_type(type), value_of(scope, *name, field, ins.operands.back())),
             Ordering::none);
}

// All lanes of a warp copy the same map.
void emit_copy(const FunctionScope& scope, const Instruction& ins, Code& out) {
  const char* const kWords[] = {"global",  "shared::cta", "tensormap::generic",
                                "release", "sync",        "aligned"};
  for (const char* word : kWords)
    if (!ins.take(word)) scope.refuse();
  const Operand& bytes = ins.operands.at(2);
  if (bytes.kind != OperandKind::integer || bytes.bits != sizeof(TensorMap))
    scope.reject("it copies 128 bytes");
  auto block = out.block("");
  for (size_t i = 0; i < sizeof(TensorMap); i += kChunkBytes)
    out.add("copy_async({}, {}, {}, {})",
            Access::single(scope, ins,
                           {ins.operands[0], Space::global, kChunkBytes, std::to_string(i)}),
            Access::single(scope, ins,
                           {ins.operands[1], Space::shared, kChunkBytes, std::to_string(i)}),
            kChunkBytes, kChunkBytes);
}

}  // namespace

void emit_tensor_map(FunctionScope& scope, const Instruction& ins, Code& out) {
  if (ins.take("replace")) return emit_replace(scope, ins, out);
  if (ins.take("cp_fenceproxy")) return emit_copy(scope, ins, out);
  scope.refuse();
}

}  // namespace softgpu::emit
