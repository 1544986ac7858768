#include "softgpu/device/peer_pages.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace softgpu {

namespace {
constexpr size_t kMaxPeers = 512;

// Return the page of a file, or null if it is incomplete.
const UsePage* map_page(int fd, const struct stat& st) {
  if (!S_ISREG(st.st_mode) || st.st_size != (off_t)kUsePageBytes) return nullptr;
  void* at = mmap(nullptr, kUsePageBytes, PROT_READ, MAP_SHARED, fd, 0);
  return at == MAP_FAILED ? nullptr : (const UsePage*)at;
}

void unmap(const Peer& peer) {
  munmap(const_cast<UsePage*>(peer.page), kUsePageBytes);
}
}  // namespace

PeerPages::~PeerPages() {
  for (auto& p : peers_) unmap(p);
}

// Move a known peer to `found`, or add a new one.
void PeerPages::add(const std::string& path, std::vector<Peer>& found) {
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  struct stat st;
  if (fd < 0 || fstat(fd, &st) || st.st_ino == own_file_) {
    if (fd >= 0) close(fd);
    return;
  }
  bool has_ended = flock(fd, LOCK_EX | LOCK_NB) == 0;
  auto known = std::ranges::find(peers_, st.st_ino, &Peer::file);
  if (has_ended) {
    unlink(path.c_str());
  } else if (known != peers_.end()) {
    found.push_back(*known);
    peers_.erase(known);
  } else if (const UsePage* page = map_page(fd, st)) {
    found.push_back({st.st_ino, page});
  }
  close(fd);
}

void PeerPages::refresh() {
  DIR* dir = opendir(folder_.c_str());
  if (!dir) return;
  std::vector<Peer> found;
  while (dirent* e = readdir(dir))
    if (!std::strncmp(e->d_name, kUsePrefix, sizeof kUsePrefix - 1) && found.size() < kMaxPeers)
      add(folder_ + "/" + e->d_name, found);
  closedir(dir);
  for (auto& ended : peers_) unmap(ended);
  peers_ = std::move(found);
}

}  // namespace softgpu
