#include "launcher/spawner_requests.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "control/messages.h"

namespace busbar::launcher {

namespace {
constexpr int kReplySeconds = 10;

bool send_request(int fd, const control::SpawnRequest& request, const std::vector<int>& attached) {
  iovec io{const_cast<control::SpawnRequest*>(&request), sizeof request};
  alignas(cmsghdr) char room[CMSG_SPACE(2 * sizeof(int))] = {};
  msghdr m{};
  m.msg_iov = &io;
  m.msg_iovlen = 1;
  if (!attached.empty()) {
    m.msg_control = room;
    m.msg_controllen = CMSG_SPACE(attached.size() * sizeof(int));
    cmsghdr* c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(attached.size() * sizeof(int));
    std::memcpy(CMSG_DATA(c), attached.data(), attached.size() * sizeof(int));
  }
  return sendmsg(fd, &m, MSG_NOSIGNAL) == (ssize_t)sizeof request;
}

control::SpawnReply request_of(const std::string& runtime, const control::SpawnRequest& request,
                               const std::vector<int>& attached) {
  control::SpawnReply reply{};
  int fd = control::connect_to((runtime + control::kSpawnerSocket).c_str());
  if (fd < 0) return reply;
  timeval timeout{kReplySeconds, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  if (!send_request(fd, request, attached) ||
      recv(fd, &reply, sizeof reply, MSG_WAITALL) != (ssize_t)sizeof reply)
    reply = {};
  ::close(fd);
  return reply;
}
}  // namespace

control::SpawnReply start_process(const std::string& runtime, const GpuSet& gpus, int start_socket,
                                  int exit_pipe) {
  control::SpawnRequest request{};
  request.op = (uint32_t)control::SpawnOp::start;
  for (auto& uuid : gpus) std::ranges::copy(uuid, request.gpu_uuid[request.gpus++]);
  return request_of(runtime, request, {start_socket, exit_pipe});
}

bool open_cage(const std::string& runtime, uint32_t pid, const uint8_t* allocation,
               const uint8_t* tenant) {
  control::SpawnRequest request{};
  request.op = (uint32_t)control::SpawnOp::open;
  request.pid = pid;
  std::memcpy(request.allocation, allocation, sizeof request.allocation);
  std::memcpy(request.tenant, tenant, sizeof request.tenant);
  return request_of(runtime, request, {}).pid == pid;
}

}  // namespace busbar::launcher
