#include "softgpu/ptx/instruction_parser.h"

#include "softgpu/ptx/constant_parser.h"

namespace softgpu::ptx {

constexpr size_t kMaxVectorElements = 8, kMaxAddressElements = 3;
constexpr int kMaxOperandDepth = 4;  // of brackets in an operand

Instruction InstructionParser::parse() {
  Instruction ins;
  ins.line = cursor_.current().line;
  if (cursor_.accept("@")) {
    ins.guard_negated = cursor_.accept("!");
    ins.guard = scopes_.resolve(cursor_.word());
  }
  ins.op = cursor_.word();
  while (cursor_.is_kind(TokenKind::directive)) ins.mods.push_back(cursor_.take().text);
  if (ins.op == "call")
    call(ins);
  else if (!cursor_.is(";"))
    do ins.operands.push_back(operand());
    while (cursor_.accept(","));
  cursor_.expect(";");
  return ins;
}

// call (results), function, (arguments), prototype
void InstructionParser::call(Instruction& ins) {
  if (cursor_.is("(")) {
    ins.call_returns = operand_list();
    cursor_.expect(",");
  }
  ins.operands.push_back(operand());
  if (!cursor_.accept(",")) return;
  if (!cursor_.is("(")) {
    ins.call_list = scopes_.resolve(cursor_.word());
    return;
  }
  ins.call_arguments = operand_list();
  if (cursor_.accept(",")) ins.call_list = scopes_.resolve(cursor_.word());
}

Checked<Operand> InstructionParser::operand_list() {
  Checked<Operand> out;
  cursor_.expect("(");
  while (!cursor_.accept(")")) {
    out.push_back(operand());
    if (cursor_.accept(",") == cursor_.is(")"))
      cursor_.refuse("expected ',' or ')' before '" + cursor_.current().text + "'");
  }
  return out;
}

Operand InstructionParser::operand() {
  Operand first = simple_operand();
  if (!cursor_.accept("|")) return first;
  Operand pair{OperandKind::pair, "", 0, 0, false, {}};
  pair.elements = {first, simple_operand()};
  return pair;
}

Operand InstructionParser::simple_operand() {
  if (cursor_.accept("[")) return nested(&InstructionParser::address);
  if (cursor_.accept("{")) return nested(&InstructionParser::vector);
  if (begins_constant(cursor_) &&
      !((cursor_.is("!") || cursor_.is("-")) && cursor_.next().kind == TokenKind::word))
    return parse_constant(cursor_);
  Operand o;
  o.negated = cursor_.accept("!");
  if (!cursor_.is_kind(TokenKind::word))
    cursor_.refuse("expected an operand before '" + cursor_.current().text + "'");
  name(o);
  return o;
}

Operand InstructionParser::nested(Operand (InstructionParser::*parse)()) {
  if (++depth_ > kMaxOperandDepth) cursor_.refuse("operands are nested more than 4 levels deep");
  Operand o = (this->*parse)();
  --depth_;
  return o;
}

// A register, a special register, a symbol or a label. The emitter distinguishes registers from
// symbols.
void InstructionParser::name(Operand& o) {
  if (cursor_.current().text == "_") {
    cursor_.take();
    o.kind = OperandKind::sink;
    return;
  }
  const std::string text = cursor_.take().text;
  o.name = scopes_.resolve(text);
  bool special = text[0] == '%' && o.name == text && !scopes_.declared(text);
  o.kind = special ? OperandKind::special : OperandKind::reg;
  if (auto it = vectors_.find(o.name); it != vectors_.end()) return vector_register(o, it->second);
  const Token& t = cursor_.current();
  if (t.kind == TokenKind::directive && t.glued &&
      (t.text == "x" || t.text == "y" || t.text == "z" || t.text == "w"))
    o.name += "." + cursor_.take().text;
  if (cursor_.accept("+")) {
    o.kind = OperandKind::symbol;
    o.offset = parse_integer(cursor_);
  } else if (cursor_.accept("[")) {
    o.kind = OperandKind::symbol;
    o.indexed = true;
    if (cursor_.is_kind(TokenKind::word) && !begins_constant(cursor_))
      o.elements.push_back({OperandKind::reg, scopes_.resolve(cursor_.word()), 0, 0, false, {}});
    else
      o.index = parse_integer(cursor_);
    cursor_.expect("]");
  }
}

// `v`, or its elements `v.x`, `v.y`, `v.z` and `v.w`, which are also `v.r`, `v.g`, `v.b` and `v.a`
void InstructionParser::vector_register(Operand& o, int elements) {
  static const std::string kSelectors = "xyzwrgba";
  if (cursor_.is_kind(TokenKind::directive)) {
    const std::string selector = cursor_.take().text;
    size_t i = selector.size() == 1 ? kSelectors.find(selector) : kSelectors.npos;
    if (i == kSelectors.npos || (int)(i % 4) >= elements)
      cursor_.refuse("." + selector + " is no element of a vector register");
    o.name = element_of_vector(o.name, (int)(i % 4));
    return;
  }
  if (o.negated) cursor_.refuse("a vector register is negated");
  for (int i = 0; i < elements; ++i)
    o.elements.push_back({OperandKind::reg, element_of_vector(o.name, i), 0, 0, false, {}});
  o.kind = OperandKind::vector;
  o.name.clear();
}

// `register+offset`, `symbol`, `number`, or `texture, sampler, coordinates`
Operand InstructionParser::address() {
  Operand a{OperandKind::address, "", 0, 0, false, {}};
  if (begins_constant(cursor_)) {
    a.offset = parse_integer(cursor_);
  } else {
    Operand base{OperandKind::reg, scopes_.resolve(cursor_.word()), 0, 0, false, {}};
    a.elements.push_back(base);
    if (cursor_.accept("+")) a.offset = parse_integer(cursor_);
    while (cursor_.accept(",")) {
      if (a.elements.size() == kMaxAddressElements) cursor_.refuse("expected ']' before ','");
      a.elements.push_back(simple_operand());
    }
  }
  cursor_.expect("]");
  return a;
}

Operand InstructionParser::vector() {
  Operand v{OperandKind::vector, "", 0, 0, false, {}};
  do v.elements.push_back(simple_operand());
  while (cursor_.accept(","));
  cursor_.expect("}");
  if (v.elements.size() > kMaxVectorElements) cursor_.refuse("a vector has more than 8 elements");
  for (auto& e : v.elements)
    if (e.kind == OperandKind::symbol) cursor_.refuse("an element of a vector is no sum");
  return v;
}

}  // namespace softgpu::ptx
