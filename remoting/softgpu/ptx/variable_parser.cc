#include "softgpu/ptx/variable_parser.h"

#include <algorithm>

namespace softgpu::ptx {

const std::map<std::string, Type> kTypes = {
    {"b8", {'b', 8}},     {"b16", {'b', 16}}, {"b32", {'b', 32}}, {"b64", {'b', 64}},
    {"b128", {'b', 128}}, {"u8", {'u', 8}},   {"u16", {'u', 16}}, {"u32", {'u', 32}},
    {"u64", {'u', 64}},   {"s8", {'s', 8}},   {"s16", {'s', 16}}, {"s32", {'s', 32}},
    {"s64", {'s', 64}},   {"f16", {'f', 16}}, {"f32", {'f', 32}}, {"f64", {'f', 64}},
    {"pred", {'p', 8}}};

namespace {

const std::map<std::string, Space> kSpaces = {{"global", Space::global}, {"shared", Space::shared},
                                              {"local", Space::local},   {"const", Space::constant},
                                              {"param", Space::param},   {"reg", Space::reg}};
constexpr uint64_t kMaxVariableBytes = 1ull << 32;
constexpr uint64_t kMaxAlignment = 4096;  // bytes
constexpr int kMaxDepth = 64;             // of nested initializers

// `.ptr .global .align 4`: nothing of it is used.
void skip_pointer_attributes(TokenCursor& cursor) {
  while (cursor.is_kind(TokenKind::directive) &&
         (kSpaces.count(cursor.current().text) || cursor.is_directive("align")))
    if (cursor.take().text == "align") cursor.integer();
}

struct DeclaredType {
  bool known = false;
  int elements = 1;  // of .v2 and .v4
};

void parse_attribute(TokenCursor& cursor, Variable& v, DeclaredType& type) {
  std::string d = cursor.take().text;
  if (d == "align") {
    v.align = cursor.integer();
  } else if (d == "ptr") {
    skip_pointer_attributes(cursor);
  } else if (d == "v2" || d == "v4") {
    type.elements = d == "v2" ? 2 : 4;
  } else if (d == "attribute") {
    cursor.expect("(");
    cursor.skip_past(")", ".attribute");
  } else if (auto it = kTypes.find(d); it != kTypes.end()) {
    v.type = it->second;
    type.known = true;
  } else if (d == "texref" || d == "surfref" || d == "samplerref") {
    cursor.refuse("." + d + " is not supported by the software GPU");
  } else {
    cursor.refuse("unknown type ." + d);
  }
}

void parse_dimensions(TokenCursor& cursor, Variable& v) {
  while (cursor.accept("[")) {
    uint64_t n = cursor.is("]") ? 0 : cursor.integer();
    cursor.expect("]");
    if (n && v.bytes > kMaxVariableBytes / n)
      cursor.refuse("variable " + v.name + " is larger than 4 GiB");
    v.bytes *= n;
  }
}

void append(Variable& v, uint64_t bits) {
  for (int i = 0; i < v.type.bytes(); ++i)
    v.initial.push_back(i < 8 ? (uint8_t)(bits >> (8 * i)) : 0);
}

// `generic(symbol)+4` or `symbol`; `mask(symbol)` is refused.
void parse_initial_address(TokenCursor& cursor, Variable& v) {
  std::string name = cursor.word();
  if (cursor.accept("(")) {
    if (name != "generic") cursor.refuse("initializer " + name + "() is not supported");
    name = cursor.word();
    cursor.expect(")");
  }
  int64_t addend = cursor.accept("+") ? (int64_t)cursor.integer() : 0;
  v.references.push_back({v.initial.size(), name, addend});
  append(v, 0);
}

void parse_initial_value(TokenCursor& cursor, Variable& v, int depth) {
  if (depth > kMaxDepth) cursor.refuse("an initializer is nested more than 64 levels deep");
  if (cursor.accept("{")) {
    if (!cursor.is("}")) do
        parse_initial_value(cursor, v, depth + 1);
      while (cursor.accept(","));
    cursor.expect("}");
  } else if (cursor.is_kind(TokenKind::word)) {
    parse_initial_address(cursor, v);
  } else if (cursor.is_kind(TokenKind::real32) || cursor.is_kind(TokenKind::real64)) {
    append(v, cursor.take().bits);
  } else {
    append(v, cursor.integer());
  }
}

}  // namespace

Variable parse_declaration(TokenCursor& cursor) {
  Variable v;
  auto space = kSpaces.find(cursor.current().text);
  if (!cursor.is_kind(TokenKind::directive) || space == kSpaces.end())
    cursor.refuse("unknown directive ." + cursor.current().text);
  v.space = space->second;
  cursor.take();
  DeclaredType type;
  while (cursor.is_kind(TokenKind::directive)) parse_attribute(cursor, v, type);
  if (!type.known) cursor.refuse("a variable has no type");
  v.name = cursor.word();
  v.bytes = (uint64_t)v.type.bytes() * (uint64_t)type.elements;
  v.align = std::max<uint64_t>(v.align, (uint64_t)v.type.bytes());
  if (v.align > kMaxAlignment || (v.align & (v.align - 1)))
    cursor.refuse("alignment of " + v.name + " is not a power of two up to 4096");
  parse_dimensions(cursor, v);
  return v;
}

void parse_declaration_end(TokenCursor& cursor, Variable& v) {
  if (cursor.accept("=")) {
    parse_initial_value(cursor, v, 0);
    if (v.bytes == 0) v.bytes = v.initial.size();
    if (v.initial.size() > v.bytes) cursor.refuse("too many initial values for " + v.name);
    v.initial.resize(v.bytes);
  }
  while (cursor.accept(",")) cursor.word();  // further names are not used by any compiler
  cursor.expect(";");
}

std::vector<Variable> parse_parameters(TokenCursor& cursor) {
  std::vector<Variable> out;
  cursor.expect("(");
  while (!cursor.accept(")")) {
    out.push_back(parse_declaration(cursor));
    if (!cursor.accept(",") && !cursor.is(")"))
      cursor.refuse("expected ',' or ')' in a parameter list");
  }
  return out;
}

}  // namespace softgpu::ptx
