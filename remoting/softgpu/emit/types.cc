#include "softgpu/emit/types.h"

#include <cctype>
#include <cstdio>
#include <cstring>
#include <map>

namespace softgpu::emit {

using ptx::Instruction;
using ptx::Space;
using ptx::Type;

std::optional<Type> type_of(const std::string& modifier) {
  if (modifier == "pred") return kPredicate;
  if (modifier == "bf16") return Type{'h', 16};
  if (modifier.size() < 2 || modifier.size() > 4 || !std::strchr("busf", modifier[0]))
    return std::nullopt;
  int bits = 0;
  for (size_t i = 1; i < modifier.size(); ++i) {
    if (!std::isdigit((unsigned char)modifier[i])) return std::nullopt;
    bits = bits * 10 + modifier[i] - '0';
  }
  if (bits == 8 || bits == 16 || bits == 32 || bits == 64 || bits == 128)
    return Type{modifier[0], bits};
  return std::nullopt;
}

Type last_type(const Instruction& ins) {
  for (size_t i = ins.mods.size(); i-- > 0;)
    if (auto type = type_of(ins.mods[i])) {
      (void)ins.take_at(i);
      return *type;
    }
  throw ptx::Refusal{ins.line, "instruction " + spelling(ins) + " has no type"};
}

Type first_type(const Instruction& ins) {
  for (size_t i = 0; i < ins.mods.size(); ++i)
    if (auto type = type_of(ins.mods[i])) {
      (void)ins.take_at(i);
      return *type;
    }
  return last_type(ins);
}

Space state_space(const Instruction& ins) {
  static const std::map<std::string, Space> kSpaces = {
      {"global", Space::global},      {"shared", Space::shared},
      {"shared::cta", Space::shared}, {"shared::cluster", Space::shared},
      {"local", Space::local},        {"const", Space::constant},
      {"param", Space::param},        {"param::entry", Space::param},
      {"param::func", Space::param}};
  auto* word = ins.take_one_of(kSpaces);
  return word ? kSpaces.at(*word) : Space::none;
}

int vector_length(const Instruction& ins) {
  return ins.take("v8") ? 8 : ins.take("v4") ? 4 : ins.take("v2") ? 2 : 1;
}

bool is_ordered(const Instruction& ins) {
  return ins.take("volatile") || ins.take("acquire") || ins.take("release") || ins.take("relaxed");
}

std::string spelling(const Instruction& ins) {
  std::string out = ins.op;
  for (auto& m : ins.mods) out += "." + m;
  return out;
}

std::string c_type(Type t) {
  if (t.kind == 'p') return "u8";
  if (t.kind == 'h') return "bf16";
  char kind = t.kind == 'b' ? 'u' : t.kind;
  return std::string(1, kind) + std::to_string(t.bits);
}

std::string storage(Type t) {
  return "u" + std::to_string(t.bits);
}

std::string hex(uint64_t value, int bits) {
  char buffer[40];
  if (bits < 64) value &= (1ull << bits) - 1;
  std::snprintf(buffer, sizeof buffer, bits > 32 ? "0x%llxULL" : "0x%llxu",
                (unsigned long long)value);
  return buffer;
}

}  // namespace softgpu::emit
