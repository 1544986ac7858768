// Functions: their head, declarations, labels and instructions.
#pragma once
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
  void block(int depth);
  void directive();
  void registers();
  void label();
  void check_branches() const;

  TokenCursor& cursor_;
  Scopes scopes_;
  Function f_;
};

}  // namespace softgpu::ptx
