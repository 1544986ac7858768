// C source text under construction: expressions with their type, statements and nested blocks.
//
// Patterns are C with one {} for each argument; the count is checked when the emitter is compiled.
// A pattern with a pointer does not compile: memory is accessed through an AddressText of access.h.
// Thread safety: none. A Code object belongs to one function of one kernel.
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "softgpu/ptx/ir.h"

namespace softgpu::emit {

class AddressText;  // see access.h

// A C expression and the PTX type of its value.
struct Expr {
  std::string text;
  ptx::Type type;
};

template <size_t Arguments>
struct PatternText {
  std::string_view text;
  template <size_t N>
  consteval PatternText(const char (&literal)[N]) : text(literal, N - 1) {
    size_t found = 0;
    for (size_t i = 0; i + 1 < N; ++i) found += literal[i] == '{' && literal[i + 1] == '}';
    if (found != Arguments) throw "a pattern needs one {} for each argument";
    if (names_pointer(text)) throw "a pattern must not name a pointer: use Access";
  }
  // Return whether the text has a * that is no multiplication, or names the pointer of an address.
  static consteval bool names_pointer(std::string_view text) {
    for (size_t i = 0; i < text.size(); ++i)
      if (text[i] == '*' &&
          (i == 0 || text[i - 1] != ' ' || i + 1 == text.size() || text[i + 1] != ' '))
        return true;
    for (std::string_view word : {".at", "memcpy", "memset", "Bytes)"})
      if (text.find(word) != text.npos) return true;
    return false;
  }
};
template <typename... Args>
using Pattern = std::type_identity_t<PatternText<sizeof...(Args)>>;

namespace detail {
inline std::string piece(const std::string& text) {
  return text;
}
inline std::string piece(const char* text) {
  return text;
}
inline std::string piece(const Expr& expression) {
  return expression.text;
}
std::string piece(const AddressText& address);
template <typename Number>
  requires std::is_integral_v<Number>
std::string piece(Number number) {
  return std::to_string(number);
}
std::string fill(std::string_view pattern, std::initializer_list<std::string> pieces);
}  // namespace detail

// Return the pattern with its placeholders replaced.
template <typename... Args>
std::string render(Pattern<Args...> pattern, const Args&... args) {
  return detail::fill(pattern.text, {detail::piece(args)...});
}

// Return the pattern as an expression of type `type`.
template <typename... Args>
Expr expr(ptx::Type type, Pattern<Args...> pattern, const Args&... args) {
  return {detail::fill(pattern.text, {detail::piece(args)...}), type};
}

// Statements in order, each with its nesting depth.
class Code {
 public:
  // Closes its block at the end of its lifetime. Must not outlive the Code object.
  class Block {
   public:
    explicit Block(Code& code) : code_(&code) {}
    Block(Block&& other) noexcept : code_(std::exchange(other.code_, nullptr)) {}
    Block& operator=(Block&&) = delete;
    ~Block() {
      if (code_) code_->close();
    }

   private:
    Code* code_;
  };

  // Append one statement; the semicolon is added.
  template <typename... Args>
  void add(Pattern<Args...> statement, const Args&... args) {
    put(detail::fill(statement.text, {detail::piece(args)...}) + ";");
  }
  // Append a line that ends without a semicolon: a label or a case.
  template <typename... Args>
  void line(Pattern<Args...> text, const Args&... args) {
    put(detail::fill(text.text, {detail::piece(args)...}));
  }
  // Open `head {`. The block is closed when the result is destroyed.
  template <typename... Args>
  [[nodiscard]] Block block(Pattern<Args...> head, const Args&... args) {
    return open(detail::fill(head.text, {detail::piece(args)...}), "");
  }
  // Open `head {` for a declaration that ends with `tail`, such as a typedef.
  [[nodiscard]] Block block_with_tail(const std::string& head, const std::string& tail) {
    return open(head, tail);
  }
  // Append all lines of `other` at the current depth.
  void append(const Code& other);
  // Append finished C text, such as a runtime header, unchanged.
  void append_text(std::string text);

  bool empty() const { return lines_.empty(); }
  // Return the C text, indented by two spaces for each level.
  std::string text() const;

 private:
  struct Line {
    int depth;  // -1: finished text that is not indented
    std::string text;
  };
  void put(std::string text) { lines_.push_back({depth_, std::move(text)}); }
  Block open(const std::string& head, const std::string& tail);
  void close();

  std::vector<Line> lines_;
  std::vector<std::string> tails_;  // of the open blocks
  int depth_ = 0;
};

}  // namespace softgpu::emit
