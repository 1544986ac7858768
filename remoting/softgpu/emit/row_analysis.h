// Decides whether a kernel can run in row mode; see row_mode.h.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "softgpu/ptx/ir.h"

namespace softgpu::emit {

// The dependence of a value on the thread's x within a row.
enum class RowShape {
  uniform,  // the same for all threads
  affine,   // linear, except where arithmetic wraps
  varying,  // anything else
};

struct RowAccess {
  const ptx::Instruction* ins;
  int bytes;
  bool store;
  const ptx::Operand& where() const { return ins->operands[store ? 0 : 1]; }
};

struct RowAnalysis {
  std::map<std::string, RowShape> shapes;  // by register; each is written once
  // Predicates that compare an affine with a uniform value.
  std::map<std::string, const ptx::Instruction*> ordered;
  std::vector<RowAccess> accesses;
  std::vector<const ptx::Instruction*> guards;  // @p bra to the end

  RowShape of(const ptx::Operand& o) const;
};

// Return the analysis of a kernel that can run in row mode, nullopt for all others.
std::optional<RowAnalysis> analyse_row(const ptx::Function& kernel);

}  // namespace softgpu::emit
