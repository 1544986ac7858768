#include "client/peer_copy.h"

#include <algorithm>
#include <vector>

#include "client/call.h"
#include "client/device_memory.h"

namespace busbar::client {

namespace {
constexpr uint64_t kPieceBytes = 8 << 20;

// Fetches a range in order, piece by piece, into two alternating buffers.
class Fetcher {
 public:
  Fetcher(Context* c, uint64_t from, uint64_t bytes) : context_(c), from_(from), bytes_(bytes) {}

  // Submits the fetch of the next piece into buffer `i`; empty at the end of the range.
  CUresult submit(int i) {
    uint64_t n = std::min<uint64_t>(bytes_ - submitted_, kPieceBytes);
    buffers_[i].resize(n);
    uint64_t position;
    CUresult r = n ? submit_download(context_, buffers_[i].data(), from_ + submitted_, n, position)
                   : CUDA_SUCCESS;
    submitted_ += n;
    return r;
  }
  CUresult wait() { return wait_for_submitted(&context_->legacy); }
  const std::vector<char>& buffer(int i) const { return buffers_[i]; }

 private:
  Context* context_;
  uint64_t from_, bytes_, submitted_ = 0;
  std::vector<char> buffers_[2];
};
}  // namespace

CUresult copy_between_nodes(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  Call call;
  if (CUresult r = call.begin(stream)) return r;
  AddressMap& map = session()->addresses;
  if (!map.device_range(to, bytes) || !map.device_range(from, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = wait_for_submitted(call.stream())) return r;
  Context *source = map.find(from).context, *target = map.find(to).context;
  Fetcher fetcher(source, from, bytes);
  if (CUresult r = fetcher.submit(0)) return r;
  for (uint64_t done = 0; done < bytes;) {
    int i = (int)(done / kPieceBytes % 2);
    if (CUresult r = fetcher.wait()) return r;
    if (CUresult r = fetcher.submit(1 - i)) return r;
    CUresult r =
        submit_upload(target, to + done, fetcher.buffer(i).data(), fetcher.buffer(i).size());
    if (r) {
      fetcher.wait();  // no transfer may write to the buffers after they are freed
      return r;
    }
    done += fetcher.buffer(i).size();
  }
  return wait_for_submitted(&target->legacy);
}

}  // namespace busbar::client
