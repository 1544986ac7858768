// The PTX program as data: what the parser makes, what control_flow and the emitters read.
#pragma once
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace softgpu::ptx {

// Why a text was refused: the line, and a sentence that names the instruction.
struct Refusal {
  int line = 0;
  std::string message;
};

enum class Space { none, reg, param, shared, local, global, constant };

// A scalar type of the instruction set: letter (b u s f p) and width in bits.
struct Type {
  char kind = 'b';
  int bits = 32;
  bool operator==(const Type&) const = default;
  bool is_float() const { return kind == 'f' || kind == 'h'; }  // h: bf16
  bool is_signed() const { return kind == 's'; }
  int bytes() const { return bits / 8; }
};

// A list that throws std::out_of_range where std::vector would read what is not there: the program
// decides how long it is.
template <typename T>
struct Checked : std::vector<T> {
  using std::vector<T>::vector;
#ifndef SOFTGPU_PLANTED_UNCHECKED  // a test takes the checks away and looks whether the fuzzer
                                   // notices
  T& operator[](size_t i) { return this->at(i); }
  const T& operator[](size_t i) const { return this->at(i); }
  T& back() { return this->at(this->size() - 1); }
  const T& back() const { return this->at(this->size() - 1); }
#endif
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
  uint64_t bits = 0;          // integer or the bits of a float literal
  int64_t offset = 0;         // address: displacement
  bool negated = false;       // !%p
  Checked<Operand> elements;  // vector, pair; address: its base
};

struct Instruction {
  std::string op;             // first word: "ld", "mad", "bra"
  Checked<std::string> mods;  // the words after it, without the dot
  Checked<Operand> operands;
  std::string guard;  // predicate register or empty
  bool guard_negated = false;
  Checked<Operand> call_returns, call_arguments;
  int line = 0;
  bool has(const std::string& word) const {
    for (auto& m : mods)
      if (m == word) return true;
    return false;
  }
};

// A variable in some state space. `initial` holds bytes; `references` the places that hold
// addresses of symbols.
struct Variable {
  std::string name;
  Space space = Space::none;
  Type type;
  uint64_t align = 1, bytes = 0;
  bool external = false;
  std::vector<uint8_t> initial;
  struct Reference {
    uint64_t at;
    std::string symbol;
    int64_t addend;
  };
  std::vector<Reference> references;
};

struct Function {
  std::string name;
  bool entry = false, defined = false;
  std::vector<Variable> params, returns, variables;  // variables: shared, local and call parameters
  std::map<std::string, Type> registers;
  std::vector<Instruction> body;
  std::map<std::string, size_t> labels;  // label to index of the instruction it stands before
  std::map<std::string, std::vector<std::string>> branch_targets;
  uint32_t max_threads = 1024;
};

struct Module {
  int version_major = 0, version_minor = 0;
  std::string target;
  std::vector<Variable> variables;
  std::vector<Function> functions;
  const Function* find(const std::string& name) const {
    for (auto& f : functions)
      if (f.name == name && f.defined) return &f;
    return nullptr;
  }
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

// What a pointer to a function holds: its place in the module, never an address of the host.
inline uint64_t function_address(size_t index) {
  return 0x100 + 16 * (uint64_t)index;
}

// Parses a whole module. Throws Refusal. Bounded: 64 MiB of text, 4 Mi tokens, 4096 registers a
// declaration.
Module parse(const std::string& text);

}  // namespace softgpu::ptx
