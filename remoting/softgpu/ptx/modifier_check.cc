#include "softgpu/ptx/modifier_check.h"

#include <set>

#include "softgpu/ptx/operand_type.h"

namespace softgpu::ptx {
namespace {

using Words = std::set<std::string>;

constexpr uint64_t kBarriers = 16, kWarp = 32, kEvents = 16, kDiscardBytes = 128;
constexpr uint64_t kMaxArrivals = 1 << 20;

[[noreturn]] void refuse(const Instruction& ins, const std::string& why) {
  std::string spelling = ins.op;
  for (auto& m : ins.mods) spelling += "." + m;
  throw Refusal{ins.line, "instruction " + spelling + ": " + why};
}

bool has_one_of(const Instruction& ins, const Words& words) {
  for (auto& m : ins.mods)
    if (words.count(m)) return true;
  return false;
}

std::vector<OperandType> types_of(const Instruction& ins) {
  std::vector<OperandType> types;
  for (auto& m : ins.mods)
    if (OperandType::is_type(m)) types.emplace_back(m);
  return types;
}

void check_comparison(const Instruction& ins) {
  static const Words kUnsigned = {"lo", "ls", "hi", "hs"}, kOrder = {"lt", "le", "gt", "ge"};
  static const Words kFloat = {"equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};
  auto types = types_of(ins);
  if (types.empty()) return;
  const OperandType& type = types.back();
  bool wrong = (has_one_of(ins, kUnsigned) && type.kind != 'u') ||
               (has_one_of(ins, kFloat) && !type.is_float()) ||
               (has_one_of(ins, kOrder) && type.kind == 'b');
  if (wrong) refuse(ins, "its comparison does not fit its type");
}

// A conversion that rounds needs a rounding modifier.
void check_conversion(const Instruction& ins) {
  static const Words kToInteger = {"rni", "rzi", "rmi", "rpi"}, kToFloat = {"rn", "rz", "rm", "rp"};
  auto types = types_of(ins);
  if (types.size() != 2 || types[0].kind == 'x' || types[1].kind == 'x' || types[0].kind == 'b')
    return;
  const OperandType &to = types[0], &from = types[1];
  bool narrows = to.is_float() && (!from.is_float() || to.bits < from.bits);
  if (!to.is_float() && from.is_float() && !has_one_of(ins, kToInteger))
    refuse(ins, "it needs one of .rni, .rzi, .rmi and .rpi");
  if (narrows && !has_one_of(ins, kToFloat)) refuse(ins, "it needs one of .rn, .rz, .rm and .rp");
  bool same = to.is_float() && to.kind == from.kind && to.bits == from.bits;
  if (!narrows && has_one_of(ins, kToFloat)) refuse(ins, "it does not round");
  if (has_one_of(ins, kToInteger) && !same && (to.is_float() || !from.is_float()))
    refuse(ins, "it does not round to an integer");
}

void check_order(const Instruction& ins) {
  static const Words kOrders = {"relaxed", "acquire", "release"};
  static const Words kScopes = {"cta", "cluster", "gpu", "sys"};
  if (!has_one_of(ins, kOrders)) return;
  if (!has_one_of(ins, kScopes)) refuse(ins, "it needs a scope: .cta, .gpu or .sys");
  Space space = space_of(ins);
  if (space != Space::none && space != Space::global && space != Space::shared)
    refuse(ins, "its order needs global, shared or generic memory");
}

void check_atomic(const Instruction& ins) {
  static const Words kBits = {"and", "or", "xor", "cas", "exch"}, kNumbers = {"add", "min", "max"};
  Space space = space_of(ins);
  if (space != Space::none && space != Space::global && space != Space::shared)
    refuse(ins, "it needs global, shared or generic memory");
  auto types = types_of(ins);
  if (types.empty()) return;
  bool bits = types.back().kind == 'b', logic = has_one_of(ins, {"and", "or", "xor"});
  bool pair = ins.has("f16x2") || ins.has("bf16x2") || ins.has("f16") || ins.has("bf16");
  if (pair && ins.has("add") && !ins.has("noftz")) refuse(ins, "it needs .noftz");
  if (types.back().kind == 'f' && (ins.has("min") || ins.has("max")))
    refuse(ins, "its operation does not fit its type");
  if ((has_one_of(ins, kBits) && !bits && (logic || types.back().is_float())) ||
      (has_one_of(ins, kNumbers) && bits))
    refuse(ins, "its operation does not fit its type");
}

void check_sync(const Instruction& ins) {
  if (!ins.has("sync")) refuse(ins, "it needs .sync");
  bool ballot = ins.has("ballot");
  if (ins.op == "shfl" && !ins.has("b32")) refuse(ins, "its type is .b32");
  if (ins.op == "vote" && !ins.has(ballot ? "b32" : "pred"))
    refuse(ins, ballot ? "its type is .b32" : "its type is .pred");
}

// The constant operand `i`, or null.
const uint64_t* constant_of(const Instruction& ins, size_t i) {
  bool is_constant = i < ins.operands.size() && ins.operands[i].kind == OperandKind::integer;
  return is_constant ? &ins.operands[i].bits : nullptr;
}

void check_barrier(const Instruction& ins) {
  if (ins.has("warp") || ins.has("cluster")) return;
  if (ins.op == "bar" && ins.has("aligned")) refuse(ins, ".aligned belongs to barrier");
  size_t first = ins.has("red") ? 1 : 0;
  auto *number = constant_of(ins, first), *threads = constant_of(ins, first + 1);
  if (number && *number >= kBarriers) refuse(ins, "a barrier has a number from 0 to 15");
  bool counts = !ins.has("red") || ins.operands.size() > 3;
  if (threads && counts && (*threads == 0 || *threads % kWarp))
    refuse(ins, "the number of threads is not a multiple of 32");
}

void check_bit_field(const Instruction& ins) {
  for (size_t i = ins.op == "bfi" ? 3 : 2; i < ins.operands.size(); ++i)
    if (auto* n = constant_of(ins, i); n && *n > UINT32_MAX && *n < (UINT64_MAX << 31))
      refuse(ins, "a position or length has more than 32 bits");
}

void check_copy(const Instruction& ins) {
  auto *bytes = constant_of(ins, 2), *read = constant_of(ins, 3);
  if (bytes && read && *read > *bytes) refuse(ins, "it reads more bytes than it writes");
}

void check_discard(const Instruction& ins) {
  if (auto* n = constant_of(ins, 1); n && *n != kDiscardBytes) refuse(ins, "its size is 128");
}

void check_mbarrier(const Instruction& ins) {
  auto* count = constant_of(ins, 1);
  if (ins.has("init") && count && (*count == 0 || *count >= kMaxArrivals))
    refuse(ins, "a count is from 1 to 1048575");
  if (ins.has("noComplete") && ins.operands.size() < 3) refuse(ins, ".noComplete needs a count");
  if (auto* phase = constant_of(ins, 2); ins.has("parity") && phase && *phase > 1)
    refuse(ins, "a parity is 0 or 1");
}

void check_event(const Instruction& ins) {
  if (!ins.has("mask") && !ins.operands.empty() && ins.operands[0].bits >= kEvents)
    refuse(ins, "an event has a number from 0 to 15");
}

}  // namespace

void check_modifiers(const Instruction& ins) {
  static const std::map<std::string, void (*)(const Instruction&)> kChecks = {
      {"atom", check_atomic},     {"bar", check_barrier},       {"barrier", check_barrier},
      {"bfe", check_bit_field},   {"bfi", check_bit_field},     {"cp", check_copy},
      {"discard", check_discard}, {"mbarrier", check_mbarrier}, {"cvt", check_conversion},
      {"ld", check_order},        {"match", check_sync},        {"pmevent", check_event},
      {"red", check_atomic},      {"set", check_comparison},    {"setp", check_comparison},
      {"shfl", check_sync},       {"st", check_order},          {"vote", check_sync}};
  if (auto it = kChecks.find(ins.op); it != kChecks.end()) it->second(ins);
}

}  // namespace softgpu::ptx
