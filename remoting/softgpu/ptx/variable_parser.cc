#include "softgpu/ptx/variable_parser.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "checked_size.h"
#include "softgpu/ptx/constant_parser.h"

namespace softgpu::ptx {

const std::map<std::string, Type> kTypes = {
    {"b8", {'b', 8}},     {"b16", {'b', 16}}, {"b32", {'b', 32}}, {"b64", {'b', 64}},
    {"b128", {'b', 128}}, {"u8", {'u', 8}},   {"u16", {'u', 16}}, {"u32", {'u', 32}},
    {"u64", {'u', 64}},   {"s8", {'s', 8}},   {"s16", {'s', 16}}, {"s32", {'s', 32}},
    {"s64", {'s', 64}},   {"f16", {'f', 16}}, {"f32", {'f', 32}}, {"f64", {'f', 64}},
    {"f16x2", {'b', 32}}, {"pred", {'p', 8}}};

namespace {

const std::map<std::string, Space> kSpaces = {{"global", Space::global}, {"shared", Space::shared},
                                              {"local", Space::local},   {"const", Space::constant},
                                              {"param", Space::param},   {"reg", Space::reg}};
constexpr uint64_t kMaxVariableBytes = 1ull << 32;
constexpr uint64_t kMaxAlignment = 65536, kMaxLocalAlignment = 4096;  // bytes
constexpr uint64_t kMaxVectorBytes = 16;
constexpr int kMaxDepth = 64;  // of nested initializers

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

// `(.managed)` or `(.unified(1, 2))`
void parse_attributes(TokenCursor& cursor, const Variable& v) {
  cursor.expect("(");
  do {
    if (!cursor.is_directive("managed") && !cursor.is_directive("unified"))
      cursor.refuse("unknown attribute '" + cursor.current().text + "'");
    if (cursor.take().text != "unified") continue;
    cursor.expect("(");
    (void)cursor.integer();
    cursor.expect(",");
    (void)cursor.integer();
    cursor.expect(")");
  } while (cursor.accept(","));
  cursor.expect(")");
  if (v.space != Space::global) cursor.refuse("an attribute belongs to .global");
}

void parse_attribute(TokenCursor& cursor, Variable& v, DeclaredType& type) {
  std::string d = cursor.take().text;
  if (d == "align") {
    v.align = cursor.integer();
    bool memory = v.space != Space::local && v.space != Space::param;
    uint64_t most = memory ? kMaxAlignment : kMaxLocalAlignment;
    if (v.align == 0 || v.align > most || (v.align & (v.align - 1)))
      cursor.refuse("alignment " + std::to_string(v.align) + " is not a power of two up to " +
                    std::to_string(most));
  } else if (d == "ptr") {
    skip_pointer_attributes(cursor);
  } else if (d == "v2" || d == "v4") {
    type.elements = d == "v2" ? 2 : 4;
    v.vector = true;
  } else if (d == "attribute") {
    parse_attributes(cursor, v);
  } else if (auto it = kTypes.find(d); it != kTypes.end()) {
    v.type = it->second;
    type.known = true;
  } else if (d == "texref" || d == "surfref" || d == "samplerref") {
    cursor.refuse("." + d + " is not supported by the software GPU");
  } else {
    cursor.refuse("unknown type ." + d);
  }
}

// Only the first dimension may be left open. The others together are a row, whose size is limited
// as that of a whole variable.
void parse_dimensions(TokenCursor& cursor, Variable& v) {
  CheckedSize bytes = v.bytes;
  while (cursor.accept("[")) {
    bool open = cursor.is("]");
    if (open && !v.dimensions.empty()) cursor.refuse("a dimension of " + v.name + " has no size");
    uint64_t n = open ? 0 : cursor.integer();
    cursor.expect("]");
    if (!open && n == 0) cursor.refuse("variable " + v.name + " has no elements");
    if (!open) bytes = bytes * n;
    if (!bytes.within(kMaxVariableBytes))
      cursor.refuse("variable " + v.name + " is larger than 4 GiB");
    v.dimensions.push_back(n);
  }
  v.bytes = v.is_open() ? 0 : bytes.value();
}

// Return the bytes of one element of dimension number `depth` - 1: a row of the ones behind it.
uint64_t row_bytes(const Variable& v, size_t depth) {
  CheckedSize bytes = (uint64_t)v.type.bytes();
  for (size_t i = depth; i < v.dimensions.size(); ++i) bytes = bytes * v.dimensions[i];
  return bytes.value();
}

// Set the size of the initial value, which grows by elements and by rows of zeros.
void resize_initial(const TokenCursor& cursor, Variable& v, uint64_t bytes) {
  if (bytes > (v.is_open() ? kMaxVariableBytes : v.bytes))
    cursor.refuse("too many initial values for " + v.name);
  v.initial.resize(bytes);
}

void append(const TokenCursor& cursor, Variable& v, uint64_t bits) {
  size_t at = v.initial.size();
  resize_initial(cursor, v, at + (uint64_t)v.type.bytes());
  std::memcpy(v.initial.data() + at, &bits, std::min<size_t>((size_t)v.type.bytes(), sizeof bits));
}

// A float needs a variable of a float or bit type, and an integer one of an integer or bit type.
// A variable of a bit type gets the bits of a float of 32 bits.
void append_constant(const TokenCursor& cursor, Variable& v, const Operand& value) {
  bool real = value.kind != OperandKind::integer;
  bool same_bits = v.type.kind == 'b' && (value.kind == OperandKind::real32 || v.type.bits == 64);
  if (real != v.type.is_float() && !(real && same_bits))
    cursor.refuse("the initial value of " + v.name + " has a wrong type");
  if (v.type.bits == 16 && real) cursor.refuse("initial values of .f16 are not allowed");
  uint64_t bits = value.bits;
  if (value.kind == OperandKind::real64 && v.type.bits == 32)
    bits = std::bit_cast<uint32_t>((float)std::bit_cast<double>(bits));
  if (value.kind == OperandKind::real32 && v.type.kind == 'f' && v.type.bits == 64)
    bits = std::bit_cast<uint64_t>((double)std::bit_cast<float>((uint32_t)bits));
  append(cursor, v, bits);
}

// `generic(symbol)+4` or `symbol`; `mask(symbol)` is refused.
void parse_initial_address(TokenCursor& cursor, Variable& v) {
  std::string name = cursor.word();
  if (cursor.accept("(")) {
    if (name != "generic") cursor.refuse("initializer " + name + "() is not supported");
    name = cursor.word();
    cursor.expect(")");
  }
  if (v.type.kind != 'u' || v.type.bits < 32)
    cursor.refuse("the initial value of " + v.name + " is an address, which needs .u64");
  int64_t addend = cursor.accept("+") ? parse_integer(cursor) : 0;
  v.references.push_back({v.initial.size(), name, addend});
  append(cursor, v, 0);
}

// The braces of an initial value are nested as the dimensions of its array.
void parse_initial_value(TokenCursor& cursor, Variable& v, size_t depth) {
  if (depth > kMaxDepth) cursor.refuse("an initializer is nested more than 64 levels deep");
  if (depth < v.dimensions.size()) {
    cursor.expect("{");
    size_t begin = v.initial.size();
    if (!cursor.is("}")) do
        parse_initial_value(cursor, v, depth + 1);
      while (cursor.accept(","));
    cursor.expect("}");
    if (depth == 0) return;
    uint64_t end = begin + row_bytes(v, depth);
    if (v.initial.size() > end) cursor.refuse("too many initial values in a row of " + v.name);
    resize_initial(cursor, v, end);
  } else if (cursor.is_kind(TokenKind::word) && !begins_constant(cursor)) {
    parse_initial_address(cursor, v);
  } else {
    append_constant(cursor, v, parse_constant(cursor));
  }
}

void parse_initial(TokenCursor& cursor, Variable& v) {
  if (v.space != Space::global && v.space != Space::constant)
    cursor.refuse("variable " + v.name + " may not have an initial value in its state space");
  if (v.external || v.vector)
    cursor.refuse("variable " + v.name + " may not have an initial value");
  parse_initial_value(cursor, v, 0);
  if (v.is_open()) v.bytes = v.initial.size();
  v.initial.resize(v.bytes);
}

}  // namespace

Variable parse_variable_type(TokenCursor& cursor) {
  Variable v;
  auto space = kSpaces.find(cursor.current().text);
  if (!cursor.is_kind(TokenKind::directive) || space == kSpaces.end())
    cursor.refuse("unknown directive ." + cursor.current().text);
  v.space = space->second;
  cursor.take();
  DeclaredType type;
  while (cursor.is_kind(TokenKind::directive)) parse_attribute(cursor, v, type);
  if (!type.known) cursor.refuse("a variable has no type");
  // NOLINTNEXTLINE(custom-unchecked-product): at most four elements of a type
  v.bytes = (uint64_t)v.type.bytes() * (uint64_t)type.elements;
  v.align = std::max<uint64_t>(v.align, (uint64_t)v.type.bytes());
  return v;
}

void parse_name(TokenCursor& cursor, Variable& v) {
  v.name = cursor.word();
  if (v.name == "WARP_SZ") cursor.refuse("WARP_SZ is no name of a variable");
  if (v.bytes > kMaxVectorBytes) cursor.refuse("vector " + v.name + " is larger than 16 bytes");
  if (v.type.kind == 'p' && v.space != Space::reg)
    cursor.refuse("predicate " + v.name + " is not in .reg");
  parse_dimensions(cursor, v);
}

void parse_initial_values(TokenCursor& cursor, Variable& v) {
  if (cursor.accept("=")) parse_initial(cursor, v);
  if (v.is_open() && v.initial.empty() && !v.external)
    cursor.refuse("variable " + v.name + " has no size");
}

std::vector<Variable> parse_parameters(TokenCursor& cursor) {
  std::vector<Variable> out;
  cursor.expect("(");
  while (!cursor.accept(")")) {
    out.push_back(parse_variable_type(cursor));
    parse_name(cursor, out.back());
    bool more = cursor.accept(",");
    if (more == cursor.is(")")) cursor.refuse("expected ',' or ')' in a parameter list");
  }
  return out;
}

}  // namespace softgpu::ptx
