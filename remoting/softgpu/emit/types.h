// Types and modifiers of PTX instructions, and the C types that hold their values.
#pragma once
#include <optional>
#include <string>

#include "softgpu/ptx/ir.h"

namespace softgpu::emit {

constexpr ptx::Type kU16{'u', 16};
constexpr ptx::Type kU32{'u', 32};
constexpr ptx::Type kU64{'u', 64};
constexpr ptx::Type kS32{'s', 32};
constexpr ptx::Type kB16{'b', 16};
constexpr ptx::Type kB32{'b', 32};
constexpr ptx::Type kB64{'b', 64};
constexpr ptx::Type kF16{'f', 16};
constexpr ptx::Type kBF16{'h', 16};
constexpr ptx::Type kF32{'f', 32};
constexpr ptx::Type kF64{'f', 64};
constexpr ptx::Type kPredicate{'p', 8};

// Return the type that a modifier such as "s32" or "f64" names.
std::optional<ptx::Type> type_of(const std::string& modifier);
// The following functions mark what they return as used.
// Return the first or last type of an instruction. Throw ptx::Refusal if it has none.
ptx::Type first_type(const ptx::Instruction& ins);
ptx::Type last_type(const ptx::Instruction& ins);

// Return the state space that ld, st, atom and similar instructions name; none: generic.
ptx::Space state_space(const ptx::Instruction& ins);
// Return the number of elements of an access: 1, 2, 4 or 8.
int vector_length(const ptx::Instruction& ins);
// Return whether the access is volatile or has memory ordering.
bool is_ordered(const ptx::Instruction& ins);
// Return the instruction as written, without operands: "ld.global.u32".
std::string spelling(const ptx::Instruction& ins);

// Return the C type of a value: u32, s64, f32.
std::string c_type(ptx::Type t);
// Return the unsigned C type that holds the bits of a value.
std::string storage(ptx::Type t);
// Return a C literal of `bits` bits.
std::string hex(uint64_t value, int bits);

}  // namespace softgpu::emit
