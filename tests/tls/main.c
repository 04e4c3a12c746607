/* The host: loads OpenSSL's own provider and, by the configuration, Evener's, and runs a test. */

#include "host.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/provider.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void expect(int is_so, const char *what, const char *file, int line)
{
    if (is_so)
        return;
    fprintf(stderr, "%s:%d: not so: %s\n", file, line, what);
    ERR_print_errors_fp(stderr);
    exit(1);
}

EVP_CIPHER *fetch(int bits, const char *properties)
{
    return fetch_mode("GCM", bits, properties);
}

EVP_CIPHER *fetch_mode(const char *mode, int bits, const char *properties)
{
    char name[32];
    snprintf(name, sizeof name, "AES-%d-%s", bits, mode);
    EVP_CIPHER *cipher = EVP_CIPHER_fetch(NULL, name, properties);
    EXPECT(cipher != NULL);
    return cipher;
}

EVP_CIPHER *offered(const char *mode, int bits)
{
    char name[32];
    snprintf(name, sizeof name, "AES-%d-%s", bits, mode);
    EVP_CIPHER *cipher = EVP_CIPHER_fetch(NULL, name, OURS);
    EXPECT(cipher != NULL || strcmp(mode, "CTR") == 0 || strcmp(mode, "ECB") == 0);
    ERR_clear_error();
    return cipher;
}

/* SplitMix64. */
uint64_t random_number(void)
{
    static uint64_t state = 1;
    uint64_t mixed = state += 0x9E3779B97F4A7C15;
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9;
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB;
    return mixed ^ mixed >> 31;
}

size_t below(size_t limit)
{
    return random_number() % limit;
}

void random_bytes(unsigned char *to, size_t count)
{
    while (count--)
        to[count] = (unsigned char)random_number();
}

size_t from_hex(unsigned char *to, const char *digits)
{
    size_t count = 0;
    unsigned byte;
    for (; digits[0] != 0 && sscanf(digits, "%2x", &byte) == 1; digits += 2)
        to[count++] = (unsigned char)byte;
    return count;
}

unsigned char *guarded(int place, size_t count)
{
    enum { ROOM = 1 << 17, PAGE = 1 << 12 };
    static unsigned char *places[8];
    EXPECT(place < 8 && count <= ROOM);
    if (places[place] == NULL) {
        unsigned char *all = mmap(NULL, ROOM + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        EXPECT(all != MAP_FAILED && mprotect(all + PAGE, ROOM, PROT_READ | PROT_WRITE) == 0);
        places[place] = all + PAGE;
    }
    return below(2) ? places[place] : places[place] + ROOM - count;
}

struct count counted_by(const char *file, int process)
{
    uint64_t lines[256][16];
    struct count count = { 0, 0, 0, 0, 0, 0, 0 };
    int descriptor = open(file, O_RDONLY);
    if (descriptor < 0)
        return count;
    EXPECT(read(descriptor, lines, sizeof lines) == (ssize_t)sizeof lines);
    close(descriptor);
    for (int line = 2; line < 256; line++)
        if (lines[line][0] == (uint64_t)process)
            memcpy(&count, &lines[line][1], sizeof count);
    return count;
}

struct count counted(const char *file)
{
    return counted_by(file, getpid());
}

/* A processor without the instructions: OpenSSL's own ciphers serve. */
static void test_absence(void)
{
    EVP_CIPHER *cipher = EVP_CIPHER_fetch(NULL, "AES-128-GCM", OURS);
    EXPECT(OSSL_PROVIDER_available(NULL, "evener") && cipher == NULL);
    ERR_clear_error();
    cipher = fetch(128, "?" OURS);
    EXPECT(strcmp(OSSL_PROVIDER_get0_name(EVP_CIPHER_get0_provider(cipher)), "default") == 0);
    EVP_CIPHER_free(cipher);
    printf("absence\n");
}

int main(int argc, char **argv)
{
    const char *test = argc > 1 ? argv[1] : "";
    if (strcmp(test, "version") == 0 && argc == 2)
        printf("%s\n", OpenSSL_version(OPENSSL_VERSION));
    else if (strcmp(test, "vectors") == 0 && argc == 3)
        test_vectors(argv[2]);
    else if (strcmp(test, "published") == 0 && argc == 4)
        test_published(argv[2], argv[3]);
    else if (strcmp(test, "calls") == 0 && argc == 2)
        test_calls();
    else if (strcmp(test, "absence") == 0 && argc == 2)
        test_absence();
    else if (strcmp(test, "random") == 0 && argc == 3)
        test_random(atoi(argv[2]));
    else if (strcmp(test, "modes") == 0 && argc == 3)
        test_modes(atoi(argv[2]));
    else if (strcmp(test, "cbc-records") == 0 && argc == 3)
        test_cbc_records(atoi(argv[2]));
    else if (strcmp(test, "wiped") == 0 && argc == 2)
        test_wiped();
    else if (strcmp(test, "memory") == 0 && argc == 2)
        test_memory();
    else if (strcmp(test, "stacks") == 0 && argc == 2)
        test_stacks();
    else if (strcmp(test, "connections") == 0 && argc == 5)
        test_connections(argv[2], argv[3], argv[4]);
    else if (strcmp(test, "cbc-connections") == 0 && argc == 6)
        test_cbc_connections(atoi(argv[2]), argv[3], argv[4], argv[5]);
    else if (strcmp(test, "bulk") == 0 && argc == 6)
        test_bulk((size_t)atol(argv[2]), argv[3], argv[4], argv[5]);
    else if (strcmp(test, "attacks") == 0 && argc == 5)
        test_attacks(argv[2], argv[3], argv[4]);
    else if (strcmp(test, "loading") == 0 && argc == 3)
        test_loading(argv[2]);
    else if (strcmp(test, "fork") == 0 && argc == 3)
        test_fork(argv[2]);
    else if (strcmp(test, "confined") == 0 && argc == 4)
        test_confined(argv[2], argv[3]);
    else if (strcmp(test, "module") == 0 && argc == 7)
        test_module(argv[2], argv[3], argv[4], argv[5], argv[6]);
    else if (strcmp(test, "measure") == 0 && argc == 8)
        measure(argv[2], atoi(argv[3]), (size_t)atol(argv[4]), argv[5], argv[6], argv[7]);
    else if (strcmp(test, "handshakes") == 0 && argc == 4)
        measure_handshakes(argv[2], argv[3]);
    else {
        fprintf(stderr,
                "usage: host version | vectors FILE | published FILE COUNTERS | calls | absence |\n"
                "       random ROUNDS | modes ROUNDS | cbc-records ROUNDS | wiped | memory | stacks |\n"
                "       connections CERTIFICATE KEY COUNTERS |\n"
                "       cbc-connections 0|1 CERTIFICATE KEY COUNTERS |\n"
                "       bulk MEBIBYTES CERTIFICATE KEY COUNTERS | attacks CERTIFICATE KEY COUNTERS |\n"
                "       module good|bad|absent gcm|cbc CERTIFICATE KEY COUNTERS |\n"
                "       loading CONFIGURATION | fork COUNTERS | confined COUNTERS DIRECTORY |\n"
                "       measure WHAT BITS BYTES PROPERTIES CERTIFICATE KEY |\n"
                "       handshakes CERTIFICATE KEY\n");
        return 2;
    }
    return 0;
}
