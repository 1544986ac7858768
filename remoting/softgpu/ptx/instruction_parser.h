// Instructions and their operands.
#pragma once
#include "softgpu/ptx/ir.h"
#include "softgpu/ptx/scopes.h"
#include "softgpu/ptx/token_cursor.h"

namespace softgpu::ptx {

class InstructionParser {
 public:
  InstructionParser(TokenCursor& cursor, const Scopes& scopes) : cursor_(cursor), scopes_(scopes) {}

  // Parse one instruction up to its semicolon. Throw Refusal if it is malformed.
  Instruction parse();

 private:
  void call(Instruction& ins);
  Checked<Operand> operand_list();
  Operand operand();
  Operand simple_operand();
  Operand address();
  Operand vector();
  void name(Operand& o);

  TokenCursor& cursor_;
  const Scopes& scopes_;
};

}  // namespace softgpu::ptx
