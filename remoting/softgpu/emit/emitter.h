// Writes one kernel as C. The text names nothing of the program: registers, functions and labels
// become numbers.
#pragma once
#include <string>
#include "softgpu/ptx/control_flow.h"
#include "softgpu/ptx/ir.h"

namespace softgpu::emit {

// What the driver needs to run the compiled kernel.
struct KernelSource {
  std::string text;
  std::vector<std::string> globals;  // module variables in the order of Cta.globals
  uint64_t shared_bytes = 0;         // static shared memory
  uint64_t local_bytes = 0;          // of one thread, calls included
  uint64_t constant_bytes = 0;       // constant variables that it names
  uint64_t registers = 0;  // 32-bit ones, as a compiler without registers to share would need
};

KernelSource emit_kernel(const ptx::Module& module, const ptx::Function& kernel);

struct Stream;

// Code of one function; the instruction families below add to `out`.
class FunctionEmitter {
 public:
  struct Shared {  // what all functions of one kernel share
    const ptx::Module& module;
    std::map<std::string, size_t> global_index;
    std::map<std::string, uint64_t> shared_offset;
    std::map<std::string, int> function_index;
  };

  FunctionEmitter(const Shared& shared, const ptx::Function& f)
      : shared_(shared), f_(f), flow_(ptx::analyse(f)) {
    layout();
  }

  std::string lockstep_kernel();  // struct Warp, members(), run_warp(), busbar_kernel()
  std::string scalar_kernel();    // one thread after the other
  std::string device_function();  // a called function, lane by lane
  std::string checked(std::string (
      FunctionEmitter::*emit)());  // one of these; an instruction that lacks something is refused
  std::string prototype() const;
  bool cross_lane() const { return flow_.cross_lane; }
  uint64_t local_bytes() const { return local_bytes_; }

 private:
  friend struct Arithmetic;
  void layout();
  std::string stream_function();  // stream.cc; empty when the kernel is of another kind
  std::string stream_slice(const Stream& s);
  std::string registers(bool only_frame, bool array) const;
  std::string constants() const;
  std::string stack(bool always) const;
  std::string blocks_scalar();
  std::string block_lockstep(size_t b);
  std::string lane_body(size_t b);
  std::string sync_body(size_t b);
  std::string terminator_lockstep(size_t b);
  std::string members_function();
  std::string indexed_branch(const ptx::Instruction& ins, const std::string& jump) const;
  std::string whole_barrier(size_t b) const;
  std::string barrier_entry(const ptx::Instruction& ins, size_t b) const;
  std::string reduction_result(size_t b) const;
  bool reduces(size_t b) const;
  void group_accesses(
      const ptx::Block& block,
      std::map<size_t, std::string>& before);  // groups.cc: C to put before an instruction
  bool mentions(const ptx::Block& block, const std::string& name) const;

  // One instruction as C statements for the current lane. Throws ptx::Refusal.
  void statement(const ptx::Instruction& ins, std::string& out);
  bool arithmetic(const ptx::Instruction& ins, std::string& out);  // arithmetic.cc
  bool compare(const ptx::Instruction& ins, std::string& out);     // compare.cc
  bool convert(const ptx::Instruction& ins, std::string& out);     // convert.cc
  bool convert_e8m0(const ptx::Instruction& ins, std::string& out);
  bool convert_fp8(const ptx::Instruction& ins, std::string& out);
  void move(const ptx::Instruction& ins, std::string& out);
  bool bits(const ptx::Instruction& ins, std::string& out);      // bits.cc
  bool memory(const ptx::Instruction& ins, std::string& out);    // memory.cc
  bool atomic(const ptx::Instruction& ins, std::string& out);    // memory.cc
  bool texture(const ptx::Instruction& ins, std::string& out);   // texture.cc
  bool mbarrier(const ptx::Instruction& ins, std::string& out);  // mbarrier.cc
  bool copy_async(const ptx::Instruction& ins, std::string& out);
  void check_parameter(const ptx::Instruction& ins, const ptx::Operand& a, uint64_t bytes) const;
  bool call(const ptx::Instruction& ins, std::string& out);  // calls.cc
  std::string argument(const ptx::Operand& o, int index, std::string& before) const;
  std::string parameter(const std::string& name) const;  // its bytes, as a C expression
  bool built_in(const std::string& name, const std::vector<std::string>& pointers,
                std::string& out) const;
  std::string invoke(const ptx::Instruction& ins, const ptx::Function& callee,
                     const std::vector<std::string>& pointers) const;
  std::string indirect(const ptx::Instruction& ins, const std::vector<std::string>& pointers) const;
  bool fits(const ptx::Instruction& ins, const ptx::Function& callee) const;
  void exchange(const ptx::Instruction& ins, std::string& out) const;  // cross_lane.cc
  std::string members(const ptx::Instruction& ins) const;
  void shuffle(const ptx::Instruction& ins, std::string& out) const;
  void vote(const ptx::Instruction& ins, std::string& out) const;
  void match(const ptx::Instruction& ins, std::string& out) const;
  void reduce(const ptx::Instruction& ins, std::string& out) const;
  void multiply_matrices(const ptx::Instruction& ins, std::string& out) const;  // matrix.cc
  void multiply_doubles(const ptx::Instruction& ins, std::string& out) const;
  void move_matrices(const ptx::Instruction& ins, std::string& out) const;
  void wmma(const ptx::Instruction& ins, std::string& out) const;  // wmma.cc
  void move_fragment(const ptx::Instruction& ins, std::string& out) const;
  void multiply_fragments(const ptx::Instruction& ins, std::string& out) const;
  std::string lanes_to(const ptx::Operand& o, const std::string& array, int bits) const;
  std::string lanes_from(const ptx::Operand& o, const std::string& array, int bits) const;
  std::string wmma_address(const ptx::Instruction& ins, const ptx::Operand& o, ptx::Space space,
                           int bytes) const;
  void elect(const ptx::Instruction& ins, std::string& out) const;
  void transpose_matrix(const ptx::Instruction& ins, std::string& out) const;

  // Operands as C expressions.
  std::string reg(const std::string& name) const;
  std::string read(const ptx::Operand& o, ptx::Type t) const;  // typed by t
  std::string read_bits(const ptx::Operand& o,
                        ptx::Type t) const;  // unsigned, floats uninterpreted
  std::string write(const ptx::Operand& o, ptx::Type t, const std::string& value) const;
  std::string special(const std::string& name, int line) const;
  std::string thread(const std::string& what) const;
  std::string symbol_address(const std::string& name, int line) const;
  std::string address(const ptx::Instruction& ins, const ptx::Operand& o, ptx::Space space,
                      int bytes) const;
  [[noreturn]] void refuse(const ptx::Instruction& ins, const std::string& why = "") const;

  const Shared& shared_;
  const ptx::Function& f_;
  ptx::ControlFlow flow_;
  std::map<std::string, int> register_index_;
  std::map<std::string, uint64_t> local_offset_;  // .local variables
  std::map<std::string, int> param_index_;        // call parameters declared in bodies
  std::set<std::string> kept_params_;             // those that live longer than one block
  std::map<std::string, uint64_t> kernel_param_offset_;
  uint64_t local_bytes_ = 0;
  enum class Mode {
    scalar,
    lanes,
    called
  } mode_ = Mode::called;  // lanes: registers live in the warp's frame
  const std::map<const ptx::Instruction*, std::string>* places_ =
      nullptr;  // of accesses whose addresses are known to be right
  std::map<const ptx::Instruction*, std::string>
      grouped_;  // of accesses that were checked together
  int groups_ = 0;
  mutable int line_ = 0;
};

// "s32", "f64", … and back.
ptx::Type type_of(const std::string& word, bool& known);
ptx::Type last_type(const ptx::Instruction& ins);
std::string c_type(ptx::Type t);   // u32, s64, f32
std::string storage(ptx::Type t);  // the unsigned type that holds it
std::string hex(uint64_t v, int bits);

}  // namespace softgpu::emit
