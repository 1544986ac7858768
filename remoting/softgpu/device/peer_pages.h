// The pages of other processes.
//
// Thread safety: none; for one thread.
#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

#include "softgpu/device/use_page.h"

namespace softgpu {

struct Peer {
  ino_t file = 0;
  const UsePage* page = nullptr;
  // How long this process has waited for it, in nanoseconds. See Turns.
  uint64_t waited = 0, ignored_until = 0, ignored_for = 0;
};

class PeerPages {
 public:
  // `own_file` is the file of this process's page; 0: it has none.
  PeerPages(std::string folder, ino_t own_file) : folder_(std::move(folder)), own_file_(own_file) {}
  ~PeerPages();
  PeerPages(const PeerPages&) = delete;

  // Find the pages of live processes, and remove files of others if the folder permits it. Makes
  // pointers to peers invalid.
  void refresh();
  std::vector<Peer>& peers() { return peers_; }
  const std::vector<Peer>& peers() const { return peers_; }

 private:
  void add(const std::string& path, std::vector<Peer>& found);
  const std::string folder_;
  const ino_t own_file_;
  std::vector<Peer> peers_;
};

}  // namespace softgpu
