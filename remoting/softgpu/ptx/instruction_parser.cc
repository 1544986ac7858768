#include "softgpu/ptx/instruction_parser.h"

namespace softgpu::ptx {

constexpr size_t kMaxVectorElements = 8;

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
    operand();  // a prototype or list of targets
    return;
  }
  ins.call_arguments = operand_list();
  if (cursor_.accept(",")) operand();
}

Checked<Operand> InstructionParser::operand_list() {
  Checked<Operand> out;
  cursor_.expect("(");
  while (!cursor_.accept(")")) {
    out.push_back(operand());
    if (!cursor_.accept(",") && !cursor_.is(")"))
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
  if (cursor_.accept("[")) return address();
  if (cursor_.accept("{")) return vector();
  Operand o;
  o.negated = cursor_.accept("!");
  switch (cursor_.current().kind) {
    case TokenKind::integer: o.kind = OperandKind::integer; break;
    case TokenKind::real32: o.kind = OperandKind::real32; break;
    case TokenKind::real64: o.kind = OperandKind::real64; break;
    case TokenKind::word: name(o); return o;
    default:
      if (!cursor_.is("-"))
        cursor_.refuse("expected an operand before '" + cursor_.current().text + "'");
      o.kind = OperandKind::integer;
      o.bits = cursor_.integer();
      return o;
  }
  o.bits = cursor_.take().bits;
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
  if (text == "WARP_SZ") {
    o.kind = OperandKind::integer;
    o.bits = 32;
    return;
  }
  bool special = text[0] == '%' && o.name == text && !scopes_.declared(text);
  o.kind = special ? OperandKind::special : OperandKind::reg;
  const Token& t = cursor_.current();
  if (t.kind == TokenKind::directive && t.glued &&
      (t.text == "x" || t.text == "y" || t.text == "z" || t.text == "w"))
    o.name += "." + cursor_.take().text;
  if (cursor_.accept("+")) {
    o.kind = OperandKind::symbol;
    o.offset = (int64_t)cursor_.integer();
  } else if (cursor_.accept("[")) {  // the address of the first element
    o.kind = OperandKind::symbol;
    if (cursor_.integer()) cursor_.refuse(text + "[n] is supported for n = 0 only");
    cursor_.expect("]");
  }
}

// `register+offset`, `symbol`, `number`, or `texture, coordinates`
Operand InstructionParser::address() {
  Operand a{OperandKind::address, "", 0, 0, false, {}};
  if (cursor_.is_kind(TokenKind::integer)) {
    a.offset = (int64_t)cursor_.integer();
  } else {
    Operand base{OperandKind::reg, scopes_.resolve(cursor_.word()), 0, 0, false, {}};
    a.elements.push_back(base);
    if (cursor_.accept("+") || cursor_.is("-")) a.offset = (int64_t)cursor_.integer();
    if (cursor_.accept(",")) a.elements.push_back(simple_operand());
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
  return v;
}

}  // namespace softgpu::ptx
