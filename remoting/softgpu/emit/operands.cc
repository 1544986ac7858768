// Types, registers, literals, special registers and addresses as C expressions.
#include "softgpu/emit/emitter.h"

#include <cstring>

namespace softgpu::emit {

using ptx::Operand;
using ptx::OperandKind;
using ptx::Space;
using ptx::Type;

Type type_of(const std::string& w, bool& known) {
  known = true;
  if (w == "pred") return {'p', 8};
  if (w == "bf16") return {'h', 16};
  if (w.size() >= 2 && w.size() <= 4 && std::strchr("busf", w[0])) {
    int bits = 0;
    for (size_t i = 1; i < w.size(); ++i) {
      if (!std::isdigit((unsigned char)w[i])) {
        known = false;
        return {};
      }
      bits = bits * 10 + w[i] - '0';
    }
    if (bits == 8 || bits == 16 || bits == 32 || bits == 64 || bits == 128) return {w[0], bits};
  }
  known = false;
  return {};
}

Type last_type(const ptx::Instruction& ins) {
  for (size_t i = ins.mods.size(); i-- > 0;) {
    bool known;
    Type t = type_of(ins.mods[i], known);
    if (known) return t;
  }
  throw ptx::Refusal{ins.line, "instruction " + ins.op + " has no type"};
}

std::string c_type(Type t) {
  if (t.kind == 'p') return "u8";
  if (t.kind == 'h') return "bf16";
  char k = t.kind == 'b' ? 'u' : t.kind;
  return std::string(1, k) + std::to_string(t.bits);
}

std::string storage(Type t) {
  return "u" + std::to_string(t.bits);
}

std::string hex(uint64_t v, int bits) {
  char buffer[40];
  if (bits < 64) v &= (1ull << bits) - 1;
  std::snprintf(buffer, sizeof buffer, bits > 32 ? "0x%llxULL" : "0x%llxu", (unsigned long long)v);
  return buffer;
}

void FunctionEmitter::refuse(const ptx::Instruction& ins, const std::string& why) const {
  std::string spelled = ins.op;
  for (auto& m : ins.mods) spelled += "." + m;
  throw ptx::Refusal{ins.line, "instruction " + spelled + " is not supported by the software GPU" +
                                   (why.empty() ? "" : ": " + why)};
}

std::string FunctionEmitter::reg(const std::string& name) const {
  auto it = register_index_.find(name);
  if (it == register_index_.end()) throw ptx::Refusal{line_, "unknown register " + name};
  std::string id = "r" + std::to_string(it->second);
  if (mode_ != Mode::lanes || flow_.local_registers.count(name)) return id;
  return "w->" + id + "[l]";
}

static std::string literal(const Operand& o, Type t) {
  uint64_t bits = o.bits;
  if (o.kind == OperandKind::real64 && t.bits == 32) {
    double d;
    std::memcpy(&d, &bits, 8);
    float f = (float)d;
    uint32_t b;
    std::memcpy(&b, &f, 4);
    bits = b;
  }
  if (o.kind == OperandKind::real32 && t.bits == 64) {
    uint32_t b = (uint32_t)bits;
    float f;
    std::memcpy(&f, &b, 4);
    double d = f;
    std::memcpy(&bits, &d, 8);
  }
  std::string raw = hex(bits, t.bits);
  if (t.kind == 'p') return bits ? "1" : "0";
  if (t.is_float()) return "as_" + c_type(t) + "(" + raw + ")";
  return "((" + c_type(t) + ")" + raw + ")";
}

std::string FunctionEmitter::read(const Operand& o, Type t) const {
  switch (o.kind) {
    case OperandKind::integer:
    case OperandKind::real32:
    case OperandKind::real64: return literal(o, t);
    case OperandKind::special: return "((" + c_type(t) + ")" + special(o.name, line_) + ")";
    case OperandKind::symbol:
      return "((" + c_type(t) + ")(" + symbol_address(o.name, line_) + "+" +
             hex((uint64_t)o.offset, 64) + "))";
    case OperandKind::reg: break;
    default: throw ptx::Refusal{line_, "an operand of a wrong kind"};
  }
  auto it = f_.registers.find(o.name);
  if (it == f_.registers.end()) return "((" + c_type(t) + ")" + symbol_address(o.name, line_) + ")";
  std::string r = reg(o.name);
  if (t.kind == 'p') return o.negated ? "(!" + r + ")" : r;
  if (t.is_float()) return "as_" + c_type(t) + "((" + storage(t) + ")" + r + ")";
  return "((" + c_type(t) + ")" + r + ")";
}

std::string FunctionEmitter::write(const Operand& o, Type t, const std::string& value) const {
  if (o.kind == OperandKind::sink) return "(void)(" + value + ");\n";
  if (o.kind != OperandKind::reg || !f_.registers.count(o.name))
    throw ptx::Refusal{line_, "the destination is not a register"};
  Type own = f_.registers.at(o.name);
  std::string r = reg(o.name);
  if (t.kind == 'p') return r + " = (u8)((" + value + ") != 0);\n";
  if (t.is_float()) return r + " = (" + storage(own) + ")bits_" + c_type(t) + "(" + value + ");\n";
  if (t.is_signed())
    return r + " = (" + storage(own) + ")(s" + std::to_string(own.bits) + ")(" + c_type(t) + ")(" +
           value + ");\n";
  return r + " = (" + storage(own) + ")(" + c_type(t) + ")(" + value + ");\n";
}

std::string FunctionEmitter::special(const std::string& name, int line) const {
  static const std::map<std::string, std::string> of_thread = {
      {"%tid.x", "x"}, {"%tid.y", "y"}, {"%tid.z", "z"}, {"%laneid", "lane"}, {"%warpid", "warp"}};
  if (auto it = of_thread.find(name); it != of_thread.end()) return thread(it->second);
  static const std::map<std::string, std::string> known = {
      {"%ntid.x", "k.ntid[0]"},
      {"%ntid.y", "k.ntid[1]"},
      {"%ntid.z", "k.ntid[2]"},
      {"%ctaid.x", "k.ctaid[0]"},
      {"%ctaid.y", "k.ctaid[1]"},
      {"%ctaid.z", "k.ctaid[2]"},
      {"%nctaid.x", "k.nctaid[0]"},
      {"%nctaid.y", "k.nctaid[1]"},
      {"%nctaid.z", "k.nctaid[2]"},
      {"%nwarpid", "((c->threads + 31) / 32)"},
      {"%smid", "c->worker"},
      {"%nsmid", "c->workers"},
      {"%gridid", "c->grid_id"},
      {"%clock", "(u32)cycles()"},
      {"%clock_hi", "(u32)(cycles() >> 32)"},
      {"%clock64", "cycles()"},
      {"%globaltimer", "nanoseconds()"},
      {"%globaltimer_lo", "(u32)nanoseconds()"},
      {"%globaltimer_hi", "(u32)(nanoseconds() >> 32)"},
      {"%dynamic_smem_size", "c->dynamic_shared_bytes"},
      {"%total_smem_size", "c->shared_bytes"},
      {"%envreg1", "(u32)(c->workspace >> 32)"},
      {"%envreg2", "(u32)c->workspace"},
      {"%cluster_ctarank", "0"},
      {"%cluster_nctarank", "1"},
      {"%cluster_ctaid.x", "0"},
      {"%cluster_nctaid.x", "1"}};
  std::string lane = thread("lane");
  static const std::map<std::string, std::string> masks = {{"eq", "(1u << "},
                                                           {"lt", "((1u << "},
                                                           {"le", "((2u << "},
                                                           {"gt", "~((2u << "},
                                                           {"ge", "~((1u << "}};
  if (name.rfind("%lanemask_", 0) == 0)
    if (auto it = masks.find(name.substr(10)); it != masks.end())
      return it->second + lane + (it->first == "eq" ? ")" : ") - 1)");
  auto it = known.find(name);
  if (it == known.end())
    throw ptx::Refusal{line, "special register " + name + " is not supported by the software GPU"};
  return "(" + it->second + ")";
}

// A coordinate of the thread that runs: a variable of the loop, an array of the warp, or what the
// caller handed on.
std::string FunctionEmitter::thread(const std::string& what) const {
  if (mode_ == Mode::called) return "t->" + what;
  if (mode_ == Mode::scalar) return what;
  if (what == "lane") return "l";
  return what == "warp" ? "w->index" : "w->" + what + "[l]";
}

// Addresses as values: shared is an offset, local and param a real address, global and const what
// the driver gave.
std::string FunctionEmitter::symbol_address(const std::string& name, int line) const {
  if (auto it = shared_.shared_offset.find(name); it != shared_.shared_offset.end())
    return hex(it->second, 32);
  if (auto it = local_offset_.find(name); it != local_offset_.end())
    return "((u64)(lp + " + hex(it->second, 32) + "))";
  if (auto it = shared_.global_index.find(name); it != shared_.global_index.end())
    return "c->globals[" + std::to_string(it->second) + "]";
  if (auto it = kernel_param_offset_.find(name); it != kernel_param_offset_.end())
    return "((u64)(c->params + " + std::to_string(it->second) + "))";
  if (param_index_.count(name)) return "((u64)(" + parameter(name) + "))";
  for (size_t i = 0; i < shared_.module.functions.size(); ++i)
    if (shared_.module.functions[i].name == name) return hex(ptx::function_address(i), 64);
  throw ptx::Refusal{line, "unknown symbol " + name};
}

std::string FunctionEmitter::address(const ptx::Instruction& ins, const Operand& o, Space space,
                                     int bytes) const {
  if (o.kind != OperandKind::address) refuse(ins, "expected an address in brackets");
  if (places_)
    if (auto it = places_->find(&ins); it != places_->end()) return it->second;
  if (auto it = grouped_.find(&ins); !places_ && it != grouped_.end()) return it->second;
  std::string n = std::to_string(bytes), offset = hex((uint64_t)o.offset, 64);
  std::string base = "0ULL";
  bool call_param = false;
  if (!o.elements.empty()) {
    const Operand& b = o.elements[0];
    if (f_.registers.count(b.name))
      base = reg(b.name);
    else {
      base = symbol_address(b.name, ins.line);
      call_param = param_index_.count(b.name) > 0;
    }
    if (space == Space::none && shared_.shared_offset.count(b.name)) space = Space::shared;
  }
  if (space == Space::shared)
    return "at_shared(c, &k, (u32)" + base + " + (u32)" + offset + ", " + n + ")";
  if (call_param) return "((u8*)(" + base + " + " + offset + "))";
  if (space == Space::param && !o.elements.empty())
    if (auto it = kernel_param_offset_.find(o.elements[0].name); it != kernel_param_offset_.end())
      return "(params + " + hex(it->second + (uint64_t)o.offset, 32) + ")";
  return "at_global(c, (u64)" + base + " + " + offset + ", " + n + ")";
}

}  // namespace softgpu::emit
