#include "transport/tls.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <cstring>
#include <memory>

#include "transport/clock.h"
#include "transport/tcp.h"

namespace busbar::transport {

namespace {
const char kIdentity[] = "busbar-session";
constexpr size_t kReadAheadBytes = 128 << 10;
// Bytes of one write to the socket. Measured: 25 % more throughput than one write per record, and
// more than with 128 KiB.
constexpr long kBatchBytes = 64 << 10;

SSL_CTX* context(const SSL_METHOD* method) {
  // No atexit handler: a thread of the program may still send during exit. No configuration file:
  // protocol and ciphers are fixed here.
  OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT | OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
  SSL_CTX* c = SSL_CTX_new(method);
  SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION);
  SSL_CTX_set_num_tickets(c, 0);
  SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_options(c, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
  return c;
}

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

// Adds a certificate made for this connection. It only carries the public key in the ticket.
bool add_ephemeral_certificate(SSL* ssl, const Secret& private_key) {
  std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
      EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, private_key.data(),
                                   private_key.size()),
      EVP_PKEY_free);
  std::unique_ptr<X509, decltype(&X509_free)> cert(X509_new(), X509_free);
  if (!key || !cert) return false;
  X509_set_version(cert.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(cert.get()), 1);
  // The validity is not checked. Fixed times avoid reading the time zone files of libc.
  ASN1_TIME_set_string(X509_getm_notBefore(cert.get()), "20000101000000Z");
  ASN1_TIME_set_string(X509_getm_notAfter(cert.get()), "20991231235959Z");
  X509_NAME* name = X509_get_subject_name(cert.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char*)"busbar client", -1,
                             -1, 0);
  X509_set_issuer_name(cert.get(), name);
  X509_set_pubkey(cert.get(), key.get());
  return X509_sign(cert.get(), key.get(), nullptr) && SSL_use_certificate(ssl, cert.get()) == 1 &&
         SSL_use_PrivateKey(ssl, key.get()) == 1;
}

bool add_trusted_certificates(SSL_CTX* c, const std::string& pem) {
  std::unique_ptr<BIO, decltype(&BIO_free)> bio(BIO_new_mem_buf(pem.data(), (int)pem.size()),
                                                BIO_free);
  bool any = false;
  while (X509* ca = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) {
    any = X509_STORE_add_cert(SSL_CTX_get_cert_store(c), ca) == 1 || any;
    X509_free(ca);
  }
  ERR_clear_error();
  return any;
}

int accept_any(int, X509_STORE_CTX*) {
  return 1;
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

bool Tls::handshake(int timeout_ms, std::string& error) {
  int64_t end = now_ms() + timeout_ms;
  for (;;) {
    ERR_clear_error();
    int r = SSL_do_handshake(ssl_);
    if (r == 1) return true;
    int want = SSL_get_error(ssl_, r);
    int left = (int)(end - now_ms());
    if (left <= 0) {
      error = "TLS handshake timed out";
      return false;
    }
    if (want == SSL_ERROR_WANT_READ || want == SSL_ERROR_WANT_WRITE) {
      socket_ready(fd_, want == SSL_ERROR_WANT_WRITE, left);
      continue;
    }
    long verify = SSL_get_verify_result(ssl_);
    error = verify != X509_V_OK
                ? std::string("certificate: ") + X509_verify_cert_error_string(verify)
                : openssl_error();
    return false;
  }
}

bool Tls::connect_launcher(int fd, const std::string& ca_pem, const std::string& node_id,
                           const Secret& key, int timeout_ms, Tls& out, std::string& error) {
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> c(context(TLS_client_method()), SSL_CTX_free);
  if (!add_trusted_certificates(c.get(), ca_pem)) {
    error = "the CA certificate in the ticket file is invalid";
    return false;
  }
  SSL_CTX_set_verify(c.get(), SSL_VERIFY_PEER, nullptr);
  SSL* ssl = SSL_new(c.get());
  SSL_set1_host(ssl, node_id.c_str());
  SSL_set_fd(ssl, fd);
  SSL_set_connect_state(ssl);
  Tls t;
  t.fd_ = fd;
  t.ssl_ = ssl;
  if (!add_ephemeral_certificate(ssl, key)) {
    error = openssl_error();
    return false;
  }
  if (!t.handshake(timeout_ms, error)) return false;
  out = std::move(t);
  return true;
}

void preload_openssl() {
  for (auto* method : {TLS_server_method(), TLS_client_method()}) {
    SSL_CTX* c = context(method);
    SSL_free(SSL_new(c));
    SSL_CTX_free(c);
  }
}

SSL_CTX* launcher_context(const std::string& certificate, const std::string& key,
                          std::string& error) {
  SSL_CTX* c = context(TLS_server_method());
  SSL_CTX_set_verify(c, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, accept_any);
  if (SSL_CTX_use_certificate_chain_file(c, certificate.c_str()) == 1 &&
      SSL_CTX_use_PrivateKey_file(c, key.c_str(), SSL_FILETYPE_PEM) == 1)
    return c;
  error = openssl_error();
  SSL_CTX_free(c);
  return nullptr;
}

bool Tls::accept_client(int fd, SSL_CTX* c, int timeout_ms, Tls& out, std::string& error) {
  Tls t;
  t.fd_ = fd;
  t.ssl_ = SSL_new(c);
  SSL_set_fd(t.ssl_, fd);
  SSL_set_accept_state(t.ssl_);
  if (!t.handshake(timeout_ms, error)) return false;
  out = std::move(t);
  return true;
}

Tls Tls::prepare_with_key(int fd, Role role, const Secret& key) {
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> c(
      context(role == Role::client ? TLS_client_method() : TLS_server_method()), SSL_CTX_free);
  SSL_CTX_set_ciphersuites(c.get(), "TLS_AES_128_GCM_SHA256");
  // Without read-ahead every TLS record costs two reads: header and body.
  SSL_CTX_set_read_ahead(c.get(), 1);
  SSL_CTX_set_default_read_buffer_len(c.get(), kReadAheadBytes);
  SSL_CTX_set_psk_use_session_callback(c.get(), offer_key);
  SSL_CTX_set_psk_find_session_callback(c.get(), find_key);
  // Refuses the certificate to which a server without the key would fall back.
  if (role == Role::client) SSL_CTX_set_verify(c.get(), SSL_VERIFY_PEER, nullptr);
  Tls t;
  t.fd_ = fd;
  t.ssl_ = SSL_new(c.get());
  SSL_set_app_data(t.ssl_, const_cast<Secret*>(&key));
  SSL_set_fd(t.ssl_, fd);
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
  bool ok = handshake(timeout_ms, error);
  SSL_set_app_data(ssl_, nullptr);
  if (ok && !SSL_session_reused(ssl_)) error = "the peer does not hold the session key";
  return ok && SSL_session_reused(ssl_);
}

bool Tls::open_with_key(int fd, Role role, const Secret& key, int timeout_ms, Tls& out,
                        std::string& error) {
  Tls t = prepare_with_key(fd, role, key);
  if (!t.finish_with_key(timeout_ms, error)) return false;
  out = std::move(t);
  return true;
}

bool Tls::peer_public_key(Secret& out) const {
  X509* cert = SSL_get0_peer_certificate(ssl_);
  EVP_PKEY* key = cert ? X509_get0_pubkey(cert) : nullptr;
  size_t n = out.size();
  return key && EVP_PKEY_id(key) == EVP_PKEY_ED25519 &&
         EVP_PKEY_get_raw_public_key(key, out.data(), &n) == 1 && n == out.size();
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
