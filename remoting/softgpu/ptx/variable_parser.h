// Declarations of variables and parameters, with their initial values.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "softgpu/ptx/ir.h"
#include "softgpu/ptx/token_cursor.h"

namespace softgpu::ptx {

// Types by their directive, without the dot.
extern const std::map<std::string, Type> kTypes;

// Parse `.space .align N .type` of one or more variables.
Variable parse_variable_type(TokenCursor& cursor);
// Parse `name[dims]` of a variable with a type.
void parse_name(TokenCursor& cursor, Variable& v);
// Parse the initial values of a variable, if there are any, up to `,` or `;`.
void parse_initial_values(TokenCursor& cursor, Variable& v);
// Parse `(declaration, …)`.
std::vector<Variable> parse_parameters(TokenCursor& cursor);

}  // namespace softgpu::ptx
