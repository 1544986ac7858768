#include "softgpu/ptx/token_cursor.h"

namespace softgpu::ptx {

Token TokenCursor::take() {
  Token t = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return t;
}

bool TokenCursor::accept(const char* punctuation) {
  if (!is(punctuation)) return false;
  take();
  return true;
}

void TokenCursor::expect(const char* punctuation) {
  if (!accept(punctuation))
    refuse(std::string("expected '") + punctuation + "' before '" + current().text + "'");
}

std::string TokenCursor::word() {
  if (!is_kind(TokenKind::word)) refuse("expected a name before '" + current().text + "'");
  return take().text;
}

uint64_t TokenCursor::integer() {
  bool minus = accept("-");
  if (!is_kind(TokenKind::integer)) refuse("expected a number before '" + current().text + "'");
  uint64_t v = take().bits;
  return minus ? 0 - v : v;
}

std::vector<std::string> TokenCursor::labels_of_block() const {
  std::vector<std::string> names;
  int depth = 0;
  for (size_t i = at_; i + 1 < tokens_.size() && depth >= 0; ++i) {
    const Token& t = tokens_[i];
    if (t.kind == TokenKind::punctuation) depth += t.text == "{" ? 1 : t.text == "}" ? -1 : 0;
    bool colon = tokens_[i + 1].kind == TokenKind::punctuation && tokens_[i + 1].text == ":";
    if (depth == 0 && t.kind == TokenKind::word && colon) names.push_back(t.text);
  }
  return names;
}

void TokenCursor::skip_line() {
  int line = take().line;
  while (!at_end() && current().line == line && !accept(";")) {
    bool is_plain = !is_kind(TokenKind::directive) &&
                    (!is_kind(TokenKind::punctuation) || is(",") || is("+") || is("-"));
    if (!is_plain) refuse("unexpected '" + current().text + "' behind a directive");
    take();
  }
}

void TokenCursor::skip_past(const char* until, const std::string& what) {
  while (!accept(until)) {
    if (at_end() || is("{") || is("}")) refuse("unfinished " + what);
    take();
  }
}

}  // namespace softgpu::ptx
