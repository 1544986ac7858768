// mov cvt cvta isspacep and the packing forms.
#include "softgpu/emit/emitter.h"

namespace softgpu::emit {

using ptx::Instruction;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

static std::string rounding(const Instruction& ins) {
  for (const char* m : {"rni", "rzi", "rmi", "rpi", "rn", "rna", "rz", "rm", "rp"})
    if (ins.has(m)) return m;
  return "";
}

// Destination and source type of a cvt, in the order written.
static bool cvt_types(const Instruction& ins, Type& d, Type& a) {
  int found = 0;
  for (auto& m : ins.mods) {
    bool known;
    Type t = type_of(m, known);
    if (!known) continue;
    (found == 0 ? d : a) = t;
    ++found;
  }
  return found == 2;
}

static std::string converted(const Instruction& ins, Type d, Type a, std::string v) {
  std::string r = rounding(ins);
  if (a.is_float() && !d.is_float())
    return "to_" + c_type(d) + "(round_" + (r.empty() ? "rzi" : r) + "((f64)" + v + "))";
  if (!a.is_float() && d.is_float()) {
    if (r == "rz" || r == "rm" || r == "rp")
      return "int_" + r + "_" + c_type(d) + "((s128)" + v + ")";
    return "(" + c_type(d) + ")" + v;
  }
  if (a.is_float() && d.is_float()) {
    if (d.bits == a.bits && r.size() == 3) return "round_" + r + "_" + c_type(d) + "(" + v + ")";
    if (d == Type{'f', 32} && a.bits == 64 && (r == "rz" || r == "rm" || r == "rp"))
      return "narrow_" + r + "(" + v + ")";
    if (d.bits == 16 && (r == "rz" || r == "rm" || r == "rp"))
      return "narrow_" + r + "_" + c_type(d) + "((long double)" + v + ")";
    return "(" + c_type(d) + ")" + v;
  }
  return "";
}

// To and from two fp8 numbers: the first operand becomes the upper byte.
bool FunctionEmitter::convert_fp8(const Instruction& ins, std::string& out) {
  auto format = [](const std::string& w) {
    return w == "e4m3x2" ? "e4m3" : w == "e5m2x2" ? "e5m2" : "";
  };
  std::vector<std::string> types;
  for (auto& m : ins.mods) {
    bool known;
    type_of(m, known);
    if (known || m.find("x2") != std::string::npos) types.push_back(m);
  }
  if (types.size() != 2) return false;
  std::string to = format(types[0]), from = format(types[1]),
              limit = ins.has("relu") ? "relu_f32" : "";
  if (to.empty() && from.empty()) return false;
  if (!from.empty()) {
    if (types[0] != "f16x2" || ins.operands.size() != 2) refuse(ins);
    out += "{ u32 v = " + read(ins.operands[1], {'u', 16}) + "; " +
           write(ins.operands[0], {'b', 32},
                 "pack_f16(" + limit + "(from_" + from + "(v >> 8)), " + limit + "(from_" + from +
                     "(v & 255)))") +
           "}\n";
    return true;
  }
  std::string high, low;
  if (types[1] == "f32" && ins.operands.size() == 3) {
    high = read(ins.operands[1], {'f', 32});
    low = read(ins.operands[2], {'f', 32});
  } else if (types[1] == "f16x2" && ins.operands.size() == 2) {
    high = "(f32)as_f16((u16)(v >> 16))";
    low = "(f32)as_f16((u16)v)";
  } else
    refuse(ins);
  out +=
      "{ u32 v = " + (types[1] == "f16x2" ? read(ins.operands[1], {'b', 32}) : std::string("0")) +
      "; (void)v;\n";
  out += write(ins.operands[0], {'b', 16},
               "to_" + to + "(" + limit + "(" + high + ")) << 8 | to_" + to + "(" + limit + "(" +
                   low + "))") +
         "}\n";
  return true;
}

// Scale factors of blocks: two exponents in 16 bits.
bool FunctionEmitter::convert_e8m0(const Instruction& ins, std::string& out) {
  if (!ins.has("ue8m0x2")) return false;
  bool up = ins.has("rp");
  if (ins.mods.back() == "ue8m0x2") {
    if (!ins.has("bf16x2")) refuse(ins);
    out += "{ u32 v = " + read(ins.operands.at(1), {'u', 16}) + "; " +
           write(ins.operands[0], {'b', 32}, "pack_bf16(from_e8m0(v >> 8), from_e8m0(v))") + "}\n";
    return true;
  }
  std::string high, low,
      mode = std::string(up ? ", 1" : ", 0") + (ins.has("satfinite") ? ", 254)" : ", 255)");
  if (ins.mods.back() == "f32") {
    high = read(ins.operands.at(1), {'f', 32});
    low = read(ins.operands.at(2), {'f', 32});
  } else if (ins.mods.back() == "bf16x2") {
    high = "as_bf16((u16)(v >> 16))";
    low = "as_bf16((u16)v)";
  } else
    refuse(ins);
  out += "{ u32 v = " +
         (ins.mods.back() == "f32" ? std::string("0") : read(ins.operands.at(1), {'b', 32})) +
         "; (void)v;\n";
  out += write(ins.operands[0], {'b', 16},
               "to_e8m0(" + high + mode + " << 8 | to_e8m0(" + low + mode) +
         "}\n";
  return true;
}

bool FunctionEmitter::convert(const Instruction& ins, std::string& out) {
  if (ins.op == "mov") {
    move(ins, out);
    return true;
  }
  if (ins.op == "cvta") {
    bool to = ins.has("to");
    bool shared = ins.has("shared") || ins.has("shared::cta");
    std::string v = read(ins.operands.at(1), {'u', 64});
    if (shared) v = to ? "(" + v + " - k.shared_base)" : "(k.shared_base + (u32)" + v + ")";
    out += write(ins.operands[0], {'u', 64}, v);
    return true;
  }
  if (ins.op == "isspacep") {
    std::string a = read(ins.operands.at(1), {'u', 64});
    std::string shared = "(" + a + " - k.shared_base < k.shared_bytes)",
                local = "(" + a + " - c->local_base < c->local_span)";
    std::string v = ins.has("shared") || ins.has("shared::cta") ? shared
                    : ins.has("local")                          ? local
                    : ins.has("global") ? "(!" + shared + " && !" + local + ")"
                                        : "0";
    out += write(ins.operands[0], {'p', 8}, v);
    return true;
  }
  if (ins.op != "cvt") return false;
  if (ins.mods.size() >= 2 && ins.has("tf32")) {
    std::string mode = ins.has("rna") ? "0" : ins.has("rz") ? "2" : "1";
    out += write(ins.operands[0], {'b', 32},
                 "to_tf32(" + read(ins.operands[1], {'f', 32}) + ", " + mode + ", " +
                     (ins.has("relu") ? "1" : "0") + ")");
    return true;
  }
  if (convert_fp8(ins, out) || convert_e8m0(ins, out)) return true;
  for (auto& m : ins.mods)
    if (m == "f16x2" || m == "bf16x2") {
      std::string element = m == "f16x2" ? "f16" : "bf16";
      if (ins.operands.size() != 3 || ins.mods.back() != "f32") refuse(ins);
      out += write(ins.operands[0], {'b', 32},
                   "pack_" + element + "(" + read(ins.operands[1], {'f', 32}) + ", " +
                       read(ins.operands[2], {'f', 32}) + ")");
      return true;
    }
  Type d, a;
  if (!cvt_types(ins, d, a)) refuse(ins);
  std::string v = read(ins.operands.at(1), a);
  if (ins.has("ftz") && a == Type{'f', 32}) v = "ftz(" + v + ")";
  std::string c = converted(ins, d, a, v);
  if (c.empty())
    c = ins.has("sat") ? "sat_" + c_type(d) + "((s128)" + v + ")" : "(" + c_type(d) + ")" + v;
  else if (ins.has("sat") && d.is_float())
    c = "sat_" + c_type(d) + "(" + c + ")";
  if (ins.has("ftz") && d == Type{'f', 32}) c = "ftz(" + c + ")";
  out += write(ins.operands[0], d, c);
  return true;
}

void FunctionEmitter::move(const Instruction& ins, std::string& out) {
  Type t = last_type(ins);
  const Operand &d = ins.operands.at(0), &a = ins.operands.at(1);
  auto part = [&](size_t n) {
    return Type{'b', t.bits / (int)n};
  };
  if (a.kind == OperandKind::vector) {
    Type p = part(a.elements.size());
    std::string v = "0";
    for (size_t i = 0; i < a.elements.size(); ++i)
      v += " | ((" + storage(t) + ")(" + storage(p) + ")" + read_bits(a.elements[i], p) + " << " +
           std::to_string((int)i * p.bits) + ")";
    out += write(d, {'b', t.bits}, v);
  } else if (d.kind == OperandKind::vector) {
    Type p = part(d.elements.size());
    out += "{ " + storage(t) + " v = " + read(a, {'b', t.bits}) + ";\n";
    for (size_t i = 0; i < d.elements.size(); ++i)
      if (d.elements[i].kind != OperandKind::sink)
        out += write(d.elements[i], p,
                     "(" + storage(p) + ")(v >> " + std::to_string((int)i * p.bits) + ")");
    out += "}\n";
  } else if (t.kind == 'p')
    out += write(d, t, read(a, t));
  else
    out += write(d, {'b', t.bits}, read_bits(a, t));
}

// The raw bits of an operand, whatever its type.
std::string FunctionEmitter::read_bits(const Operand& o, Type t) const {
  if (t.is_float() && (o.kind == OperandKind::real32 || o.kind == OperandKind::real64))
    return "bits_" + c_type(t) + "(" + read(o, t) + ")";
  if (t.kind == 'p') return read(o, t);
  if (t.bits == 64 && o.kind == OperandKind::real32) return "bits_f64(" + read(o, {'f', 64}) + ")";
  if (t.bits == 32 && o.kind == OperandKind::real64) return "bits_f32(" + read(o, {'f', 32}) + ")";
  return read(o, {'b', t.bits});
}

}  // namespace softgpu::emit
