// TLS 1.3 over a TCP socket with a pre-shared key: of a ticket between client and launcher, of a
// session between client and session server.
//
// Thread safety: a Tls object is not synchronized; its owner serializes all calls. Blocking calls
// return at their deadline. The free functions may be called from any thread.
#pragma once
#include <openssl/ssl.h>

#include <array>
#include <cstdint>
#include <string>

namespace busbar::transport {

using Secret = std::array<uint8_t, 32>;

constexpr size_t kTlsRecordBytes = 16 << 10;  // the most that one read returns

enum class Role { client, server };

// Whether a connection reads bytes of the socket before they are needed: fewer system calls.
enum class Reading { ahead, exact };

// State of a handshake that does not block: it waits until the socket can be read or written.
enum class Handshake { complete, reads, writes, failed };

// One connection. Owns its socket.
class Tls {
 public:
  Tls() = default;
  ~Tls();
  Tls(Tls&& o) noexcept : fd_(o.fd_), ssl_(o.ssl_) {
    o.fd_ = -1;
    o.ssl_ = nullptr;
  }
  Tls& operator=(Tls&& o) noexcept;

  // Both ends: handshake with a key that only they have. Takes over the socket. A connection that
  // another one follows on the same socket must not read its first bytes.
  static bool open_with_key(int fd, Role role, const Secret& key, int timeout_ms, Tls& out,
                            std::string& error, Reading reading = Reading::ahead);
  // The same in two steps, so that the ClientHello can be sent early. `key` must stay valid until
  // finish_with_key() returns, or advance_with_key() says that the handshake is complete or failed.
  static Tls prepare_with_key(int fd, Role role, const Secret& key,
                              Reading reading = Reading::ahead);
  bool send_client_hello();  // writes the first message and reads nothing
  bool finish_with_key(int timeout_ms, std::string& error);
  Handshake advance_with_key(std::string& error);  // continues without blocking

  bool export_key(const char* label, Secret& out) const;

  // Transfers exactly `n` bytes. Blocks for at most `timeout_ms` in total.
  bool read_all(void* p, size_t n, int timeout_ms);
  bool write_all(const void* p, size_t n, int timeout_ms);
  // Transfers bytes without blocking. Returns their number, 0 if the call would block, -1 if the
  // connection is lost.
  ssize_t read_some(void* p, size_t n);
  ssize_t write_some(const void* p, size_t n);
  // Collects TLS records and writes them to the socket in batches; flush() writes the rest.
  // flush() returns 1 if all bytes are written, 0 if it would block, -1 if the connection is lost.
  void batch_writes();
  int flush();
  bool pending() const;  // decrypted bytes can be read without the socket

  int fd() const { return fd_; }
  int release_fd();  // drops the TLS state without a close message and returns the socket
  void close();
  explicit operator bool() const { return ssl_ != nullptr; }

 private:
  bool ready_before(int64_t end, bool writing) const;
  int fd_ = -1;
  SSL* ssl_ = nullptr;
};

// Performs the one-time initialization of OpenSSL, so that the first connection does not wait for
// it.
void preload_openssl();

// Return the oldest queued OpenSSL error as text and clear the queue.
std::string openssl_error();

}  // namespace busbar::transport
