/* What the parts of the host have in common: a program that uses the system's OpenSSL, into which
 * the provider is loaded beside OpenSSL's own. */

#ifndef EVENER_TESTS_TLS_HOST_H
#define EVENER_TESTS_TLS_HOST_H

#include <openssl/evp.h>
#include <stddef.h>
#include <stdint.h>

#define OURS "provider=evener"
#define THEIRS "provider=default"

/* Ends the program where something is not so. */
void expect(int is_so, const char *what, const char *file, int line);
#define EXPECT(condition) expect((condition) != 0, #condition, __FILE__, __LINE__)

/* A cipher with this many bits of key, by properties. */
EVP_CIPHER *fetch(int bits, const char *properties);

/* Numbers that are the same in every run. */
uint64_t random_number(void);
size_t below(size_t limit);
void random_bytes(unsigned char *to, size_t count);

/* Records and bytes that this process has done with Evener, from its line of the file. */
struct count {
    uint64_t sealed_records, sealed_bytes, opened_records, opened_bytes, forged;
};
struct count counted(const char *file);

/* The tests, each in its own file. */
void test_vectors(const char *file);
void test_calls(void);
void test_ivs(void);
void test_random(int rounds);
void test_connections(const char *certificate, const char *key, const char *counters);
void test_fork(const char *counters);
void measure(const char *what, int bits, size_t bytes, const char *properties,
             const char *certificate, const char *key);

#endif
