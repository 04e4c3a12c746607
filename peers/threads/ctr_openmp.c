/* AES in CTR mode on many threads with OpenMP and OpenSSL's EVP: a peer of `evener-lab bench threads`.
 *
 * Usage: ctr_openmp BYTES
 *
 * It says in one line what it is made of, and then, for every line that it reads, encrypts or
 * decrypts its buffer of BYTES bytes once:
 *
 *     CIPHER OPERATION WAY THREADS
 *
 * CIPHER is aes-128-ctr or aes-256-ctr, OPERATION encrypt or decrypt. WAY is `parts`, parts of
 * 1 MiB that threads take one by one, or `blocks`, every 16-byte block for itself with its own
 * counter, as the Xeon Phi paper did it. It answers with the nanoseconds that took; the buffers
 * have been touched before. `digest OPERATION` answers with a digest of what the operation made.
 */

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 16, PART = 1 << 20, LINE = 64 };

static const char *const USAGE = "usage: ctr_openmp BYTES\n";

static void fail(const char *what)
{
    fprintf(stderr, "ctr_openmp: %s\n", what);
    exit(1);
}

/* SplitMix64, by position. */
static uint64_t word(uint64_t index)
{
    uint64_t mixed = (index + 1) * UINT64_C(0x9E3779B97F4A7C15);
    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94D049BB133111EB);
    return mixed ^ (mixed >> 31);
}

static uint64_t digest(const unsigned char *data, size_t length)
{
    uint64_t state = UINT64_C(0xCBF29CE484222325);
    for (size_t at = 0; at + 8 <= length; at += 8) {
        uint64_t value;
        memcpy(&value, data + at, sizeof value);
        state = (state ^ value) * UINT64_C(0x100000001B3);
    }
    return state;
}

/* The counter block so many blocks behind the first, which is 0, 1, .., 15. */
static void counter_block(unsigned char counter[BLOCK], uint64_t blocks)
{
    unsigned carry = 0;
    for (int at = BLOCK - 1; at >= 0; at--) {
        unsigned sum = (unsigned)at + (unsigned)(blocks & 0xFF) + carry;
        counter[at] = (unsigned char)sum;
        carry = sum >> 8;
        blocks >>= 8;
    }
}

static void crypt_at(EVP_CIPHER_CTX *context, const unsigned char *from, unsigned char *to,
                     size_t at, size_t length)
{
    unsigned char counter[BLOCK];
    int written = 0;
    counter_block(counter, at / BLOCK);
    /* Decryption in CTR is encryption. */
    if (EVP_EncryptInit_ex(context, NULL, NULL, NULL, counter) != 1
        || EVP_EncryptUpdate(context, to + at, &written, from + at, (int)length) != 1
        || (size_t)written != length)
        fail("EVP failed");
}

static void run(const EVP_CIPHER *cipher, int threads, size_t unit, const unsigned char *from,
                unsigned char *to, size_t length)
{
    unsigned char key[32];
    for (int at = 0; at < 32; at++)
        key[at] = (unsigned char)at;
    size_t units = (length + unit - 1) / unit;
    #pragma omp parallel num_threads(threads)
    {
        EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
        if (!context || EVP_EncryptInit_ex(context, cipher, NULL, key, NULL) != 1)
            fail("EVP has no context");
        if (unit == PART) {
            #pragma omp for schedule(dynamic)
            for (size_t index = 0; index < units; index++) {
                size_t at = index * unit;
                crypt_at(context, from, to, at, length - at < unit ? length - at : unit);
            }
        } else {
            #pragma omp for schedule(static)
            for (size_t index = 0; index < units; index++) {
                size_t at = index * unit;
                crypt_at(context, from, to, at, length - at < unit ? length - at : unit);
            }
        }
        EVP_CIPHER_CTX_free(context);
    }
}

static unsigned char *buffer(size_t length)
{
    unsigned char *data = aligned_alloc(LINE, (length + LINE - 1) / LINE * LINE);
    if (!data)
        fail("no memory");
    memset(data, 1, length);
    return data;
}

int main(int argc, char **argv)
{
    size_t length = argc == 2 ? strtoull(argv[1], NULL, 10) : 0;
    if (length == 0) {
        fputs(USAGE, stderr);
        return 2;
    }
    unsigned char *plaintext = buffer(length), *ciphertext = buffer(length);
    for (size_t at = 0; at + 8 <= length; at += 8) {
        uint64_t value = word(at / 8);
        memcpy(plaintext + at, &value, sizeof value);
    }
    /* Fetched once: that is no part of the work. */
    EVP_CIPHER *ciphers[] = {EVP_CIPHER_fetch(NULL, "AES-128-CTR", NULL),
                             EVP_CIPHER_fetch(NULL, "AES-256-CTR", NULL)};
    if (!ciphers[0] || !ciphers[1])
        fail("OpenSSL has no AES in CTR mode");
    printf("%s, GCC %s, OpenMP %d\n", OpenSSL_version(OPENSSL_VERSION), __VERSION__, _OPENMP);
    fflush(stdout);

    char line[128], name[32], operation[32], way[32];
    int threads = 0;
    while (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "digest %31s", operation) == 1) {
            int encrypts = strcmp(operation, "encrypt") == 0;
            printf("%016llx\n",
                   (unsigned long long)digest(encrypts ? ciphertext : plaintext, length));
        } else if (sscanf(line, "%31s %31s %31s %d", name, operation, way, &threads) == 4) {
            const EVP_CIPHER *cipher = ciphers[strcmp(name, "aes-256-ctr") == 0];
            int encrypts = strcmp(operation, "encrypt") == 0;
            size_t unit = strcmp(way, "parts") == 0 ? PART : BLOCK;
            double start = omp_get_wtime();
            run(cipher, threads, unit, encrypts ? plaintext : ciphertext,
                encrypts ? ciphertext : plaintext, length);
            printf("%.0f\n", (omp_get_wtime() - start) * 1e9);
        } else {
            fail("not a command");
        }
        fflush(stdout);
    }
    EVP_CIPHER_free(ciphers[0]);
    EVP_CIPHER_free(ciphers[1]);
    free(plaintext);
    free(ciphertext);
    return 0;
}
