#include "client/context_storage.h"

#include <map>
#include <mutex>
#include <shared_mutex>
#include <utility>
#include <vector>

namespace busbar::client {

namespace {
struct Stored {
  void* value;
  StorageDestructor destroy;
};
struct Storage {
  std::shared_mutex mutex;
  std::map<std::pair<CUcontext, void*>, Stored> values;  // by context and key
};
Storage& storage() {
  static auto* s = new Storage;
  return *s;
}

CUcontext context_or_current(CUcontext c) {
  if (!c) cuCtxGetCurrent(&c);
  return c;
}
}  // namespace

CUresult set_context_storage(CUcontext c, void* key, void* value, StorageDestructor destroy) {
  if (!(c = context_or_current(c))) return CUDA_ERROR_INVALID_CONTEXT;
  std::unique_lock lock(storage().mutex);
  storage().values[{c, key}] = {value, destroy};
  return CUDA_SUCCESS;
}

CUresult remove_context_storage(CUcontext c, void* key) {
  if (!(c = context_or_current(c))) return CUDA_ERROR_INVALID_CONTEXT;
  std::unique_lock lock(storage().mutex);
  storage().values.erase({c, key});
  return CUDA_SUCCESS;
}

CUresult get_context_storage(void** value, CUcontext c, void* key) {
  if (!(c = context_or_current(c))) return CUDA_ERROR_INVALID_CONTEXT;
  std::shared_lock lock(storage().mutex);
  auto it = storage().values.find({c, key});
  if (it == storage().values.end()) return CUDA_ERROR_INVALID_HANDLE;
  *value = it->second.value;
  return CUDA_SUCCESS;
}

void destroy_context_storage(CUcontext c) {
  std::vector<std::pair<void*, Stored>> removed;
  {
    std::unique_lock lock(storage().mutex);
    auto& values = storage().values;
    auto it = values.lower_bound({c, nullptr});
    while (it != values.end() && it->first.first == c) {
      removed.emplace_back(it->first.second, it->second);
      it = values.erase(it);
    }
  }
  for (auto& [key, s] : removed)
    if (s.destroy) s.destroy(c, key, s.value);
}

}  // namespace busbar::client
