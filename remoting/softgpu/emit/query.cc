// txq and suq: attributes of textures and surfaces. The driver has them.
#include "softgpu/device/cta.h"
#include "softgpu/emit/geometry.h"
#include "softgpu/emit/instructions.h"

namespace softgpu::emit {

using ptx::Instruction;
using ptx::Operand;
using ptx::OperandKind;

namespace {

using Attributes = std::map<std::string, int>;

const Attributes kOfTexture = {{"width", QUERY_WIDTH},
                               {"height", QUERY_HEIGHT},
                               {"depth", QUERY_DEPTH},
                               {"channel_data_type", QUERY_CHANNEL_TYPE},
                               {"channel_order", QUERY_CHANNEL_ORDER},
                               {"normalized_coords", QUERY_NORMALIZED},
                               {"array_size", QUERY_LAYERS},
                               {"num_mipmap_levels", QUERY_LEVELS},
                               {"num_samples", QUERY_SAMPLES},
                               {"filter_mode", QUERY_FILTER},
                               {"addr_mode_0", QUERY_ADDRESS_0},
                               {"addr_mode_1", QUERY_ADDRESS_1},
                               {"addr_mode_2", QUERY_ADDRESS_2}};
const Attributes kOfLevel = {
    {"width", QUERY_WIDTH}, {"height", QUERY_HEIGHT}, {"depth", QUERY_DEPTH}};
const Attributes kOfSurface = {{"width", QUERY_WIDTH},
                               {"height", QUERY_HEIGHT},
                               {"depth", QUERY_DEPTH},
                               {"channel_data_type", QUERY_CHANNEL_TYPE},
                               {"channel_order", QUERY_CHANNEL_ORDER},
                               {"array_size", QUERY_LAYERS},
                               {"memory_layout", QUERY_LINEAR_LAYOUT}};

}  // namespace

void emit_query(FunctionScope& scope, const Instruction& ins, Code& out) {
  bool of_surface = ins.op == "suq", of_level = !of_surface && ins.take("level");
  const Attributes& attributes = of_surface ? kOfSurface : of_level ? kOfLevel : kOfTexture;
  const std::string* word = ins.take_one_of(attributes);
  if (!word || !ins.take("b32") || ins.operands.size() != (of_level ? 3 : 2)) scope.refuse();
  const Operand& object = ins.operands[1];
  if (object.kind != OperandKind::address || object.elements.size() != 1 || object.offset)
    scope.refuse();
  check_scalar(scope, object.elements[0], kU64);
  if (of_level) check_scalar(scope, ins.operands[2], kS32);
  auto block = out.block("");
  out.add("ObjectQuery query = {{}, {}, {}}",
          of_level ? scope.read(ins.operands[2], kS32).text : "0", attributes.at(*word),
          of_surface ? 1 : 0);
  scope.assign(out, ins.operands[0],
               expr(kU32, "c->host->query(c, {}, &query)", scope.read(object.elements[0], kU64)));
}

}  // namespace softgpu::emit
