// File access rights of a cage by Landlock: a second layer, which holds if a mount of the cage has
// too many rights. It also permits no TCP, and no signals and abstract sockets outside of the cage,
// where the kernel has these parts.
//
// Thread safety: for a process with one thread.
#pragma once
#include <cstdint>
#include <string>

namespace busbar::spawner {

enum class FileAccess {
  read,    // and execute
  write,   // existing files, and read
  device,  // read, write and ioctl
  files,   // create, change and remove files
  folder,  // the same, and folders and links
};

class Landlock {
 public:
  Landlock();
  ~Landlock();
  Landlock(const Landlock&) = delete;
  Landlock& operator=(const Landlock&) = delete;

  // Permits access to a file, or to what is below a folder. A path that does not exist is skipped.
  // A later mount on a folder has the rights of the folder's parent.
  void permit(const std::string& path, FileAccess access);
  // Denies this process and its children all other accesses for good. False if the kernel has no
  // Landlock, or if a step has failed: then nothing is denied.
  bool enforce() const;

 private:
  int rules_ = -1;
  uint64_t handled_ = 0;
  bool ok_ = false;
};

}  // namespace busbar::spawner
