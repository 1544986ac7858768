// Connections without encryption, for fuzz targets of what travels inside TLS. It replaces
// transport/tls.cc. A handshake with a key succeeds at once; all others fail.
#include "transport/tls.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace busbar::transport {

Tls::~Tls() {
  close();
}
Tls& Tls::operator=(Tls&& o) noexcept {
  close();
  fd_ = o.fd_;
  ssl_ = o.ssl_;
  o.fd_ = -1;
  o.ssl_ = nullptr;
  return *this;
}
void Tls::close() {
  int fd = release_fd();
  if (fd >= 0) ::close(fd);
}
int Tls::release_fd() {
  int fd = fd_;
  fd_ = -1;
  ssl_ = nullptr;
  return fd;
}

Tls Tls::prepare_with_key(int fd, Role, const Secret&, Reading) {
  static char any;
  Tls t;
  t.fd_ = fd;
  t.ssl_ = (SSL*)&any;  // a connection has one
  return t;
}
bool Tls::open_with_key(int fd, Role role, const Secret& key, int, Tls& out, std::string&,
                        Reading) {
  out = prepare_with_key(fd, role, key);
  return true;
}
bool Tls::send_client_hello() {
  return true;
}
bool Tls::finish_with_key(int, std::string&) {
  return true;
}
bool Tls::export_key(const char*, Secret&) const {
  return false;
}

std::string openssl_error() {
  return "";
}

ssize_t Tls::read_some(void* p, size_t n) {
  ssize_t k = recv(fd_, p, n, MSG_DONTWAIT);
  if (k > 0) return k;
  return k < 0 && errno == EAGAIN ? 0 : -1;
}
ssize_t Tls::write_some(const void* p, size_t n) {
  ssize_t k = send(fd_, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (k > 0) return k;
  return k < 0 && errno == EAGAIN ? 0 : -1;
}
// The callers of these wait for the other end, which a fuzz target does not have.
bool Tls::read_all(void*, size_t, int) {
  abort();
}
bool Tls::write_all(const void*, size_t, int) {
  abort();
}
void Tls::batch_writes() {}
int Tls::flush() {
  return 1;
}
bool Tls::pending() const {
  return false;
}

}  // namespace busbar::transport
