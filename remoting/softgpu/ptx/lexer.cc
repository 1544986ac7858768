#include "softgpu/ptx/lexer.h"

#include <cctype>
#include <cstring>

namespace softgpu::ptx {
namespace {

constexpr size_t kMaxTextBytes = 64u << 20;
constexpr size_t kMaxTokens = 4u << 20;

bool word_start(char c) {
  return std::isalpha((unsigned char)c) || c == '_' || c == '$' || c == '%';
}
bool word_part(char c) {
  return std::isalnum((unsigned char)c) || c == '_' || c == '$';
}

// Return the value of a hexadecimal digit.
uint64_t digit(char c) {
  return (uint64_t)(std::isdigit((unsigned char)c) ? c - '0' : (c | 32) - 'a' + 10);
}

struct Scanner {
  const std::string& text;
  size_t at = 0;
  int line = 1;
  std::vector<Token> tokens;

  char peek(size_t ahead = 0) const { return at + ahead < text.size() ? text[at + ahead] : '\0'; }
  [[noreturn]] void refuse(const std::string& why) const { throw Refusal{line, why}; }

  bool skip_blanks() {
    size_t from = at;
    while (at < text.size()) {
      char c = text[at];
      if (c == '\n') {
        ++line;
        ++at;
      } else if (c == '\0' || std::isspace((unsigned char)c))
        ++at;
      else if (c == '/' && peek(1) == '/')
        while (at < text.size() && text[at] != '\n') ++at;
      else if (c == '/' && peek(1) == '*')
        skip_comment();
      else
        break;
    }
    return at != from;
  }

  void skip_comment() {
    at += 2;
    while (at < text.size() && !(text[at] == '*' && peek(1) == '/')) {
      if (text[at] == '\n') ++line;
      ++at;
    }
    at = std::min(at + 2, text.size());
  }

  void push(TokenKind kind, std::string s, uint64_t bits, bool glued) {
    if (tokens.size() >= kMaxTokens) refuse("the module has more than 4194304 tokens");
    tokens.push_back({kind, std::move(s), bits, line, glued});
  }

  std::string word() {
    size_t from = at++;
    while (at < text.size() && word_part(text[at])) ++at;
    return text.substr(from, at - from);
  }

  uint64_t hex(int digits) {
    uint64_t v = 0;
    for (int i = 0; i < digits; ++i, ++at) {
      if (!std::isxdigit((unsigned char)peek()))
        refuse("a float literal has too few hexadecimal digits");
      // NOLINTNEXTLINE(custom-unchecked-product): at most 16 digits
      v = v * 16 + digit(text[at]);
    }
    return v;
  }

  void number(bool glued) {
    if (peek() == '0' && (peek(1) | 32) == 'f') {
      at += 2;
      uint64_t v = hex(8);
      push(TokenKind::real32, "", v, glued);
      return;
    }
    if (peek() == '0' && (peek(1) | 32) == 'd') {
      at += 2;
      uint64_t v = hex(16);
      push(TokenKind::real64, "", v, glued);
      return;
    }
    size_t end = at;
    while (end < text.size() && std::isdigit((unsigned char)text[end])) ++end;
    bool is_hex = peek() == '0' && (peek(1) | 32) == 'x';
    bool binary = peek() == '0' && (peek(1) | 32) == 'b';
    bool fraction = end < text.size() && text[end] == '.' &&
                    !(end + 1 < text.size() && word_start(text[end + 1]));
    bool exponent = end < text.size() && (text[end] | 32) == 'e';
    if (!is_hex && !binary && (fraction || exponent))
      real(glued);
    else
      integer(is_hex, binary, glued);
    if (word_part(peek())) refuse("a number is followed by '" + std::string(1, peek()) + "'");
  }

  void real(bool glued) {
    char* stop = nullptr;
    double d = std::strtod(text.c_str() + at, &stop);
    uint64_t bits;
    std::memcpy(&bits, &d, 8);
    at = (size_t)(stop - text.c_str());
    push(TokenKind::real64, "", bits, glued);
  }

  void integer(bool is_hex, bool binary, bool glued) {
    uint64_t base = is_hex ? 16 : binary ? 2 : peek() == '0' ? 8 : 10;
    if (is_hex || binary) at += 2;
    if (!std::isxdigit((unsigned char)peek())) refuse("a number has no digits");
    uint64_t v = 0;
    for (; std::isxdigit((unsigned char)peek()) && digit(peek()) < base; ++at) {
      if (v >> 63) refuse("constant overflow");
      // NOLINTNEXTLINE(custom-unchecked-product): wraps as in ptxas
      v = v * base + digit(peek());
    }
    bool is_unsigned = peek() == 'U';
    if (is_unsigned) ++at;
    push(TokenKind::integer, is_unsigned ? "U" : "", v, glued);
  }

  void quoted(bool glued) {
    size_t from = ++at;
    while (at < text.size() && text[at] != '"') {
      if (text[at] == '\n') ++line;
      ++at;
    }
    push(TokenKind::text, text.substr(from, at - from), 0, glued);
    at = std::min(at + 1, text.size());
  }

  void run() {
    for (;;) {
      bool glued = !skip_blanks();
      if (at >= text.size()) break;
      char c = text[at];
      if (word_start(c)) {
        auto w = word();
        push(TokenKind::word, w, 0, glued);
      } else if (c == '.' && word_start(peek(1))) {
        ++at;
        auto w = word();
        push(TokenKind::directive, scoped(w), 0, glued);
      } else if (c == '.' && std::isdigit((unsigned char)peek(1))) {
        size_t from = ++at;
        while (word_part(peek())) ++at;
        push(TokenKind::directive, text.substr(from, at - from), 0, glued);
      } else if (std::isdigit((unsigned char)c))
        number(glued);
      else if (c == '"')
        quoted(glued);
      else if (std::strchr("{}()[]<>,;:+-!@=|*&~/^?", c)) {
        ++at;
        push(TokenKind::punctuation, std::string(1, c), 0, glued);
      } else
        refuse(std::string("unexpected character '") +
               (std::isprint((unsigned char)c) ? std::string(1, c)
                                               : "\\x" + std::to_string((unsigned char)c)) +
               "'");
    }
    push(TokenKind::end, "", 0, false);
  }

  // `.shared::cta` and `.L2::128B` are words.
  std::string scoped(std::string w) {
    while (peek() == ':' && peek(1) == ':' && word_part(peek(2))) {
      at += 2;
      w += "::" + word();
    }
    return w;
  }
};

}  // namespace

std::vector<Token> tokenize(const std::string& text) {
  if (text.size() > kMaxTextBytes) throw Refusal{0, "the module is larger than 64 MiB"};
  Scanner s{text, 0, 1, {}};
  s.run();
  return std::move(s.tokens);
}

}  // namespace softgpu::ptx
