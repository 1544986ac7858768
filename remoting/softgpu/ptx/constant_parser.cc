#include "softgpu/ptx/constant_parser.h"

#include <bit>
#include <cstdlib>
#include <functional>

namespace softgpu::ptx {
namespace {

constexpr int kMaxDepth = 64;

struct Value {
  OperandKind kind = OperandKind::integer;
  uint64_t bits = 0;
  bool is_unsigned = false;
  bool is_real() const { return kind != OperandKind::integer; }
  double real() const {
    return kind == OperandKind::real32 ? (double)std::bit_cast<float>((uint32_t)bits)
                                       : std::bit_cast<double>(bits);
  }
};

Value real_value(double d) {
  return {OperandKind::real64, std::bit_cast<uint64_t>(d), false};
}

// Operators of two operands, by precedence: the first level binds weakest.
constexpr int kLevels = 10;
const char* const kOperators[kLevels][4] = {
    {"||"},       {"&&"},     {"|"},     {"^"}, {"&"}, {"==", "!="}, {"<=", ">=", "<", ">"},
    {"<<", ">>"}, {"+", "-"}, {"*", "/"}};

class ConstantParser {
 public:
  explicit ConstantParser(TokenCursor& cursor) : cursor_(cursor) {}
  Value choice(int depth);

 private:
  Value binary(int level, int depth);
  Value unary(int depth);
  Value primary(int depth);
  Value number();
  Value apply(const std::string& op, const Value& a, const Value& b) const;
  Value apply_real(const std::string& op, const Value& a, const Value& b) const;
  const char* accept_operator(int level);

  TokenCursor& cursor_;
};

// `condition ? a : b`
Value ConstantParser::choice(int depth) {
  if (depth > kMaxDepth) cursor_.refuse("a constant is nested more than 64 levels deep");
  Value condition = binary(0, depth);
  if (!cursor_.accept("?")) return condition;
  Value yes = choice(depth + 1);
  cursor_.expect(":");
  Value no = choice(depth + 1);
  if (condition.is_real()) cursor_.refuse("the condition of a constant is a float");
  return condition.bits ? yes : no;
}

// Two tokens that are glued form one operator, as `<<`. `|` alone may separate operands.
const char* ConstantParser::accept_operator(int level) {
  for (const char* op : kOperators[level]) {
    if (!op || !cursor_.is(std::string(1, op[0]).c_str())) continue;
    const Token& second = cursor_.next();
    bool glued = second.kind == TokenKind::punctuation && second.glued;
    if (op[1] && !(glued && second.text[0] == op[1])) continue;
    if (!op[1] && glued && (second.text[0] == op[0] || second.text[0] == '=') && op[0] != '+' &&
        op[0] != '-')
      continue;
    cursor_.take();
    if (op[1]) cursor_.take();
    return op;
  }
  return nullptr;
}

Value ConstantParser::binary(int level, int depth) {
  if (level == kLevels) return unary(depth);
  Value value = binary(level + 1, depth);
  while (const char* op = accept_operator(level))
    value = apply(op, value, binary(level + 1, depth));
  return value;
}

Value ConstantParser::apply_real(const std::string& op, const Value& a, const Value& b) const {
  if (!a.is_real() || !b.is_real()) cursor_.refuse("a constant mixes integers and floats");
  if (op == "+") return real_value(a.real() + b.real());
  if (op == "-") return real_value(a.real() - b.real());
  if (op == "*") return real_value(a.real() * b.real());
  if (op == "/" && b.real() != 0) return real_value(a.real() / b.real());
  cursor_.refuse("operator " + op + " of float constants is not supported by the software GPU");
}

Value ConstantParser::apply(const std::string& op, const Value& a, const Value& b) const {
  if (a.is_real() || b.is_real()) return apply_real(op, a, b);
  bool is_unsigned = a.is_unsigned || b.is_unsigned;
  uint64_t x = a.bits, y = b.bits;
  int64_t s = (int64_t)x, t = (int64_t)y;
  auto compare = [&](bool less_unsigned, bool less_signed) {
    return Value{OperandKind::integer, is_unsigned ? less_unsigned : less_signed, false};
  };
  if (op == "<") return compare(x < y, s < t);
  if (op == ">") return compare(x > y, s > t);
  if (op == "<=") return compare(x <= y, s <= t);
  if (op == ">=") return compare(x >= y, s >= t);
  if (op == "==") return compare(x == y, x == y);
  if (op == "!=") return compare(x != y, x != y);
  if (op == "&&") return compare(x && y, x && y);
  if (op == "||") return compare(x || y, x || y);
  if ((op == "<<" || op == ">>") && y > 63) cursor_.refuse("a constant is shifted by more than 63");
  if (op == "/" && (y == 0 || (!is_unsigned && s == INT64_MIN && t == -1)))
    cursor_.refuse("a constant is divided by zero");
  // NOLINTNEXTLINE(custom-unchecked-product): wraps as in PTX
  uint64_t product = x * y;
  uint64_t bits = op == "+"    ? x + y
                  : op == "-"  ? x - y
                  : op == "*"  ? product
                  : op == "/"  ? (is_unsigned ? x / y : (uint64_t)(s / t))
                  : op == "&"  ? x & y
                  : op == "|"  ? x | y
                  : op == "^"  ? x ^ y
                  : op == "<<" ? x << y
                               : (a.is_unsigned ? x >> y : (uint64_t)(s >> y));
  return {OperandKind::integer, bits, is_unsigned};
}

Value ConstantParser::unary(int depth) {
  if (depth > kMaxDepth) cursor_.refuse("a constant is nested more than 64 levels deep");
  for (const char* sign : {"+", "-", "~", "!"}) {
    if (!cursor_.accept(sign)) continue;
    bool literal = cursor_.is_kind(TokenKind::real32);
    Value v = unary(depth + 1);
    if (*sign == '+' && !v.is_real()) return v;
    if (*sign == '-' && v.is_real() && !literal) return real_value(-v.real());
    if (v.is_real()) cursor_.refuse(std::string("operator ") + sign + " of a float constant");
    uint64_t bits = *sign == '-' ? 0 - v.bits : *sign == '~' ? ~v.bits : (uint64_t)(v.bits == 0);
    return {OperandKind::integer, bits, v.is_unsigned && *sign != '!'};
  }
  return primary(depth);
}

// `(expression)`, `(.s64) value`, `(.u64) value` or a number
Value ConstantParser::primary(int depth) {
  if (!cursor_.accept("(")) return number();
  if (cursor_.is_directive("s64") || cursor_.is_directive("u64")) {
    bool is_unsigned = cursor_.take().text == "u64";
    cursor_.expect(")");
    Value v = unary(depth + 1);
    if (v.is_real()) cursor_.refuse("a float constant is converted to an integer");
    return {OperandKind::integer, v.bits, is_unsigned};
  }
  Value v = choice(depth + 1);
  cursor_.expect(")");
  return v;
}

Value ConstantParser::number() {
  const Token& t = cursor_.current();
  switch (t.kind) {
    case TokenKind::real32: return {OperandKind::real32, cursor_.take().bits, false};
    case TokenKind::real64: return {OperandKind::real64, cursor_.take().bits, false};
    case TokenKind::integer: {
      Token taken = cursor_.take();
      return {OperandKind::integer, taken.bits, taken.text == "U" || taken.bits >> 63 != 0};
    }
    case TokenKind::word:
      if (t.text != "WARP_SZ") break;
      cursor_.take();
      return {OperandKind::integer, 32, false};
    case TokenKind::directive:  // `.5`
      if (t.text.find_first_not_of("0123456789") != std::string::npos) break;
      return real_value(std::strtod(("0." + cursor_.take().text).c_str(), nullptr));
    default: break;
  }
  cursor_.refuse("expected a number before '" + t.text + "'");
}

}  // namespace

bool begins_constant(const TokenCursor& cursor) {
  switch (cursor.current().kind) {
    case TokenKind::integer:
    case TokenKind::real32:
    case TokenKind::real64: return true;
    case TokenKind::word: return cursor.current().text == "WARP_SZ";
    case TokenKind::directive:
      return cursor.current().text.find_first_not_of("0123456789") == std::string::npos;
    case TokenKind::punctuation:
      return cursor.is("+") || cursor.is("-") || cursor.is("~") || cursor.is("!") || cursor.is("(");
    default: return false;
  }
}

Operand parse_constant(TokenCursor& cursor) {
  Value v = ConstantParser(cursor).choice(0);
  return {v.kind, "", v.bits, 0, false, {}};
}

int64_t parse_integer(TokenCursor& cursor) {
  Operand o = parse_constant(cursor);
  if (o.kind != OperandKind::integer) cursor.refuse("expected an integer constant");
  return (int64_t)o.bits;
}

}  // namespace softgpu::ptx
