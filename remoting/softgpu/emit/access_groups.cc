#include "softgpu/emit/access_groups.h"

#include <algorithm>

#include "softgpu/emit/access.h"

namespace softgpu::emit {

using ptx::Instruction;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Space;

namespace {

constexpr int64_t kMaxSpan = 4096;   // bytes from the lowest to the highest offset
constexpr int kMaxAccessBytes = 32;  // of one access

struct Group {
  size_t first = 0;  // index of the first instruction
  GroupExtent extent;
  std::vector<const Instruction*> members;
};

const Operand& place_of(const Instruction& ins) {
  return ins.operands[ins.op == "st" ? 0 : 1];
}

// Return global or shared for accesses that can be grouped, none for all others. Generic addresses
// are checked like global ones.
Space groupable_space(const Instruction& ins) {
  if (ins.op != "ld" && ins.op != "st") return Space::none;
  Space space = state_space(ins);
  if (space == Space::none) return Space::global;
  return space == Space::global || space == Space::shared ? space : Space::none;
}

// Differences of other offsets can wrap.
bool can_be_grouped(int64_t offset) {
  return offset > -kMaxSpan && offset < kMaxSpan;
}

void collect_names(const Operand& o, std::set<std::string>& out) {
  if (!o.name.empty()) out.insert(o.name);
  for (auto& e : o.elements) collect_names(e, out);
}

std::set<std::string> written(const Instruction& ins) {
  std::set<std::string> out;
  if (ins.op != "st" && ins.op != "red" && !ins.operands.empty())
    collect_names(ins.operands[0], out);
  for (auto& r : ins.call_returns) collect_names(r, out);
  return out;
}

// The open groups of one block while its instructions are scanned in order.
class Grouping {
 public:
  Grouping(FunctionScope& scope, int& counter) : scope_(scope), counter_(counter) {}

  void scan(const Instruction& ins, size_t index) {
    add(ins, index);
    if (ins.op == "call") close_all();
    for (auto& r : written(ins)) close(r);
  }
  void close_all() {
    while (!open_.empty()) close(open_.begin()->first);
  }
  std::map<size_t, Code> declarations;

 private:
  void add(const Instruction& ins, size_t index);
  bool extend(Group& group, const Instruction& ins, Space space);
  void close(const std::string& base);
  void declare(const Group& group);

  FunctionScope& scope_;
  int& counter_;
  std::map<std::string, Group> open_;  // by base register
};

void Grouping::add(const Instruction& ins, size_t index) {
  Space space = groupable_space(ins);
  if (space == Space::none || !ins.guard.empty() || ins.operands.size() != 2) return;
  const Operand& place = place_of(ins);
  if (place.kind != OperandKind::address || place.elements.size() != 1 ||
      !scope_.is_register(place.elements[0].name))
    return;
  const std::string base = place.elements[0].name;
  if (auto it = open_.find(base); it != open_.end()) {
    if (extend(it->second, ins, space)) return;
    close(base);
  }
  int bytes = last_type(ins).bytes() * vector_length(ins);
  if (bytes <= kMaxAccessBytes && can_be_grouped(place.offset))
    open_[base] = {index, {base, space, place.offset, place.offset, bytes}, {&ins}};
}

bool Grouping::extend(Group& group, const Instruction& ins, Space space) {
  int64_t offset = place_of(ins).offset;
  if (!can_be_grouped(offset)) return false;
  GroupExtent& extent = group.extent;
  int64_t low = std::min(extent.low, offset), high = std::max(extent.high, offset);
  int bytes = last_type(ins).bytes() * vector_length(ins);
  if (extent.bytes != bytes || extent.space != space || (offset - extent.low) % bytes ||
      high - low > kMaxSpan)
    return false;
  extent.low = low;
  extent.high = high;
  group.members.push_back(&ins);
  return true;
}

void Grouping::close(const std::string& base) {
  auto it = open_.find(base);
  if (it == open_.end()) return;
  if (it->second.members.size() > 1) declare(it->second);
  open_.erase(it);
}

void Grouping::declare(const Group& group) {
  CheckedRange range =
      Access::group(declarations[group.first], render("g{}", counter_++), scope_, group.extent);
  for (auto* ins : group.members)
    scope_.covered.emplace(ins, range.at(place_of(*ins).offset, group.extent.bytes));
}

}  // namespace

std::map<size_t, Code> group_accesses(FunctionScope& scope, const ptx::Block& block, int& counter) {
  Grouping grouping(scope, counter);
  for (size_t i = block.first; i < block.last; ++i) grouping.scan(scope.function.body[i], i);
  grouping.close_all();
  return std::move(grouping.declarations);
}

}  // namespace softgpu::emit
