// Functions: their head, declarations, labels and instructions.
#pragma once
#include "softgpu/ptx/instruction_parser.h"
#include "softgpu/ptx/ir.h"
#include "softgpu/ptx/scopes.h"
#include "softgpu/ptx/token_cursor.h"

namespace softgpu::ptx {

class FunctionParser {
 public:
  explicit FunctionParser(TokenCursor& cursor) : cursor_(cursor) {}

  // Parse a function from `.entry` or `.func` on. Its `defined` is false for a declaration. Throw
  // Refusal if the text is malformed.
  Function parse();

 private:
  void attributes();
  void attribute(const std::string& d, int numbers);
  void check_parameters() const;
  void block(int depth);
  void directive();
  void registers();
  void label();
  void prototype();
  // Declare a register or variable in the innermost scope. Return its unique name.
  std::string declare(const std::string& name);
  void declare_register(const std::string& name, Type type, int elements);
  void check_branches() const;

  TokenCursor& cursor_;
  Scopes scopes_;
  VectorRegisters vectors_;
  Function f_;
};

}  // namespace softgpu::ptx
