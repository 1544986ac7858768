// call: arguments are passed as pointers to bytes, as in PTX's own parameter space.
#include "softgpu/emit/calls.h"

#include <algorithm>

#include "softgpu/emit/instructions.h"

namespace softgpu::emit {

using ptx::Instruction;
using ptx::Operand;
using ptx::OperandKind;

namespace {

// A function that the driver provides to every program: a function of device/runtime/functions.h
// with a pointer to the bytes of each result and argument.
struct BuiltIn {
  size_t pointers;
  const char* function;
};
const std::map<std::string, BuiltIn> kBuiltIns = {
    {"vprintf", {3, "call_vprintf"}},
    {"malloc", {2, "call_malloc"}},
    {"free", {1, "call_free"}},
    {"cudaGraphSetConditional", {2, "call_set_condition"}},
    {"cudaCGGetIntrinsicHandle", {2, "call_grid_handle"}}};
const std::string kAssertion = "__assertfail";  // also gets the index of the thread

class Call {
 public:
  Call(const FunctionScope& scope, const Instruction& ins, Code& out)
      : scope_(scope), ins_(ins), out_(out) {}
  void emit();

 private:
  std::string argument(const Operand& o, size_t index);
  void assign_results();
  void invoke(const ptx::Function& callee);
  void invoke_indirect();
  bool invoke_built_in(const std::string& name);
  uint64_t passed_bytes(const Operand& o) const;
  bool fits(const ptx::Function& callee) const;

  const FunctionScope& scope_;
  const Instruction& ins_;
  Code& out_;
  std::vector<std::string> pointers_;  // of results, then of arguments
};

void Call::emit() {
  const std::string& name = ins_.operands.at(0).name;
  auto block = out_.block("");
  for (auto& r : ins_.call_returns) pointers_.push_back(argument(r, pointers_.size()));
  for (auto& a : ins_.call_arguments) pointers_.push_back(argument(a, pointers_.size()));
  if (const ptx::Function* callee = scope_.kernel.module.find(name)) {
    if (!fits(*callee)) scope_.reject("the arguments do not match the parameters of " + name);
    invoke(*callee);
  } else if (scope_.is_register(name))
    invoke_indirect();
  else if (!invoke_built_in(name))
    scope_.refuse("function " + name + " has no body");
  assign_results();
}

// Return a pointer to the bytes of an argument. A register is copied to a variable first.
std::string Call::argument(const Operand& o, size_t index) {
  if (scope_.is_call_parameter(o.name)) return scope_.parameter(o.name);
  bool is_register = o.kind == OperandKind::reg && scope_.is_register(o.name);
  ptx::Type t = is_register ? scope_.function.registers.at(o.name) : kB64;
  out_.add("u64 v{} = {}", index,
           t.kind == 'p' ? scope_.read(o, t) : scope_.read_bits(o, {'b', t.bits}));
  return render("BYTES_OF(v{})", index);
}

void Call::assign_results() {
  for (size_t i = 0; i < ins_.call_returns.size(); ++i) {
    const Operand& to = ins_.call_returns[i];
    if (scope_.is_call_parameter(to.name)) continue;
    int bits = scope_.function.registers.at(to.name).bits;
    scope_.assign(out_, to, expr({'b', bits}, "v{}", i));
  }
}

// A caller may declare more results than a function of C has: surplus pointers are dropped.
void Call::invoke(const ptx::Function& callee) {
  std::string arguments;
  for (size_t i = 0; i < pointers_.size(); ++i)
    if (i < callee.returns.size() || i >= ins_.call_returns.size())
      arguments += ", " + pointers_[i];
  out_.add("f_{}(c, t, lp + {}{})", scope_.kernel.function_index.at(callee.name),
           scope_.local_bytes(), arguments);
}

// A function's address is its number in the module; any other value faults.
void Call::invoke_indirect() {
  const auto& functions = scope_.kernel.module.functions;
  Expr target = scope_.read(ins_.operands[0], kU64);
  auto block = out_.block("switch ({})", target);
  for (size_t i = 0; i < functions.size(); ++i) {
    const ptx::Function& f = functions[i];
    if (!f.defined || !scope_.kernel.function_index.count(f.name) ||
        f.returns.size() != ins_.call_returns.size() || !fits(f))
      continue;
    out_.line("case {}:", hex(ptx::function_address(i), 64));
    invoke(f);
    out_.add("break");
  }
  out_.add("default: c->host->fault(c, FAULT_ADDRESS, {})", target);
}

bool Call::invoke_built_in(const std::string& name) {
  if (name == kAssertion && pointers_.size() == 5) {
    out_.add("call_assertion(c, {}, {}, {}, {}, {}, {}, {})", pointers_[0], pointers_[1],
             pointers_[2], pointers_[3], scope_.thread("x"), scope_.thread("y"),
             scope_.thread("z"));
    return true;
  }
  auto it = kBuiltIns.find(name);
  if (it == kBuiltIns.end() || it->second.pointers != pointers_.size()) return false;
  std::string arguments;
  for (auto& p : pointers_) arguments += ", " + p;
  out_.add("{}(c{})", it->second.function, arguments);
  return true;
}

// Return the number of bytes behind the pointer that argument() returns for an operand.
uint64_t Call::passed_bytes(const Operand& o) const {
  constexpr uint64_t kRegisterBytes = 8;
  if (!scope_.is_call_parameter(o.name)) return kRegisterBytes;
  return std::max(kRegisterBytes, scope_.variable(o.name)->bytes);
}

// A callee reads its parameters at constant offsets: the caller must pass at least as many bytes.
bool Call::fits(const ptx::Function& callee) const {
  if (callee.params.size() != ins_.call_arguments.size() ||
      callee.returns.size() > ins_.call_returns.size())
    return false;
  auto enough = [&](const ptx::Variable& p, const Operand& o) {
    return p.bytes <= passed_bytes(o);
  };
  for (size_t i = 0; i < callee.returns.size(); ++i)
    if (!enough(callee.returns[i], ins_.call_returns[i])) return false;
  for (size_t i = 0; i < callee.params.size(); ++i)
    if (!enough(callee.params[i], ins_.call_arguments[i])) return false;
  return true;
}

}  // namespace

bool is_built_in(const std::string& name) {
  return name == kAssertion || kBuiltIns.count(name);
}

void emit_call(FunctionScope& scope, const Instruction& ins, Code& out) {
  Call(scope, ins, out).emit();
}

std::string prototype(const FunctionScope& scope) {
  std::string parameters;
  size_t count = scope.function.returns.size() + scope.function.params.size();
  for (size_t i = 0; i < count; ++i) parameters += render(", Bytes arg{}", i);
  return render("FUNCTION({}{})", scope.kernel.function_index.at(scope.function.name), parameters);
}

}  // namespace softgpu::emit
