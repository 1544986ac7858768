// The devices of a session and their description, which the client receives before it sends its
// first record.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "server/account.h"
#include "server/driver.h"

namespace busbar::server {

struct DeviceState {
  CUdevice device = 0;
  uint32_t partition = 0;
  std::vector<std::pair<uint64_t, uint64_t>> arenas;  // reserved ranges: address, bytes
  uint64_t known_bytes = 0;                           // of the partition, as the client knows them
  bool known_as_exceeded = false;                     // more is charged, as the client knows
};

// Reserves an arena for each device at one of the `offered` addresses and describes the devices:
// version and kind of the driver, and for each device its name, UUID, memory, arena (0: none) and
// attributes. The partition may grow up to the whole GPU, so the arena has addresses for that.
std::string describe_devices(Driver& cu, const Account& account, std::vector<DeviceState>& devices,
                             std::vector<uint64_t> offered);

// Reserves the addresses that the client chooses. NVIDIA's driver gives small ranges addresses of
// its own choice once a context exists, so this is done before. False if they are in use.
bool reserve_client_addresses(Driver& cu);

}  // namespace busbar::server
