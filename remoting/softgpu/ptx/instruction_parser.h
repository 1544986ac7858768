// Instructions and their operands.
#pragma once
#include <map>
#include <string>

#include "softgpu/ptx/ir.h"
#include "softgpu/ptx/scopes.h"
#include "softgpu/ptx/token_cursor.h"

namespace softgpu::ptx {

// The elements of the vector registers of a function, by their unique names.
using VectorRegisters = std::map<std::string, int>;

// Return the name of the register of an element.
inline std::string element_of_vector(const std::string& name, int index) {
  return name + "." + "xyzw"[index];
}

class InstructionParser {
 public:
  InstructionParser(TokenCursor& cursor, const Scopes& scopes, const VectorRegisters& vectors)
      : cursor_(cursor), scopes_(scopes), vectors_(vectors) {}

  // Parse one instruction up to its semicolon. Throw Refusal if it is malformed.
  Instruction parse();

 private:
  void call(Instruction& ins);
  Checked<Operand> operand_list();
  Operand operand();
  Operand simple_operand();
  Operand address();
  Operand vector();
  Operand nested(Operand (InstructionParser::*parse)());
  void name(Operand& o);
  void vector_register(Operand& o, int elements);

  TokenCursor& cursor_;
  const Scopes& scopes_;
  const VectorRegisters& vectors_;
  int depth_ = 0;  // of brackets in an operand
};

}  // namespace softgpu::ptx
