// PTX text to tokens. Words keep their dots apart so that `ld.global.u32` is five tokens.
#pragma once
#include <string>
#include <vector>
#include "softgpu/ptx/ir.h"

namespace softgpu::ptx {

enum class TokenKind { word, directive, integer, real32, real64, text, punctuation, end };

struct Token {
  TokenKind kind = TokenKind::end;
  std::string text;   // word: the name; directive: the word after the dot
  uint64_t bits = 0;  // value of a number
  int line = 0;
  bool glued = false;  // no blank before it: tells `ld.u32` from `ld .u32`
};

// Throws Refusal on a byte that is not PTX or when a limit is passed.
std::vector<Token> tokenize(const std::string& text);

}  // namespace softgpu::ptx
