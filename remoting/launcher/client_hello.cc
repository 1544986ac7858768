#include "launcher/client_hello.h"

#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstdint>

namespace busbar::launcher {

namespace {
constexpr int kHeaderBytes = 5;  // RFC 8446, 5.1: type, version, length
constexpr uint8_t kHandshake = 22;
constexpr int kMaxBytes = 4096;  // OpenSSL with one key share needs about 300

void wake_at(int fd, int bytes) {
  setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes);
}
}  // namespace

ClientHello await_client_hello(int fd, bool has_ended) {
  uint8_t head[kHeaderBytes];
  ssize_t n = recv(fd, head, sizeof head, MSG_PEEK | MSG_DONTWAIT);
  int wanted = kHeaderBytes, available = 0;
  if (n == kHeaderBytes) wanted += head[3] << 8 | head[4];
  if (wanted > kMaxBytes || (n > 0 && head[0] != kHandshake)) return ClientHello::invalid;
  bool known = ioctl(fd, FIONREAD, &available) == 0;
  if (known && n == kHeaderBytes && available >= wanted) {
    wake_at(fd, 1);
    return ClientHello::complete;
  }
  if (has_ended || n == 0) return ClientHello::invalid;
  wake_at(fd, wanted);
  return ClientHello::missing;
}

}  // namespace busbar::launcher
