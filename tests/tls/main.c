/* The host: loads OpenSSL's own provider and, by the configuration, Evener's, and runs a test. */

#include "host.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/provider.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
    char name[32];
    snprintf(name, sizeof name, "AES-%d-GCM", bits);
    EVP_CIPHER *cipher = EVP_CIPHER_fetch(NULL, name, properties);
    EXPECT(cipher != NULL);
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

struct count counted(const char *file)
{
    uint64_t lines[256][8];
    struct count count = { 0, 0, 0, 0, 0 };
    int descriptor = open(file, O_RDONLY);
    if (descriptor < 0)
        return count;
    EXPECT(read(descriptor, lines, sizeof lines) == (ssize_t)sizeof lines);
    close(descriptor);
    for (int line = 2; line < 256; line++)
        if (lines[line][0] == (uint64_t)getpid())
            memcpy(&count, &lines[line][1], sizeof count);
    return count;
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
    if (strcmp(test, "vectors") == 0 && argc == 3)
        test_vectors(argv[2]);
    else if (strcmp(test, "calls") == 0 && argc == 2)
        test_calls();
    else if (strcmp(test, "absence") == 0 && argc == 2)
        test_absence();
    else if (strcmp(test, "random") == 0 && argc == 3)
        test_random(atoi(argv[2]));
    else if (strcmp(test, "connections") == 0 && argc == 5)
        test_connections(argv[2], argv[3], argv[4]);
    else if (strcmp(test, "fork") == 0 && argc == 3)
        test_fork(argv[2]);
    else if (strcmp(test, "measure") == 0 && argc == 8)
        measure(argv[2], atoi(argv[3]), (size_t)atol(argv[4]), argv[5], argv[6], argv[7]);
    else {
        fprintf(stderr, "usage: host vectors FILE | calls | absence | random ROUNDS |\n"
                        "       connections CERTIFICATE KEY COUNTERS | fork COUNTERS |\n"
                        "       measure records|transfer BITS BYTES PROPERTIES CERTIFICATE KEY\n");
        return 2;
    }
    return 0;
}
