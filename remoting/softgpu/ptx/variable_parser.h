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

// Parse `.space .align N .type name[dims]`, up to an initializer or a semicolon.
Variable parse_declaration(TokenCursor& cursor);
// Parse the rest of a declaration: initial values and the semicolon.
void parse_declaration_end(TokenCursor& cursor, Variable& v);
// Parse `(declaration, …)`.
std::vector<Variable> parse_parameters(TokenCursor& cursor);

}  // namespace softgpu::ptx
