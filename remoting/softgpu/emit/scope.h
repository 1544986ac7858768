// The names in the C of one function: registers, special registers, variables, parameters and
// addresses.
//
// Registers, functions and labels become numbers, so that the C contains no name of the PTX text.
// Thread safety: none. A scope belongs to one function of one kernel.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "softgpu/emit/address_text.h"
#include "softgpu/emit/code.h"
#include "softgpu/emit/types.h"
#include "softgpu/ptx/control_flow.h"
#include "softgpu/ptx/ir.h"

namespace softgpu::emit {

// The names that all functions of one kernel share.
struct KernelScope {
  const ptx::Module& module;
  std::map<std::string, size_t> global_index;     // module variable to its index in Cta.globals
  std::map<std::string, uint64_t> shared_offset;  // shared variable to its offset in bytes
  std::map<std::string, int> function_index;      // called function to its number in the C
};

class FunctionScope {
 public:
  // The execution of the instructions; see docs/glossary.md.
  enum class Mode {
    serial,    // registers are variables of the thread loop
    lockstep,  // registers live in the warp's frame
    called,    // a called function: registers are its variables
  };

  FunctionScope(const KernelScope& kernel, const ptx::Function& function);

  const KernelScope& kernel;
  const ptx::Function& function;
  const ptx::ControlFlow flow;
  Mode mode = Mode::called;

  // Set the instruction that errors name. None of its modifiers is used.
  void begin(const ptx::Instruction& ins) {
    instruction_ = &ins;
    ins.used.reset();
  }
  // Refuse the current instruction if it has a modifier that was neither used since begin() nor is
  // without effect on this device.
  void end() const;
  // Throw ptx::Refusal for the current instruction: it is not supported, because of `why`.
  [[noreturn]] void refuse(const std::string& why = "") const;
  // Throw ptx::Refusal for the current instruction: `why` is wrong with it.
  [[noreturn]] void reject(const std::string& why) const;

  // Operands.
  bool is_register(const std::string& name) const { return function.registers.count(name) > 0; }
  Expr reg(const std::string& name) const;                   // the variable that holds the register
  Expr read(const ptx::Operand& o, ptx::Type t) const;       // the value as a `t`
  std::string sum(const ptx::Operand& o) const;              // of a symbol and an offset
  Expr read_bits(const ptx::Operand& o, ptx::Type t) const;  // unsigned; floats uninterpreted
  // Append the assignment of `value` to a register or to the sink.
  void assign(Code& out, const ptx::Operand& to, const Expr& value) const;
  std::string predicate(const ptx::Instruction& ins) const;  // the guard of a guarded instruction
  // A member of the running thread: x, y, z, lane or warp.
  std::string thread(const std::string& member) const;

  // Variables. A name stands for one variable of the function or the module.
  // Return the variable of a name, or null.
  const ptx::Variable* variable(const std::string& name) const;
  // The address of a variable or function as an integer. Parameters of called functions have none.
  std::string symbol_address(const std::string& name) const;

  // Parameters: of the function, and those that it passes to others.
  bool is_parameter(const std::string& name) const {
    return is_call_parameter(name) || kernel_param_offset_.count(name) > 0;
  }
  // Return whether the name is a parameter of a call: a variable of bytes in the C.
  bool is_call_parameter(const std::string& name) const { return param_name_.count(name) > 0; }
  std::string parameter(const std::string& name) const;      // the variable of its bytes in the C
  uint64_t parameter_offset(const std::string& name) const;  // of its bytes in that variable
  bool mentions(const ptx::Block& block, const std::string& name) const;

  // Addresses of instructions that a group or row covers.
  std::map<const ptx::Instruction*, AddressText> covered;

  // Declarations.
  void declare_registers(Code& out) const;        // as variables, with the call parameters
  void declare_frame_registers(Code& out) const;  // as members of struct Warp
  void declare_block_locals(Code& out, const ptx::Block& block) const;
  void declare_constants(Code& out) const;
  void declare_stack(Code& out, bool with_calls) const;
  uint64_t local_bytes() const { return local_bytes_; }  // stack of one thread

 private:
  void index_variables();
  void lay_out_params();
  void lay_out_variables();
  void declare_parameter(Code& out, const ptx::Variable& v) const;
  Expr literal(const ptx::Operand& o, ptx::Type t) const;
  std::string special(const std::string& name) const;

  std::map<std::string, int> register_index_;
  std::map<std::string, const ptx::Variable*> variable_;  // of the function, parameters included
  std::map<std::string, uint64_t> local_offset_;          // .local variable to its offset, in bytes
  std::map<std::string, std::string> param_name_;         // call parameter to its C name
  std::set<std::string> kept_params_;                     // call parameters that outlive one block
  std::map<std::string, uint64_t> kernel_param_offset_;   // in bytes
  uint64_t kernel_param_bytes_ = 0;
  uint64_t local_bytes_ = 0;
  const ptx::Instruction* instruction_ = nullptr;
};

}  // namespace softgpu::emit
