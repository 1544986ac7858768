#include "softgpu/jit/messages.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "softgpu/jit/limits.h"

namespace softgpu::jit {

std::string encode(const ModuleDescription& m) {
  Writer w;
  w.u64(m.kernels.size());
  for (auto& k : m.kernels) {
    w.text(k.name);
    w.u64(k.max_threads);
    w.u64(k.params.size());
    for (auto& p : k.params) {
      w.u64(p.offset);
      w.u64(p.bytes);
    }
  }
  w.u64(m.globals.size());
  for (auto& g : m.globals) {
    w.text(g.name);
    w.u64(g.bytes);
    w.u64(g.align);
    w.text(g.initial);
    w.u64(g.references.size());
    for (auto& r : g.references) {
      w.u64(r.at);
      w.text(r.symbol);
      w.u64(r.addend);
    }
  }
  return w.bytes;
}

bool decode(const std::string& bytes, ModuleDescription& m) {
  Reader r{bytes};
  m.kernels.resize(r.count(24));
  for (auto& k : m.kernels) {
    k.name = r.text();
    k.max_threads = r.u64();
    k.params.resize(r.count(16));
    for (auto& p : k.params) {
      p.offset = r.u64();
      p.bytes = r.u64();
    }
  }
  m.globals.resize(r.count(40));
  for (auto& g : m.globals) {
    g.name = r.text();
    g.bytes = r.u64();
    g.align = r.u64();
    g.initial = r.text();
    g.references.resize(r.count(24));
    for (auto& f : g.references) {
      f.at = r.u64();
      f.symbol = r.text();
      f.addend = r.u64();
    }
  }
  return !r.bad;
}

std::string encode(const Compiled& c) {
  Writer w;
  w.text(c.library);
  w.u64(c.shared_bytes);
  w.u64(c.local_bytes);
  w.u64(c.constant_bytes);
  w.u64(c.registers);
  w.u64(c.globals.size());
  for (auto& g : c.globals) w.text(g);
  return w.bytes;
}

bool decode(const std::string& bytes, Compiled& c) {
  Reader r{bytes};
  c.library = r.text();
  c.shared_bytes = r.u64();
  c.local_bytes = r.u64();
  c.constant_bytes = r.u64();
  c.registers = r.u64();
  c.globals.resize(r.count(8));
  for (auto& g : c.globals) g = r.text();
  return !r.bad;
}

namespace {
// Return false if the deadline passes before the socket is ready.
bool wait_for(int fd, short events, int64_t deadline_ms) {
  for (;;) {
    pollfd p{fd, events, 0};
    int timeout_ms = deadline_ms == kNoDeadline ? -1 : time_left_ms(deadline_ms);
    int ready = poll(&p, 1, timeout_ms);
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

bool is_temporary(int error) {
  return error == EINTR || error == EAGAIN;
}

bool send_all(int fd, const char* p, size_t n, int64_t deadline_ms) {
  while (n) {
    if (!wait_for(fd, POLLOUT, deadline_ms)) return false;
    ssize_t k = send(fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (k < 0 && is_temporary(errno)) continue;
    if (k <= 0) return false;
    p += k;
    n -= (size_t)k;
  }
  return true;
}

bool receive_all(int fd, char* p, size_t n, int64_t deadline_ms) {
  while (n) {
    if (!wait_for(fd, POLLIN, deadline_ms)) return false;
    ssize_t k = recv(fd, p, n, MSG_DONTWAIT);
    if (k < 0 && is_temporary(errno)) continue;
    if (k <= 0) return false;
    p += k;
    n -= (size_t)k;
  }
  return true;
}
}  // namespace

bool send_message(int fd, uint64_t kind, const std::string& body, int64_t deadline_ms) {
  uint64_t head[2] = {kind, body.size()};
  return send_all(fd, (const char*)head, sizeof head, deadline_ms) &&
         send_all(fd, body.data(), body.size(), deadline_ms);
}

bool receive_message(int fd, uint64_t& kind, std::string& body, int64_t deadline_ms) {
  uint64_t head[2];
  if (!receive_all(fd, (char*)head, sizeof head, deadline_ms) || head[1] > kMaxMessageBytes)
    return false;
  kind = head[0];
  body.resize(head[1]);
  return receive_all(fd, body.data(), body.size(), deadline_ms);
}

}  // namespace softgpu::jit
