#include "transport/tls.h"

#include <openssl/err.h>
#include <unistd.h>

#include <cstring>

#include "transport/clock.h"
#include "transport/tcp.h"

namespace busbar::transport {

namespace {
const char kIdentity[] = "busbar-session";
constexpr size_t kReadAheadBytes = 128 << 10;
// Bytes of one write to the socket. Measured: 25 % more throughput than one write per record, and
// more than with 128 KiB.
constexpr long kBatchBytes = 64 << 10;

// Return a TLS 1.3 session that carries the external pre-shared key.
SSL_SESSION* session_with_key(SSL* ssl, const Secret& key) {
  static const unsigned char kAes128GcmSha256[] = {0x13, 0x01};
  SSL_SESSION* s = SSL_SESSION_new();
  SSL_SESSION_set1_master_key(s, key.data(), key.size());
  SSL_SESSION_set_cipher(s, SSL_CIPHER_find(ssl, kAes128GcmSha256));
  SSL_SESSION_set_protocol_version(s, TLS1_3_VERSION);
  return s;
}

int offer_key(SSL* ssl, const EVP_MD*, const unsigned char** id, size_t* id_bytes,
              SSL_SESSION** out) {
  *id = (const unsigned char*)kIdentity;
  *id_bytes = sizeof kIdentity - 1;
  *out = session_with_key(ssl, *(const Secret*)SSL_get_app_data(ssl));
  return 1;
}

int find_key(SSL* ssl, const unsigned char* id, size_t n, SSL_SESSION** out) {
  if (n != sizeof kIdentity - 1 || std::memcmp(id, kIdentity, n)) {
    *out = nullptr;
    return 1;
  }
  *out = session_with_key(ssl, *(const Secret*)SSL_get_app_data(ssl));
  return 1;
}

// The first call of the library decides, and keys are derived before the first context is created.
// It costs microseconds.
// - No atexit handler: a thread of the program may still send during exit.
// - No configuration file: protocol and ciphers are fixed here.
// - No table of all ciphers and digests by their old names: nothing here looks them up, and filling
//   it takes a quarter of the time of OpenSSL's first use.
__attribute__((constructor)) void initialise_openssl() {
  OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT | OPENSSL_INIT_NO_LOAD_CONFIG |
                          OPENSSL_INIT_NO_ADD_ALL_CIPHERS | OPENSSL_INIT_NO_ADD_ALL_DIGESTS,
                      nullptr);
}

SSL_CTX* new_context(const SSL_METHOD* method) {
  SSL_CTX* c = SSL_CTX_new(method);
  SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION);
  SSL_CTX_set_ciphersuites(c, "TLS_AES_128_GCM_SHA256");
  SSL_CTX_set1_groups_list(c, "X25519");
  SSL_CTX_set_num_tickets(c, 0);
  SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_options(c, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_psk_use_session_callback(c, offer_key);
  SSL_CTX_set_psk_find_session_callback(c, find_key);
  return c;
}

// Returns the context of all connections of this process in one role. It is never freed: threads of
// the program may still send during exit.
SSL_CTX* context(Role role) {
  auto create = [](Role r) {
    SSL_CTX* c = new_context(r == Role::client ? TLS_client_method() : TLS_server_method());
    // Refuses the certificate to which a server without the key would fall back.
    if (r == Role::client) SSL_CTX_set_verify(c, SSL_VERIFY_PEER, nullptr);
    return c;
  };
  if (role == Role::client) {
    static SSL_CTX* client = create(Role::client);
    return client;
  }
  static SSL_CTX* server = create(Role::server);
  return server;
}
}  // namespace

std::string openssl_error() {
  char text[256] = "no detail";
  if (unsigned long e = ERR_get_error()) ERR_error_string_n(e, text, sizeof text);
  ERR_clear_error();
  return text;
}

Tls::~Tls() {
  close();
}
Tls& Tls::operator=(Tls&& o) noexcept {
  if (this != &o) {
    close();
    fd_ = o.fd_;
    ssl_ = o.ssl_;
    o.fd_ = -1;
    o.ssl_ = nullptr;
  }
  return *this;
}
void Tls::close() {
  int fd = release_fd();
  if (fd >= 0) ::close(fd);
}
int Tls::release_fd() {
  int fd = fd_;
  if (ssl_) SSL_free(ssl_);
  ssl_ = nullptr;
  fd_ = -1;
  return fd;
}

Handshake Tls::advance_with_key(std::string& error) {
  ERR_clear_error();
  int result = SSL_do_handshake(ssl_);
  int why = result == 1 ? SSL_ERROR_NONE : SSL_get_error(ssl_, result);
  if (why == SSL_ERROR_WANT_READ) return Handshake::reads;
  if (why == SSL_ERROR_WANT_WRITE) return Handshake::writes;
  SSL_set_app_data(ssl_, nullptr);
  if (result == 1 && SSL_session_reused(ssl_)) return Handshake::complete;
  error = result == 1 ? "the peer does not hold the key" : openssl_error();
  return Handshake::failed;
}

void preload_openssl() {
  for (Role role : {Role::server, Role::client}) SSL_free(SSL_new(context(role)));
}

Tls Tls::prepare_with_key(int fd, Role role, const Secret& key, Reading reading) {
  Tls t;
  t.fd_ = fd;
  t.ssl_ = SSL_new(context(role));
  SSL_set_app_data(t.ssl_, const_cast<Secret*>(&key));
  SSL_set_fd(t.ssl_, fd);
  if (reading == Reading::ahead) {
    // Without read-ahead every TLS record costs two reads: header and body.
    SSL_set_read_ahead(t.ssl_, 1);
    SSL_set_default_read_buffer_len(t.ssl_, kReadAheadBytes);
  }
  if (role == Role::client)
    SSL_set_connect_state(t.ssl_);
  else
    SSL_set_accept_state(t.ssl_);
  return t;
}

bool Tls::send_client_hello() {
  BIO* empty = BIO_new(BIO_s_mem());
  BIO_set_mem_eof_return(empty, -1);
  SSL_set0_rbio(ssl_, empty);
  ERR_clear_error();
  bool sent = SSL_get_error(ssl_, SSL_do_handshake(ssl_)) == SSL_ERROR_WANT_READ;
  return SSL_set_rfd(ssl_, fd_) == 1 && sent;
}

bool Tls::finish_with_key(int timeout_ms, std::string& error) {
  int64_t end = now_ms() + timeout_ms;
  for (;;) {
    Handshake state = advance_with_key(error);
    if (state == Handshake::complete) return true;
    if (state == Handshake::failed) return false;
    int left = (int)(end - now_ms());
    if (left <= 0) {
      error = "TLS handshake timed out";
      return false;
    }
    socket_ready(fd_, state == Handshake::writes, left);
  }
}

bool Tls::open_with_key(int fd, Role role, const Secret& key, int timeout_ms, Tls& out,
                        std::string& error, Reading reading) {
  Tls t = prepare_with_key(fd, role, key, reading);
  if (!t.finish_with_key(timeout_ms, error)) return false;
  out = std::move(t);
  return true;
}

bool Tls::export_key(const char* label, Secret& out) const {
  return SSL_export_keying_material(ssl_, out.data(), out.size(), label, std::strlen(label),
                                    nullptr, 0, 0) == 1;
}

bool Tls::pending() const {
  return ssl_ && SSL_has_pending(ssl_);
}

ssize_t Tls::read_some(void* p, size_t n) {
  ERR_clear_error();
  size_t done = 0;
  if (SSL_read_ex(ssl_, p, n, &done) == 1) return (ssize_t)done;
  int why = SSL_get_error(ssl_, 0);
  return why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? 0 : -1;
}

ssize_t Tls::write_some(const void* p, size_t n) {
  ERR_clear_error();
  size_t done = 0;
  if (SSL_write_ex(ssl_, p, n, &done) == 1) return (ssize_t)done;
  int why = SSL_get_error(ssl_, 0);
  return why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? 0 : -1;
}

void Tls::batch_writes() {
  BIO* buffer = BIO_new(BIO_f_buffer());
  BIO_set_write_buffer_size(buffer, kBatchBytes);
  SSL_set0_wbio(ssl_, BIO_push(buffer, BIO_new_socket(fd_, BIO_NOCLOSE)));
}

int Tls::flush() {
  BIO* out = SSL_get_wbio(ssl_);
  if (BIO_flush(out) > 0) return 1;
  return BIO_should_retry(out) ? 0 : -1;
}

bool Tls::ready_before(int64_t end, bool writing) const {
  int64_t left = end - now_ms();
  return left > 0 && socket_ready(fd_, writing, (int)left);
}

bool Tls::read_all(void* p, size_t n, int timeout_ms) {
  auto* at = (uint8_t*)p;
  int64_t end = now_ms() + timeout_ms;
  while (n) {
    ssize_t k = read_some(at, n);
    if (k < 0 || (k == 0 && !ready_before(end, false))) return false;
    at += k;
    n -= (size_t)k;
  }
  return true;
}

bool Tls::write_all(const void* p, size_t n, int timeout_ms) {
  auto* at = (const uint8_t*)p;
  int64_t end = now_ms() + timeout_ms;
  while (n) {
    ssize_t k = write_some(at, n);
    if (k < 0 || (k == 0 && !ready_before(end, true))) return false;
    at += k;
    n -= (size_t)k;
  }
  return true;
}

}  // namespace busbar::transport
