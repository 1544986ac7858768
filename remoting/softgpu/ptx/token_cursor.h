// The position of the parser in the tokens of a module. The last token is always TokenKind::end, on
// which the cursor stays.
#pragma once
#include <string>
#include <vector>

#include "softgpu/ptx/lexer.h"

namespace softgpu::ptx {

class TokenCursor {
 public:
  explicit TokenCursor(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& next() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  bool at_end() const { return current().kind == TokenKind::end; }
  bool is_kind(TokenKind kind) const { return current().kind == kind; }
  bool is(const char* punctuation) const {
    return is_kind(TokenKind::punctuation) && current().text == punctuation;
  }
  bool is_directive(const char* name) const {
    return is_kind(TokenKind::directive) && current().text == name;
  }

  // Return the current token and advance.
  Token take();
  // Advance over `punctuation`; return false if it is not the current token.
  bool accept(const char* punctuation);
  // Advance over a required token. Throw Refusal if it is missing.
  void expect(const char* punctuation);
  std::string word();
  uint64_t integer();  // with an optional minus sign, as two's complement

  // Return the labels of the block that begins at the cursor, without those of nested blocks.
  std::vector<std::string> labels_of_block() const;

  // Advance over a directive with plain arguments: to the end of its line or behind its `;`. Throw
  // Refusal if something else is on the line.
  void skip_line();
  // Advance over `until`. Throw Refusal if the text ends or a brace comes first; `what` is
  // unfinished.
  void skip_past(const char* until, const std::string& what);

  // Throw Refusal at the current line.
  [[noreturn]] void refuse(const std::string& why) const { throw Refusal{current().line, why}; }

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
};

}  // namespace softgpu::ptx
