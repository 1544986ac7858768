#include "softgpu/emit/scope.h"

#include <algorithm>
#include <cstring>

namespace softgpu::emit {

using ptx::Block;
using ptx::Instruction;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Space;
using ptx::Type;

constexpr uint64_t kMaxKernelParameterBytes = 32764;   // CUDA's limit
constexpr uint64_t kMaxCallParameterBytes = 64 << 10;  // of one function, on the host's stack
constexpr uint64_t kMaxLocalBytes = 512 << 10;         // CUDA's limit for one thread

static uint64_t align_up(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

FunctionScope::FunctionScope(const KernelScope& kernel, const ptx::Function& function)
    : kernel(kernel), function(function), flow(ptx::analyse(function)) {
  int index = 0;
  for (auto& [name, type] : function.registers) register_index_[name] = index++;
  register_index_["%cc"] = index++;
  index_variables();
  lay_out_params();
  lay_out_variables();
}

// Parameters become variables on the stack of the host: a variable that is declared twice must not
// be checked with the size of the other one.
void FunctionScope::index_variables() {
  for (auto* list : {&function.params, &function.returns, &function.variables})
    for (auto& v : *list) {
      bool parameter = list != &function.variables;
      if (parameter && v.space != Space::param && (function.entry || v.space != Space::reg))
        throw ptx::Refusal{0, "parameter " + v.name + " is not in .param"};
      if (v.space != Space::reg && !variable_.emplace(v.name, &v).second)
        throw ptx::Refusal{0, "variable " + v.name + " is declared twice"};
    }
}

void FunctionScope::lay_out_params() {
  if (function.entry) {
    for (auto& p : function.params) {
      kernel_param_bytes_ = align_up(kernel_param_bytes_, p.align);
      kernel_param_offset_[p.name] = kernel_param_bytes_;
      kernel_param_bytes_ += p.bytes;
    }
    if (kernel_param_bytes_ > kMaxKernelParameterBytes)
      throw ptx::Refusal{0, "the parameters of kernel " + function.name + " exceed 32764 bytes"};
    return;
  }
  int number = 0;
  for (auto* list : {&function.returns, &function.params})
    for (auto& p : *list) {
      if (p.space == Space::param) param_name_[p.name] = render("arg{}", number);
      ++number;
    }
}

void FunctionScope::lay_out_variables() {
  int params = 0;
  uint64_t param_bytes = 0;
  for (auto& v : function.variables) {
    if (v.space == Space::local) {
      local_bytes_ = align_up(local_bytes_, std::max<uint64_t>(v.align, 16));
      local_offset_[v.name] = local_bytes_;
      local_bytes_ += v.bytes;
    } else if (v.space == Space::param) {
      param_name_.emplace(v.name, render("p{}", params++));
      param_bytes += v.bytes;
      auto named = [&](auto& block) {
        return mentions(block, v.name);
      };
      if (std::count_if(flow.blocks.begin(), flow.blocks.end(), named) > 1)
        kept_params_.insert(v.name);
    }
  }
  local_bytes_ = align_up(local_bytes_, 16);
  if (param_bytes > kMaxCallParameterBytes)
    throw ptx::Refusal{0, "the parameters of calls in " + function.name + " exceed 64 KiB"};
  if (local_bytes_ > kMaxLocalBytes)
    throw ptx::Refusal{0, "the local variables of " + function.name + " exceed 512 KiB"};
}

bool FunctionScope::mentions(const Block& block, const std::string& name) const {
  auto in = [&](const ptx::Checked<Operand>& list) {
    return std::any_of(list.begin(), list.end(), [&](auto& o) {
      return o.name == name || (!o.elements.empty() && o.elements[0].name == name);
    });
  };
  for (size_t i = block.first; i < block.last; ++i) {
    const Instruction& ins = function.body[i];
    if (in(ins.operands) || in(ins.call_returns) || in(ins.call_arguments)) return true;
  }
  return false;
}

void FunctionScope::refuse(const std::string& why) const {
  throw ptx::Refusal{instruction_ ? instruction_->line : 0,
                     "instruction " + (instruction_ ? spelling(*instruction_) : "?") +
                         " is not supported by the software GPU" + (why.empty() ? "" : ": " + why)};
}

void FunctionScope::reject(const std::string& why) const {
  throw ptx::Refusal{instruction_ ? instruction_->line : 0,
                     "instruction " + (instruction_ ? spelling(*instruction_) : "?") + ": " + why};
}

// ---- declarations ----

// Return the declaration of an array that holds a call parameter: at least 8 bytes.
void FunctionScope::declare_parameter(Code& out, const ptx::Variable& v) const {
  out.add("u8 {}[{}] __attribute__((aligned(16)))", param_name_.at(v.name),
          std::max<uint64_t>(v.bytes, 8));
}

void FunctionScope::declare_registers(Code& out) const {
  for (auto& [name, type] : function.registers)
    out.add("{} r{} = 0", storage(type), register_index_.at(name));
  out.add("u32 r{} = 0", register_index_.at("%cc"));
  for (auto& v : function.variables)
    if (v.space == Space::param) declare_parameter(out, v);
}

void FunctionScope::declare_frame_registers(Code& out) const {
  for (auto& [name, type] : function.registers)
    if (!flow.local_registers.count(name))
      out.add("{} r{}[32]", storage(type), register_index_.at(name));
  out.add("u32 r{}[32]", register_index_.at("%cc"));
  for (auto& v : function.variables)
    if (kept_params_.count(v.name))
      out.add("u8 {}[32][{}] __attribute__((aligned(16)))", param_name_.at(v.name),
              align_up(std::max<uint64_t>(v.bytes, 8), 16));
}

// Declare registers and call parameters that are used in `block` only.
void FunctionScope::declare_block_locals(Code& out, const Block& block) const {
  std::set<std::string> used;
  for (size_t i = block.first; i < block.last; ++i)
    for (auto& r : ptx::registers_of(function, function.body[i]))
      if (flow.local_registers.count(r)) used.insert(r);
  for (auto& r : used) out.add("{} {} = 0", storage(function.registers.at(r)), reg(r));
  for (auto& v : function.variables)
    if (v.space == Space::param && !kept_params_.count(v.name) && mentions(block, v.name))
      declare_parameter(out, v);
}

// Copy values that no store of the kernel can change to local variables: otherwise the C compiler
// reads them again after each store.
void FunctionScope::declare_constants(Code& out) const {
  out.add("const Constants k = constants(c)");
  out.add("(void)k");
  out.add("DECLARE_PARAMETERS({})", std::max<uint64_t>(kernel_param_bytes_, 1));
}

// Declare the stack pointer of the running thread if the kernel has a stack. With calls, also
// declare the Thread that callees receive.
void FunctionScope::declare_stack(Code& out, bool with_calls) const {
  bool calls = std::any_of(function.body.begin(), function.body.end(),
                           [](auto& ins) { return ins.op == "call"; });
  if (!with_calls && !local_bytes_ && !calls) return;
  out.add("DECLARE_STACK({})", mode == Mode::lockstep ? "w->index * 32 + l" : "n");
  if (!with_calls && mode == Mode::lockstep) return;
  out.add("DECLARE_THREAD({}, {}, {}, {}, {})", thread("x"), thread("y"), thread("z"),
          thread("lane"), thread("warp"));
}

// ---- operands ----

Expr FunctionScope::reg(const std::string& name) const {
  auto it = register_index_.find(name);
  if (it == register_index_.end()) reject("unknown register " + name);
  auto declared = function.registers.find(name);
  Type type = declared == function.registers.end() ? kU32 : declared->second;
  if (mode != Mode::lockstep || flow.local_registers.count(name))
    return expr(type, "r{}", it->second);
  return expr(type, "w->r{}[l]", it->second);
}

template <typename To, typename From>
static To same_bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

Expr FunctionScope::literal(const Operand& o, Type t) const {
  uint64_t bits = o.bits;
  if (o.kind == OperandKind::real64 && t.bits == 32)
    bits = same_bits<uint32_t>((float)same_bits<double>(bits));
  if (o.kind == OperandKind::real32 && t.bits == 64)
    bits = same_bits<uint64_t>((double)same_bits<float>((uint32_t)bits));
  if (t.kind == 'p') return expr(t, "{}", bits ? 1 : 0);
  if (t.is_float()) return expr(t, "as_{}({})", c_type(t), hex(bits, t.bits));
  return expr(t, "(({}){})", c_type(t), hex(bits, t.bits));
}

// A sum with a register has the type of the register. The index of an array has 32 bits.
std::string FunctionScope::sum(const Operand& o) const {
  std::string offset = hex((uint64_t)o.offset, 64);
  if (is_register(o.name)) {
    Expr r = reg(o.name);
    return render("(({})((u64){}+{}))", c_type(r.type), r, offset);
  }
  if (o.elements.empty()) return render("({}+{})", symbol_address(o.name), offset);
  Expr index = reg(o.elements[0].name);
  return render("({}+(u64)(u32)((u32)({}){} * (u32){}))", symbol_address(o.name),
                c_type(index.type), index, offset);
}

Expr FunctionScope::read(const Operand& o, Type t) const {
  switch (o.kind) {
    case OperandKind::integer:
    case OperandKind::real32:
    case OperandKind::real64: return literal(o, t);
    case OperandKind::special: return expr(t, "(({}){})", c_type(t), special(o.name));
    case OperandKind::symbol: return expr(t, "(({}){})", c_type(t), sum(o));
    case OperandKind::reg: break;
    default: reject("an operand has the wrong kind");
  }
  if (!is_register(o.name)) return expr(t, "(({}){})", c_type(t), symbol_address(o.name));
  Expr r = reg(o.name);
  if (t.kind == 'p') return o.negated ? expr(t, "(!{})", r) : expr(t, "{}", r);
  if (t.is_float()) return expr(t, "as_{}(({}){})", c_type(t), storage(t), r);
  return expr(t, "(({}){})", c_type(t), r);
}

Expr FunctionScope::read_bits(const Operand& o, Type t) const {
  Type bits{'b', t.bits};
  if (t.is_float() && (o.kind == OperandKind::real32 || o.kind == OperandKind::real64))
    return expr(bits, "bits_{}({})", c_type(t), read(o, t));
  if (t.kind == 'p') return read(o, t);
  if (t.bits == 64 && o.kind == OperandKind::real32)
    return expr(bits, "bits_f64({})", read(o, kF64));
  if (t.bits == 32 && o.kind == OperandKind::real64)
    return expr(bits, "bits_f32({})", read(o, kF32));
  return read(o, bits);
}

void FunctionScope::assign(Code& out, const Operand& to, const Expr& value) const {
  if (to.kind == OperandKind::sink) {
    out.add("(void)({})", value);
    return;
  }
  if (to.kind != OperandKind::reg || !is_register(to.name))
    reject("the destination is not a register");
  Type own = function.registers.at(to.name), t = value.type;
  Expr r = reg(to.name);
  if (t.kind == 'p')
    out.add("{} = (u8)(({}) != 0)", r, value);
  else if (t.is_float())
    out.add("{} = ({})bits_{}({})", r, storage(own), c_type(t), value);
  else if (t.is_signed())
    out.add("{} = ({})(s{})({})({})", r, storage(own), own.bits, c_type(t), value);
  else
    out.add("{} = ({})({})({})", r, storage(own), c_type(t), value);
}

std::string FunctionScope::predicate(const Instruction& ins) const {
  return (ins.guard_negated ? "!" : "") + reg(ins.guard).text;
}

const ptx::Variable* FunctionScope::variable(const std::string& name) const {
  auto it = variable_.find(name);
  return it != variable_.end() ? it->second : kernel.module.variable(name);
}

std::string FunctionScope::parameter(const std::string& name) const {
  auto it = param_name_.find(name);
  if (it == param_name_.end()) return "params";
  return mode == Mode::lockstep && kept_params_.count(name) ? render("w->{}[l]", it->second)
                                                            : it->second;
}

uint64_t FunctionScope::parameter_offset(const std::string& name) const {
  auto it = kernel_param_offset_.find(name);
  return it == kernel_param_offset_.end() ? 0 : it->second;
}

}  // namespace softgpu::emit
