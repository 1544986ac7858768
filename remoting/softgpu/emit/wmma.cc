// wmma: fragments whose layout is the implementation's own. Here element e of lane l is number l *
// n + e of the matrix, row by row; where registers hold more than the matrix has, the higher lanes
// repeat the lower ones.
#include "softgpu/emit/emitter.h"

namespace softgpu::emit {

using ptx::Instruction;
using ptx::Operand;
using ptx::OperandKind;

namespace {

struct Shape {
  int m = 0, n = 0, k = 0;
};

// "m16n16k16"
bool shape_of(const Instruction& ins, Shape& s) {
  for (auto& w : ins.mods)
    if (std::sscanf(w.c_str(), "m%dn%dk%d", &s.m, &s.n, &s.k) == 3)
      return s.m > 0 && s.n > 0 && s.k > 0 && s.m <= 32 && s.n <= 32 && s.k <= 32;
  return false;
}

const std::map<std::string, std::pair<const char*, int>> kKinds = {
    {"f16", {"W_F16", 16}}, {"bf16", {"W_BF16", 16}}, {"tf32", {"W_F32", 32}},
    {"f32", {"W_F32", 32}}, {"s8", {"W_S8", 8}},      {"u8", {"W_U8", 8}},
    {"s32", {"W_S32", 32}}, {"f64", {"W_F64", 64}}};

struct Fragment {
  std::string kind;
  int bits = 0, registers = 0;
  int per() const { return registers * (bits > 32 ? 64 : 32) / bits; }  // elements of one lane
};

// Without bits: there is no such fragment of a matrix with so many elements.
Fragment fragment(const std::string& word, const Operand& o, int elements) {
  auto it = kKinds.find(word);
  if (it == kKinds.end() || o.kind != OperandKind::vector || o.elements.empty()) return {};
  Fragment f{it->second.first, it->second.second, (int)o.elements.size()};
  int held = 32 * f.per();
  return held >= elements && held % elements == 0 ? f : Fragment{};
}

std::string num(int n) {
  return std::to_string(n);
}

}  // namespace

// Registers of all lanes into an array of words, or back.
std::string FunctionEmitter::lanes_to(const Operand& o, const std::string& array, int bits) const {
  std::string s = "for (u32 l = 0; l < 32; ++l) {\n";
  for (size_t i = 0; i < o.elements.size(); ++i)
    s += array + "[l][" + std::to_string(i) +
         "] = " + read_bits(o.elements[i], {'b', bits > 32 ? 64 : 32}) + ";\n";
  return s + "}\n";
}

std::string FunctionEmitter::lanes_from(const Operand& o, const std::string& array,
                                        int bits) const {
  std::string s = "for (u32 l = 0; l < 32; ++l) {\n";
  for (size_t i = 0; i < o.elements.size(); ++i)
    s += write(o.elements[i], {'b', bits > 32 ? 64 : 32}, array + "[l][" + std::to_string(i) + "]");
  return s + "}\n";
}

// wmma.load.{a,b,c} and wmma.store.d: a word an element, checked one by one.
void FunctionEmitter::move_fragment(const Instruction& ins, std::string& out) const {
  bool store = ins.mods[0] == "store";
  Shape s;
  if (!shape_of(ins, s)) refuse(ins);
  const Operand &registers = ins.operands[store ? 1 : 0], &where = ins.operands[store ? 0 : 1];
  char which = ins.mods[1].empty() ? ' ' : ins.mods[1][0];
  int rows = which == 'b' ? s.k : s.m, columns = which == 'a' ? s.k : s.n;
  Fragment f = fragment(ins.mods.back(), registers, rows * columns);
  if (!f.bits) refuse(ins);
  bool row = ins.has("row");
  std::string word = f.bits > 32 ? "u64" : "u32", stride = ins.operands.size() > 2
                                                               ? read(ins.operands[2], {'u', 32})
                                                               : num(row ? columns : rows);
  ptx::Space space = ptx::Space::none;
  for (auto& m : ins.mods)
    if (m.rfind("shared", 0) == 0)
      space = ptx::Space::shared;
    else if (m == "global")
      space = ptx::Space::global;
  out += word + " R[32][8]; (void)R;\n" + (store ? lanes_to(registers, "R", f.bits) : "");
  out += "for (u32 l = 0; l < 32; ++l) for (u32 e = 0; e < " + num(f.per()) +
         "; ++e) {\nu32 per = " + num(f.per()) + ", at = (l * per + e) % " + num(rows * columns) +
         ", i = at / " + num(columns) + ", j = at % " + num(columns) + ";\n";
  if (store) out += "if (l * per + e >= " + num(rows * columns) + "u) continue;\n";
  out += "u64 step = (u64)(" + std::string(row ? "i" : "j") + ") * (" + stride + ") + " +
         (row ? "j" : "i") + ";\nu8* p = " + wmma_address(ins, where, space, f.bits / 8) + ";\n";
  out += (store ? "wmma_put(p, " : "wmma_get(p, ") + std::string("(u8*)R[l] + e * ") +
         num(f.bits / 8) + ", " + num(f.bits / 8) + ");\n}\n";
  if (!store) out += lanes_from(registers, "R", f.bits);
}

std::string FunctionEmitter::wmma_address(const Instruction& ins, const Operand& o,
                                          ptx::Space space, int bytes) const {
  if (o.kind != OperandKind::address || o.elements.size() != 1) refuse(ins);
  const std::string& name = o.elements[0].name;
  bool symbol = !f_.registers.count(name);
  std::string base = symbol ? symbol_address(name, ins.line) : reg(name), n = num(bytes),
              offset = hex((uint64_t)o.offset, 64);
  if (space == ptx::Space::shared || (symbol && shared_.shared_offset.count(name)))
    return "at_shared(c, &k, (u32)(" + base + " + " + offset + " + step * " + n + "), " + n + ")";
  return "at_global(c, (u64)" + base + " + " + offset + " + step * " + n + ", " + n + ")";
}

void FunctionEmitter::multiply_fragments(const Instruction& ins, std::string& out) const {
  Shape s;
  std::vector<std::string> types;
  for (auto& m : ins.mods)
    if (kKinds.count(m)) types.push_back(m);
  if (!shape_of(ins, s) || (types.size() != 2 && types.size() != 4)) refuse(ins);
  if (types.size() == 2) types = {types[0], "f16", "f16", types[1]};
  const Operand *d = &ins.operands[0], *a = &ins.operands[1], *b = &ins.operands[2],
                *c = &ins.operands[3];
  Fragment fd = fragment(types[0], *d, s.m * s.n), fa = fragment(types[1], *a, s.m * s.k),
           fb = fragment(types[2], *b, s.k * s.n), fc = fragment(types[3], *c, s.m * s.n);
  if (!fd.bits || !fa.bits || !fb.bits || !fc.bits) refuse(ins);
  auto array = [](const Fragment& f, const char* name) {
    return std::string(f.bits > 32 ? "u64 " : "u32 ") + name + "[32][8];\n";
  };
  out += array(fa, "A") + array(fb, "B") + array(fc, "C") + array(fd, "D") +
         lanes_to(*a, "A", fa.bits) + lanes_to(*b, "B", fb.bits) + lanes_to(*c, "C", fc.bits);
  auto matrix = [](const Fragment& f, const char* name) {
    return std::string("wmma_matrix(") + name + ", sizeof " + name + "[0], " + f.kind + ", " +
           num(f.per()) + ")";
  };
  out += "wmma_multiply(" + num(s.m) + ", " + num(s.n) + ", " + num(s.k) + ", " + matrix(fa, "A") +
         ", " + matrix(fb, "B") + ", " + matrix(fc, "C") + ", " + matrix(fd, "D") + ", " +
         (ins.has("satfinite") ? "1" : "0") + ");\n";
  out += lanes_from(*d, "D", fd.bits);
}

void FunctionEmitter::wmma(const Instruction& ins, std::string& out) const {
  if (ins.mods[0] == "load" || ins.mods[0] == "store")
    move_fragment(ins, out);
  else if (ins.mods[0] == "mma" && !ins.has("b1") && !ins.has("s4") && !ins.has("u4"))
    multiply_fragments(ins, out);
  else
    refuse(ins);
}

// elect.sync d|p, members: the lowest lane is chosen.
void FunctionEmitter::elect(const Instruction& ins, std::string& out) const {
  const Operand& d = ins.operands[0];
  out += "for (u32 l = 0; l < 32; ++l) if (g >> l & 1) {\n";
  if (d.kind != OperandKind::pair) refuse(ins);
  out += write(d.elements[0], {'u', 32}, "(u32)__builtin_ctz(g)") +
         write(d.elements[1], {'p', 8}, "l == (u32)__builtin_ctz(g)") + "}\n";
}

}  // namespace softgpu::emit
