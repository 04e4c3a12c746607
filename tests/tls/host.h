/* What the parts of the host have in common: a program that uses the system's OpenSSL, into which
 * the provider is loaded beside OpenSSL's own. */

#ifndef EVENER_TESTS_TLS_HOST_H
#define EVENER_TESTS_TLS_HOST_H

#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <stddef.h>
#include <stdint.h>

#define OURS "provider=evener"
#define THEIRS "provider=default"

/* Ends the program where something is not so. */
void expect(int is_so, const char *what, const char *file, int line);
#define EXPECT(condition) expect((condition) != 0, #condition, __FILE__, __LINE__)

/* AES in GCM or in another mode, with this many bits of key, by properties. */
EVP_CIPHER *fetch(int bits, const char *properties);
EVP_CIPHER *fetch_mode(const char *mode, int bits, const char *properties);
/* Evener's; NULL where it has no such mode: a processor without instructions for AES has GCM and CBC only. */
EVP_CIPHER *offered(const char *mode, int bits);

/* Numbers that are the same in every run. */
uint64_t random_number(void);
size_t below(size_t limit);
void random_bytes(unsigned char *to, size_t count);

/* A place for so many bytes, with a page before or behind it that nobody may touch. There are 8,
 * each good until it is asked for again. */
unsigned char *guarded(int place, size_t count);

/* The bytes of hexadecimal digits; their number. */
size_t from_hex(unsigned char *to, const char *digits);

/* Records and bytes that a process has done with Evener, from its line of the file. */
struct count {
    uint64_t sealed_records, sealed_bytes, opened_records, opened_bytes, forged;
    uint64_t module_records, module_bytes;
};
struct count counted(const char *file);
struct count counted_by(const char *file, int process);

/* A connection within the process. */
struct connection {
    SSL *server, *client;
};
SSL_CTX *make_end(int is_server, int version, const char *suite, const char *properties,
                  const char *certificate, const char *key);
struct connection connect_ends(SSL_CTX *server, SSL_CTX *client, SSL_SESSION *session);
void disconnect(struct connection connection);
/* Sends so many bytes and compares what arrives. */
void transfer(SSL *from, SSL *to, size_t length);

/* The tests, each in its own file. */
void test_vectors(const char *file);
void test_published(const char *file, const char *counters);
void test_calls(void);
void test_ivs(void);
void test_random(int rounds);
void test_modes(int rounds);
void test_cbc_records(int rounds);
void test_wiped(void);
void test_memory(void);
void test_stacks(void);
void test_connections(const char *certificate, const char *key, const char *counters);
void test_cbc_connections(int is_plain, const char *certificate, const char *key,
                          const char *counters);
void test_bulk(size_t mebibytes, const char *certificate, const char *key, const char *counters);
void test_attacks(const char *certificate, const char *key, const char *counters);
void test_loading(const char *configuration);
void test_fork(const char *counters);
void test_confined(const char *counters, const char *root);
void test_module(const char *device, const char *mode, const char *certificate, const char *key,
                 const char *counters);
void measure(const char *what, int bits, size_t bytes, const char *properties,
             const char *certificate, const char *key);
void measure_handshakes(const char *certificate, const char *key);

#endif
