#include "launcher/spawner_requests.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "control/hex.h"
#include "control/messages.h"

namespace busbar::launcher {

namespace {
control::SpawnReply send_to(const std::string& socket, const control::SpawnRequest& request,
                            const std::vector<int>& attached, std::chrono::milliseconds patience) {
  control::SpawnReply reply{};
  int fd = control::connect_to(socket.c_str());
  if (fd < 0) return reply;
  control::set_timeouts(fd, (int)patience.count());
  control::DescriptorMessage m(&request, sizeof request, attached);
  if (sendmsg(fd, &m, MSG_NOSIGNAL) != (ssize_t)sizeof request ||
      recv(fd, &reply, sizeof reply, MSG_WAITALL) != (ssize_t)sizeof reply)
    reply = {};
  ::close(fd);
  return reply;
}
}  // namespace

SpawnerAnswer SpawnerRequests::request(const std::string& tenant,
                                       const control::SpawnRequest& request,
                                       const std::vector<int>& attached) {
  if (!queue_.enter(tenant, patience_)) return {{}, kNotServed};
  auto reply_patience = std::max<std::chrono::milliseconds>(patience_, kSpawnerPatience);
  SpawnerAnswer answer{send_to(socket_, request, attached, reply_patience)};
  queue_.leave();
  return answer;
}

SpawnerAnswer SpawnerRequests::start_process(const std::string& tenant, const GpuSet& gpus,
                                             int start_socket, int exit_pipe) {
  control::SpawnRequest start{};
  start.op = (uint32_t)control::SpawnOp::start;
  for (auto& uuid : gpus) std::ranges::copy(uuid, start.gpu_uuid[start.gpus++]);
  return request(tenant, start, {start_socket, exit_pipe});
}

SpawnerAnswer SpawnerRequests::open_cage(uint32_t pid, const uint8_t* allocation,
                                         const uint8_t* tenant) {
  control::SpawnRequest open{};
  open.op = (uint32_t)control::SpawnOp::open;
  open.pid = pid;
  std::memcpy(open.allocation, allocation, sizeof open.allocation);
  std::memcpy(open.tenant, tenant, sizeof open.tenant);
  return request(control::hex(tenant, sizeof open.tenant), open, {});
}

}  // namespace busbar::launcher
