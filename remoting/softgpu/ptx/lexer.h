// Splits PTX text into tokens. `ld.global.u32` is one word and two directives.
#pragma once
#include <string>
#include <vector>
#include "softgpu/ptx/ir.h"

namespace softgpu::ptx {

enum class TokenKind { word, directive, integer, real32, real64, text, punctuation, end };

struct Token {
  TokenKind kind = TokenKind::end;
  std::string text;    // word: the name; directive: the word after the dot
  uint64_t bits = 0;   // value of a number
  int line = 0;        // of the text, from 1
  bool glued = false;  // no blank precedes it, as in `ld.u32` and unlike `ld .u32`
};

// Return the tokens; the last one is TokenKind::end. Throw Refusal for a byte that is not PTX or if
// a limit is exceeded.
std::vector<Token> tokenize(const std::string& text);

}  // namespace softgpu::ptx
