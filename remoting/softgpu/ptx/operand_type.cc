#include "softgpu/ptx/operand_type.h"

#include <cstring>

namespace softgpu::ptx {
namespace {

const std::map<std::string, std::pair<char, int>> kWords = {
    {"b1", {'b', 32}},    {"b8", {'b', 8}},      {"b16", {'b', 16}},    {"b32", {'b', 32}},
    {"b64", {'b', 64}},   {"b128", {'b', 128}},  {"u8", {'u', 8}},      {"u16", {'u', 16}},
    {"u32", {'u', 32}},   {"u64", {'u', 64}},    {"s8", {'s', 8}},      {"s16", {'s', 16}},
    {"s32", {'s', 32}},   {"s64", {'s', 64}},    {"f16", {'h', 16}},    {"bf16", {'x', 16}},
    {"f32", {'f', 32}},   {"f64", {'f', 64}},    {"pred", {'p', 8}},    {"tf32", {'x', 32}},
    {"f16x2", {'x', 32}}, {"bf16x2", {'x', 32}}, {"s16x2", {'x', 32}},  {"u16x2", {'x', 32}},
    {"f32x2", {'x', 64}}, {"e4m3x2", {'x', 16}}, {"e5m2x2", {'x', 16}}, {"ue8m0x2", {'x', 16}},
    {"e2m1x2", {'x', 8}}, {"e2m3x2", {'x', 16}}, {"e3m2x2", {'x', 16}}};

}  // namespace

bool OperandType::is_type(const std::string& word) {
  return kWords.count(word) > 0;
}

OperandType::OperandType(const std::string& word) {
  auto& [first, second] = kWords.at(word);
  kind = first;
  bits = second;
}

bool OperandType::matches(const Type& own) const {
  if (kind == 'p' || own.kind == 'p') return kind == own.kind;
  if (own.bits != bits) return false;
  if (kind == 'b' || own.kind == 'b') return true;
  if (kind == 'x') return false;
  if (kind == 'h' || kind == 'f') return own.kind == 'f';
  return own.kind == 'u' || own.kind == 's';
}

bool OperandType::fits_in(const Type& own) const {
  if (matches(own)) return true;
  if (kind == 'p' || own.kind == 'p' || kind == 'x' || own.bits < bits) return false;
  if (kind == 'b' || own.kind == 'b') return true;
  return !is_float() && (own.kind == 'u' || own.kind == 's');
}

Space space_of(const Instruction& ins, size_t address) {
  static const std::map<std::string, Space> kSpaces = {
      {"global", Space::global},      {"shared", Space::shared},
      {"shared::cta", Space::shared}, {"shared::cluster", Space::shared},
      {"local", Space::local},        {"const", Space::constant},
      {"param", Space::param},        {"param::entry", Space::param},
      {"param::func", Space::param}};
  Space space = Space::none;
  size_t found = 0;
  for (auto& m : ins.mods)
    if (auto it = kSpaces.find(m); it != kSpaces.end() && found++ <= address) space = it->second;
  return space;
}

}  // namespace softgpu::ptx
