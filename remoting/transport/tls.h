// TLS 1.3 over a TCP socket: certificates towards the launcher, a pre-shared key towards the
// session server.
#pragma once
#include <openssl/ssl.h>

#include <array>
#include <cstdint>
#include <string>

namespace busbar::transport {

using Secret = std::array<uint8_t, 32>;

constexpr size_t kTlsRecordBytes = 16 << 10;  // no read brings more

enum class Role { client, server };

// One connection. Not for two threads at once. Every blocking call gives up at its deadline.
class Tls {
 public:
  Tls() = default;
  ~Tls();
  Tls(Tls&& o) noexcept : fd_(o.fd_), ssl_(o.ssl_) {
    o.fd_ = -1;
    o.ssl_ = nullptr;
  }
  Tls& operator=(Tls&& o) noexcept;

  // Client towards a launcher: proves `private_key` (Ed25519, raw 32 bytes), accepts only `node_id`
  // under `ca_pem`.
  static bool connect_launcher(int fd, const std::string& ca_pem, const std::string& node_id,
                               const Secret& private_key, int timeout_ms, Tls& out,
                               std::string& error);
  // Launcher: any client certificate; the caller compares its key with the ticket.
  static bool accept_client(int fd, SSL_CTX* context, int timeout_ms, Tls& out, std::string& error);
  // Both ends of a session, with the key that the first handshake exported.
  static bool with_key(int fd, Role role, const Secret& key, int timeout_ms, Tls& out,
                       std::string& error);
  // The same in two steps. The client's first message may go ahead of what it waits for; `key`
  // stays where it is until the end.
  static Tls prepare_with_key(int fd, Role role, const Secret& key);
  bool say_hello();  // writes, reads nothing
  bool finish_with_key(int timeout_ms, std::string& error);

  bool peer_public_key(Secret& out) const;  // Ed25519, of the peer's certificate
  bool export_key(const char* label, Secret& out) const;

  bool read_all(void* p, size_t n, int timeout_ms);
  bool write_all(const void* p, size_t n, int timeout_ms);
  // Non-blocking: bytes moved, 0 when it would block, -1 when the connection is gone.
  ssize_t read_some(void* p, size_t n);
  ssize_t write_some(const void* p, size_t n);
  // From now on several records go to the socket in one call, and the last ones only with flush():
  // 1 all gone, 0 it would block, -1 lost.
  void batch_writes();
  int flush();
  bool pending() const;  // decrypted bytes wait inside

  int fd() const { return fd_; }
  int release_fd();  // ends TLS without a word and hands the socket over
  void close();
  explicit operator bool() const { return ssl_ != nullptr; }

 private:
  bool handshake(int timeout_ms, std::string& error);
  int fd_ = -1;
  SSL* ssl_ = nullptr;
};

void warm_up();  // what OpenSSL does at its first use, done before somebody waits

// Launcher's side, made once: null and a reason when files are missing or wrong.
SSL_CTX* launcher_context(const std::string& certificate_path, const std::string& key_path,
                          std::string& error);

// At once, awake through idle middleboxes, and an end that is gone is noticed after 105 seconds at
// the latest.
void tune_tcp(int fd);
int connect_tcp(const std::string& address, int port, int timeout_ms,
                std::string& error);  // non-blocking socket or -1
bool same_machine(int fd);            // the connection's two ends have one address
bool socket_ready(int fd, bool writing, int timeout_ms);
std::string openssl_error();

}  // namespace busbar::transport
