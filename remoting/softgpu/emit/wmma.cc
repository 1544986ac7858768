// wmma: the layout of its fragments is defined by the implementation. Here element e of lane l is
// number l * n + e of the matrix, row by row. If the registers hold more elements than the matrix
// has, the higher lanes repeat those of the lower ones.
#include <cstdio>

#include "softgpu/emit/access.h"
#include "softgpu/emit/cross_lane.h"

namespace softgpu::emit {

using ptx::Instruction;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

namespace {

struct Shape {
  int m = 0, n = 0, k = 0;
};

// "m16n16k16"
Shape shape_of(const FunctionScope& scope, const Instruction& ins) {
  Shape s;
  for (size_t i = 0; i < ins.mods.size(); ++i)
    if (std::sscanf(ins.mods[i].c_str(), "m%dn%dk%d", &s.m, &s.n, &s.k) == 3) {
      ins.take_at(i);
      if (s.m > 0 && s.n > 0 && s.k > 0 && s.m <= 32 && s.n <= 32 && s.k <= 32) return s;
      break;
    }
  scope.refuse();
}

struct Element {
  const char* kind;  // in device/runtime/matrix.h
  int bits;
};
const std::map<std::string, Element> kElements = {{"f16", {"W_F16", 16}},  {"bf16", {"W_BF16", 16}},
                                                  {"tf32", {"W_F32", 32}}, {"f32", {"W_F32", 32}},
                                                  {"s8", {"W_S8", 8}},     {"u8", {"W_U8", 8}},
                                                  {"s32", {"W_S32", 32}},  {"f64", {"W_F64", 64}}};

// The registers of all lanes that hold one matrix.
struct Fragment {
  const Operand& registers;
  Element element;

  Type word() const { return {'b', element.bits > 32 ? 64 : 32}; }
  int bytes() const { return element.bits / 8; }  // of one element
  int per_lane() const {                          // elements
    return (int)registers.elements.size() * word().bits / element.bits;
  }
};

// Refuse registers that cannot hold a matrix of `elements` elements.
Fragment fragment(const FunctionScope& scope, const std::string& type, const Operand& o,
                  int elements) {
  auto it = kElements.find(type);
  if (it == kElements.end() || o.kind != OperandKind::vector || o.elements.empty()) scope.refuse();
  Fragment f{o, it->second};
  int held = 32 * f.per_lane();
  if (held < elements || held % elements) scope.refuse();
  for (auto& e : o.elements)
    if (auto r = scope.function.registers.find(e.name);
        r == scope.function.registers.end() || r->second.bits != f.word().bits ||
        (r->second.kind != 'b' && (r->second.kind == 'f') != (type == "f32" || type == "f64")))
      scope.reject("an element of a fragment is not a register of its type");
  return f;
}

void declare(const Fragment& f, const char* array, Code& out) {
  out.add("{} {}[32][8]", storage(f.word()), array);
}

void gather(const FunctionScope& scope, const Fragment& f, const char* array, Code& out) {
  auto lane = out.block("for (u32 l = 0; l < 32; ++l)");
  int i = 0;
  for (auto& e : f.registers.elements)
    out.add("{}[l][{}] = {}", array, i++, scope.read_bits(e, f.word()));
}

void scatter(const FunctionScope& scope, const Fragment& f, const char* array, Code& out) {
  auto lane = out.block("for (u32 l = 0; l < 32; ++l)");
  int i = 0;
  for (auto& e : f.registers.elements)
    scope.assign(out, e, expr(f.word(), "{}[l][{}]", array, i++));
}

// The loop over all elements of wmma.load and wmma.store: each is checked on its own.
struct Move {
  bool store, row_major;
  int rows, columns;
  std::string stride;   // in elements
  AddressText element;  // number `step` behind the address
};

void emit_elements(const Move& move, const Fragment& f, Code& out) {
  int elements = move.rows * move.columns;
  auto loop = out.block("for (u32 l = 0; l < 32; ++l) for (u32 e = 0; e < {}; ++e)", f.per_lane());
  out.add("u32 per = {}, at = (l * per + e) % {}, i = at / {}, j = at % {}", f.per_lane(), elements,
          move.columns, move.columns);
  if (move.store) out.add("if (l * per + e >= {}u) continue", elements);
  out.add("u64 step = (u64)({}) * ({}) + {}", move.row_major ? "i" : "j", move.stride,
          move.row_major ? "j" : "i");
  out.add("{}({}, R[l], e, {})", move.store ? "wmma_store" : "wmma_load", move.element, f.bytes());
}

// wmma.load.{a,b,c} and wmma.store.d
void emit_move_fragment(const FunctionScope& scope, const Instruction& ins, Code& out) {
  Shape s = shape_of(scope, ins);
  bool store = ins.take_at(0) == "store", row_major = ins.take("row");
  if (!row_major && !ins.take("col")) scope.refuse();
  const std::string& matrix = ins.take_at(1);
  if (store ? matrix != "d" : matrix != "a" && matrix != "b" && matrix != "c") scope.refuse();
  int rows = matrix == "b" ? s.k : s.m, columns = matrix == "a" ? s.k : s.n;
  const Operand &registers = ins.operands[store ? 1 : 0], &where = ins.operands[store ? 0 : 1];
  Fragment f = fragment(scope, ins.take_at(ins.mods.size() - 1), registers, rows * columns);
  std::string stride = ins.operands.size() > 2 ? scope.read(ins.operands[2], kU32).text
                                               : std::to_string(row_major ? columns : rows);
  Place place{where, state_space(ins), f.bytes(), render("step * {}", f.bytes())};
  Move move{store, row_major, rows, columns, stride, Access::single(scope, ins, place)};
  declare(f, "R", out);
  out.add("(void)R");
  if (store) gather(scope, f, "R", out);
  emit_elements(move, f, out);
  if (!store) scatter(scope, f, "R", out);
}

void emit_multiply_fragments(const FunctionScope& scope, const Instruction& ins, Code& out) {
  Shape s = shape_of(scope, ins);
  std::vector<std::string> types;
  for (size_t i = 0; i < ins.mods.size(); ++i)
    if (kElements.count(ins.mods[i])) types.push_back(ins.take_at(i));
  if (types.size() == 2) types = {types[0], "f16", "f16", types[1]};
  if (types.size() != 4) scope.refuse();
  Fragment d = fragment(scope, types[0], ins.operands[0], s.m * s.n),
           a = fragment(scope, types[1], ins.operands[1], s.m * s.k),
           b = fragment(scope, types[2], ins.operands[2], s.k * s.n),
           c = fragment(scope, types[3], ins.operands[3], s.m * s.n);
  declare(a, "A", out);
  declare(b, "B", out);
  declare(c, "C", out);
  declare(d, "D", out);
  gather(scope, a, "A", out);
  gather(scope, b, "B", out);
  gather(scope, c, "C", out);
  auto matrix = [](const Fragment& f, const char* array) {
    return render("wmma_matrix({}, sizeof {}[0], {}, {})", array, array, f.element.kind,
                  f.per_lane());
  };
  out.add("wmma_multiply({}, {}, {}, {}, {}, {}, {}, {})", s.m, s.n, s.k, matrix(a, "A"),
          matrix(b, "B"), matrix(c, "C"), matrix(d, "D"),
          types[0] == "s32" && ins.take("satfinite") ? 1 : 0);
  scatter(scope, d, "D", out);
}

}  // namespace

void emit_wmma(FunctionScope& scope, const Instruction& ins, Code& out) {
  if (ins.mods[0] == "load" || ins.mods[0] == "store")
    emit_move_fragment(scope, ins, out);
  else if (ins.take_at(0) == "mma")
    emit_multiply_fragments(scope, ins, out);
  else
    scope.refuse();
}

}  // namespace softgpu::emit
