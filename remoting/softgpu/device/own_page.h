// The page of this process, which it makes once and keeps until it ends.
//
// Thread safety: all functions may be called from any thread.
#pragma once
#include <sys/types.h>

#include "softgpu/device/use_page.h"

namespace softgpu {

struct OwnPage {
  UsePage* page = nullptr;  // null: the folder of the devices cannot be used
  ino_t file = 0;
  bool from_spawner = false;  // the launcher then limits memory, and other pages do not
};

// Make the page at the first call. Afterwards this process has no descriptor that can change the
// size of the file, and a cage shows the folder read-only.
const OwnPage& own_page();

}  // namespace softgpu
