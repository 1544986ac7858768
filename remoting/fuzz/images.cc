// libFuzzer target: code images of a client.
//
// The first byte of the input chooses the input type of a link, or a module. A packed image must be
// one that a driver reads within its bounds, and must not change when it is packed again. Its
// device memory is measured.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "images/program_image.h"
#include "server/code_image.h"
#include "server/image_memory.h"

using namespace busbar;

namespace {
CUresult pack(uint8_t kind, std::string_view image, std::string& out) {
  if (kind % 8 > CU_JIT_INPUT_NVVM) return server::pack_module_image(image, out);
  return server::pack_link_input((CUjitInputType)(kind % 8), image, out);
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n) {
  if (!n) return 0;
  std::string packed, again;
  if (pack(data[0], {(const char*)data + 1, n - 1}, packed)) return 0;
  if (images::is_wrapper(packed)) abort();
  if (images::image_at(packed.c_str()).size() > packed.size()) abort();
  if (pack(data[0], packed, again) || again != packed) abort();
  for (bool software_gpu : {false, true}) {
    uint64_t bytes = 0;
    const char* error = nullptr;
    if (server::measure_image(packed, software_gpu, bytes, error) == CUDA_ERROR_INVALID_PTX &&
        !error)
      abort();  // the client must get a sentence
  }
  return 0;
}
