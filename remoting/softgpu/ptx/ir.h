// A PTX module in memory: made by the parser, read by the control flow analysis and the emitter.
#pragma once
#include <algorithm>
#include <bitset>
#include <cstdint>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace softgpu::ptx {

// Thrown for a text that is malformed or not supported. The message names the instruction or
// declaration.
struct Refusal {
  int line = 0;  // of the PTX text; 0 if it concerns no line
  std::string message;
};

enum class Space { none, reg, param, shared, local, global, constant };

// A scalar type of the instruction set: kind (b u s f p, h for bf16) and width in bits.
struct Type {
  char kind = 'b';
  int bits = 32;
  bool operator==(const Type&) const = default;
  bool is_float() const { return kind == 'f' || kind == 'h'; }
  bool is_signed() const { return kind == 's'; }
  int bytes() const { return bits / 8; }
};

// A list whose accesses throw std::out_of_range: the PTX text determines its length.
template <typename T>
struct Checked : std::vector<T> {
  using std::vector<T>::vector;
  T& operator[](size_t i) { return this->at(i); }
  const T& operator[](size_t i) const { return this->at(i); }
  T& back() { return this->at(this->size() - 1); }
  const T& back() const { return this->at(this->size() - 1); }
};

enum class OperandKind {
  reg,
  integer,
  real32,
  real64,
  symbol,
  address,
  vector,
  sink,
  pair,
  special
};

struct Operand {
  OperandKind kind = OperandKind::sink;
  std::string name;           // reg, symbol, special: the resolved name
  uint64_t bits = 0;          // integer: its value; real32, real64: the bits of the literal
  int64_t offset = 0;         // address, symbol: displacement in bytes
  bool negated = false;       // !%p
  Checked<Operand> elements;  // vector, pair; address: its base; symbol: a register to add
  bool indexed = false;       // symbol: an element of an array, until resolve_elements()
  int64_t index = 0;          // its number
};

struct Instruction {
  std::string op;             // opcode: "ld", "mad", "bra"
  Checked<std::string> mods;  // modifiers and types in order, without the dot
  Checked<Operand> operands;
  std::string guard;  // predicate register; empty: unconditional
  bool guard_negated = false;
  Checked<Operand> call_returns, call_arguments;
  int line = 0;
  // The modifiers that the emitter has used, by index. It refuses an instruction with others.
  mutable std::bitset<64> used = {};
  std::string call_list = {};  // of a call: its prototype or list of targets

  bool has(const std::string& word) const { return find(word) < mods.size(); }
  // Return whether the modifier is present, and mark it as used.
  bool take(const std::string& word) const {
    size_t i = find(word);
    if (i < used.size() && i < mods.size()) used.set(i);
    return i < mods.size();
  }
  // Return the first modifier that is in `words`, which has count(), and mark it as used; null if
  // there is none.
  template <typename Words>
  const std::string* take_one_of(const Words& words) const {
    for (size_t i = 0; i < mods.size(); ++i)
      if (words.count(mods[i])) return &take_at(i);
    return nullptr;
  }
  // Return the modifier at `i` and mark it as used.
  const std::string& take_at(size_t i) const {
    const std::string& word = mods[i];
    if (i < used.size()) used.set(i);
    return word;
  }

 private:
  size_t find(const std::string& word) const {
    return (size_t)(std::find(mods.begin(), mods.end(), word) - mods.begin());
  }
};

// A variable or parameter of a state space.
struct Variable {
  std::string name;
  Space space = Space::none;
  Type type;
  uint64_t align = 1, bytes = 0;
  std::vector<uint64_t> dimensions;  // of an array; the first is 0 if it has no size
  bool vector = false;               // .v2 or .v4
  bool external = false;             // defined in another module
  bool common = false;               // another definition may replace it and be larger
  std::vector<uint8_t> initial;      // initial bytes; empty: zero
  // An 8-byte place of `initial` that holds the address of a symbol.
  struct Reference {
    uint64_t at;  // offset in bytes
    std::string symbol;
    int64_t addend;  // in bytes
  };
  std::vector<Reference> references;
  // Return whether it is an array without a size.
  bool is_open() const { return !dimensions.empty() && dimensions[0] == 0; }
};

struct Function {
  std::string name;
  bool entry = false;                                // a kernel
  bool defined = false;                              // it has a body
  std::vector<Variable> params, returns, variables;  // variables: shared, local and call parameters
  std::map<std::string, Type> registers;
  std::vector<Instruction> body;
  std::map<std::string, size_t> labels;  // label to the index of the instruction behind it
  std::map<std::string, std::vector<std::string>> branch_targets;  // lists of brx.idx
  std::set<std::string> call_lists;  // labels of .callprototype and .calltargets
  uint32_t max_threads = 1024;       // of a thread block
  // Return whether it declares a register, label, parameter or variable, which hides what the
  // module calls so.
  bool declares(const std::string& word) const {
    for (auto* list : {&params, &returns, &variables})
      for (auto& v : *list)
        if (v.name == word) return true;
    return registers.count(word) || labels.count(word);
  }
};

struct Module {
  int version_major = 0, version_minor = 0;
  std::string target;
  std::vector<Variable> variables;
  std::vector<Function> functions;
  // Return the function with a body, or null.
  const Function* find(const std::string& name) const {
    for (auto& f : functions)
      if (f.name == name && f.defined) return &f;
    return nullptr;
  }
  // Return the function with or without a body, or null.
  const Function* function(const std::string& name) const {
    for (auto& f : functions)
      if (f.name == name) return &f;
    return nullptr;
  }
  const Variable* variable(const std::string& name) const {
    for (auto& v : variables)
      if (v.name == name) return &v;
    return nullptr;
  }
};

// Return the value of a pointer to function number `index` of the module. It is never an address of
// the host.
inline uint64_t function_address(size_t index) {
  // NOLINTNEXTLINE(custom-unchecked-product): of a list in memory
  return 0x100 + 16 * (uint64_t)index;
}

// Parse a module. Throw Refusal if it is malformed or exceeds a limit: 64 MiB of text, 4 Mi tokens,
// 65,536 registers in a declaration, 4 GiB in a variable.
Module parse(const std::string& text);

}  // namespace softgpu::ptx
