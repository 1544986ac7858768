#include "images/ptx_variables.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>
#include <string>

#include "checked_size.h"

namespace busbar::images {

namespace {
constexpr uint64_t kMinAlignment = 16, kMaxAlignment = 1 << 20;  // bytes
constexpr uint64_t kLargestElement = 16;                         // bytes; of an unknown type
constexpr uint64_t kUnitBytes = 4096;                            // of a module's memory

enum class Kind { word, directive, number, punctuation, end };
struct Token {
  Kind kind = Kind::end;
  std::string_view text;  // a directive has no dot
};

bool is_word_part(char c) {
  return std::isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%';
}

// Splits PTX into tokens. Blanks, comments and strings separate tokens and are left out.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}
  Token next();
  // Null, or why compilers may read the text differently.
  const char* ambiguity() const { return ambiguity_; }

 private:
  char at(size_t i) const { return i < text_.size() ? text_[i] : '\0'; }
  void skip_past(std::string_view end) {
    size_t found = text_.find(end, at_);
    at_ = found == text_.npos ? text_.size() : found + end.size();
  }
  void skip_blanks();
  void skip_line_comment();
  std::string_view take_word() {
    size_t from = at_;
    while (is_word_part(at(at_))) ++at_;
    return text_.substr(from, at_ - from);
  }
  std::string_view text_;
  size_t at_ = 0;
  const char* ambiguity_ = nullptr;
};

void Lexer::skip_line_comment() {
  at_ = std::min(text_.find_first_of("\r\n\f\v", at_), text_.size());
  if (at_ < text_.size() && at(at_) != '\n' && at(at_ + 1) != '\n')
    ambiguity_ = "a comment of the PTX contains a control character";
}

void Lexer::skip_blanks() {
  while (at_ < text_.size()) {
    if (std::isspace((unsigned char)text_[at_])) {
      ++at_;
    } else if (at(at_) == '/' && at(at_ + 1) == '/') {
      skip_line_comment();
    } else if (at(at_) == '/' && at(at_ + 1) == '*') {
      at_ += 2;
      skip_past("*/");
    } else if (at(at_) == '"') {
      ++at_;
      skip_past("\"");
      if (text_.substr(0, at_).ends_with("\\\"")) ambiguity_ = "a string of the PTX ends with \\\"";
    } else {
      return;
    }
  }
}

Token Lexer::next() {
  skip_blanks();
  if (at_ >= text_.size()) return {};
  char c = text_[at_];
  if (std::isdigit((unsigned char)c)) return {Kind::number, take_word()};
  if (is_word_part(c)) return {Kind::word, take_word()};
  ++at_;
  if (c == '.' && is_word_part(at(at_))) return {Kind::directive, take_word()};
  return {Kind::punctuation, text_.substr(at_ - 1, 1)};
}

// Instructions whose modifiers name a state space.
const std::set<std::string_view> kInstructions = {
    "ld",       "ldu",           "st",           "atom",      "red",
    "cvta",     "isspacep",      "prefetch",     "prefetchu", "cp",
    "multimem", "tensormap",     "fence",        "membar",    "discard",
    "wmma",     "applypriority", "createpolicy", "mbarrier"};

// Bytes of an element by the name of its type; 0: the directive is no type.
uint64_t bytes_of_type(std::string_view d) {
  if (d == "texref" || d == "surfref" || d == "samplerref") return 64;
  if (d == "pred") return 1;
  size_t digit = d.find_first_of("0123456789");
  if (digit == d.npos || digit == 0) return 0;
  std::string_view letters = d.substr(0, digit), digits = d.substr(digit);
  if (letters != "b" && letters != "u" && letters != "s" && letters != "f" && letters != "bf" &&
      letters != "tf")
    return 0;
  uint64_t bits = 0;
  auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), bits);
  if (failed != std::errc() || bits < 8 || bits > 8 * kLargestElement) return 0;
  bool is_pair = std::string_view(end, digits.size() - (size_t)(end - digits.data())) == "x2";
  uint64_t bytes = (bits + 7) / 8;
  // NOLINTNEXTLINE(custom-unchecked-sum): at most kLargestElement
  return is_pair ? bytes + bytes : bytes;
}

// 12, 0x1f, 017, 0b101, each also with U.
bool parse_number(std::string_view text, uint64_t& value) {
  if (text.ends_with('U')) text.remove_suffix(1);
  int base = 10;
  if (text.size() > 1 && text[0] == '0') {
    char second = (char)std::tolower((unsigned char)text[1]);
    base = second == 'x' ? 16 : second == 'b' ? 2 : 8;
    text.remove_prefix(base == 8 ? 1 : 2);
  }
  auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return failed == std::errc() && end == text.data() + text.size();
}

class Measure {
 public:
  explicit Measure(std::string_view text) : lexer_(text) { advance(); }
  bool run(uint64_t& bytes, const char*& error);

 private:
  struct Element {
    uint64_t bytes = 0, count = 1, align = kMinAlignment;
  };
  void advance() {
    before_ = now_;
    now_ = lexer_.next();
  }
  bool is(const char* punctuation) const {
    return now_.kind == Kind::punctuation && now_.text == punctuation;
  }
  bool fail(const char* why) {
    error_ = why;
    return false;
  }
  bool is_counted_space() const {
    return now_.kind == Kind::directive && (now_.text == "global" || now_.text == "const");
  }
  bool read_number(uint64_t& value, const char* close);
  void pass_token();
  // A state space of an instruction: only functions have instructions.
  bool in_instruction() const { return braces_ > 0 && kInstructions.count(word_); }
  bool read_space();
  bool read_attributes(Element& e);
  bool read_alignment(Element& e);
  bool skip_parentheses();
  bool read_variables(const Element& e);
  bool read_dimensions(CheckedSize& elements, bool& unsized);
  uint64_t skip_initializer();

  Lexer lexer_;
  Token now_, before_;
  std::string_view word_;  // the newest token that is no directive, if it is a word
  bool is_extern_ = false;
  int braces_ = 0, parentheses_ = 0;  // open ones
  CheckedSize total_ = 0;
  const char* error_ = nullptr;
};

bool Measure::run(uint64_t& bytes, const char*& error) {
  while (now_.kind != Kind::end && !error_) {
    if (is_counted_space() && !in_instruction())
      read_space();
    else
      pass_token();
  }
  if (lexer_.ambiguity()) fail(lexer_.ambiguity());
  CheckedSize rounded = total_.rounded_up(kUnitBytes);
  if (!error_ && !rounded.valid()) fail("the variables of the module are too large");
  bytes = rounded.value();
  error = error_;
  return !error_;
}

// Notes what a following state space belongs to.
void Measure::pass_token() {
  if (is("#")) fail("PTX with lines of a preprocessor is not supported");
  braces_ += is("{") - is("}");
  parentheses_ += is("(") - is(")");
  if (now_.kind != Kind::directive) {
    word_ = now_.kind == Kind::word ? now_.text : "";
    is_extern_ = false;
  } else if (now_.text == "extern") {
    is_extern_ = true;
  }
  advance();
}

// A state space, and the variables in it. `.ptr .global` describes a parameter.
bool Measure::read_space() {
  bool is_pointer = parentheses_ > 0 && before_.kind == Kind::directive && before_.text == "ptr";
  advance();
  Element e;
  if (is_pointer) return true;
  if (is("[")) {  // the bank of a constant
    uint64_t bank;
    advance();
    if (!read_number(bank, "]")) return false;
  }
  if (!read_attributes(e)) return false;
  if (!e.bytes) e.bytes = kLargestElement;
  if (now_.kind == Kind::word) return read_variables(e);
  return braces_ > 0 || fail("a variable has no name");
}

bool Measure::read_number(uint64_t& value, const char* close) {
  if (now_.kind != Kind::number || !parse_number(now_.text, value))
    return fail("the size or alignment of a variable is no plain number");
  advance();
  if (close && !is(close)) return fail("the size of a variable is no plain number");
  if (close) advance();
  return true;
}

// .align 8 .v2 .f32 .attribute(.managed). Of several the largest counts.
bool Measure::read_attributes(Element& e) {
  while (now_.kind == Kind::directive) {
    std::string_view d = now_.text;
    advance();
    e.bytes = std::max(e.bytes, bytes_of_type(d));
    if (d.size() == 2 && d[0] == 'v' && std::isdigit((unsigned char)d[1]))
      e.count = std::max(e.count, (uint64_t)(d[1] - '0'));
    if (d == "align" && !read_alignment(e)) return false;
    if (d == "attribute" && !skip_parentheses()) return false;
  }
  return true;
}

bool Measure::read_alignment(Element& e) {
  uint64_t align = 0;
  if (!read_number(align, nullptr)) return false;
  if (align > kMaxAlignment || (align & (align - 1)))
    return fail("the alignment of a variable is not supported");
  e.align = std::max(e.align, align);
  return true;
}

// (.unified(1, 2))
bool Measure::skip_parentheses() {
  int open = 0;
  do {
    if (now_.kind == Kind::end || is(";") || is("{") || is("}"))
      return fail("an attribute has no closing parenthesis");
    open += is("(") - is(")");
    advance();
  } while (open > 0);
  return true;
}

// name, name[4][5], name<3>, name[] = {1, 2}, name[0] = {1, 2};
bool Measure::read_variables(const Element& e) {
  while (now_.kind == Kind::word) {
    advance();
    CheckedSize elements = e.count;
    bool unsized = false;
    if (!read_dimensions(elements, unsized)) return false;
    uint64_t values = is("=") ? skip_initializer() : 0;
    if (unsized) elements = elements * values;
    // A compiler may place the variables in another order, so each has its own padding.
    if (!is_extern_)
      total_ = total_ + (elements * e.bytes).rounded_up(kMinAlignment) + (e.align - kMinAlignment);
    if (!is(",")) return true;
    advance();
  }
  return true;
}

bool Measure::read_dimensions(CheckedSize& elements, bool& unsized) {
  while (is("[") || is("<")) {
    const char* close = is("[") ? "]" : ">";
    advance();
    if (is("]")) {
      unsized = true;
      advance();
      continue;
    }
    uint64_t n = 0;
    if (!read_number(n, close)) return false;
    if (n)
      elements = elements * n;
    else
      unsized = true;
  }
  return true;
}

// Returns the number of values, or more. The comma after a list belongs to the declaration.
uint64_t Measure::skip_initializer() {
  uint64_t values = 1;
  int depth = 0;
  for (advance(); now_.kind != Kind::end && !is(";"); advance()) {
    depth += is("{") - is("}");
    if (depth < 0 || is_counted_space()) fail("the initial value of a variable is malformed");
    if (is(",") && depth == 0) break;
    if (is(",")) ++values;
  }
  return values;
}
}  // namespace

bool measure_ptx_variables(std::string_view text, uint64_t& bytes, const char*& error) {
  return Measure(text).run(bytes, error);
}

}  // namespace busbar::images
