/* How much of the processor's time a record takes, a message in another mode than GCM, or a handshake. */

#include "host.h"

#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LONGEST (3 << 20)

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* TLS 1.3's calls for a record that is sent. */
static void send_record(EVP_CIPHER_CTX *context, unsigned char *text, int length)
{
    static unsigned char iv[12], aad[5] = { 23, 3, 3, 0, 0 }, tag[16];
    int count;
    iv[0]++;
    EXPECT(EVP_CipherInit_ex(context, NULL, NULL, NULL, iv, 1) > 0);
    EXPECT(EVP_CipherUpdate(context, NULL, &count, aad, sizeof aad) > 0);
    EXPECT(EVP_CipherUpdate(context, text, &count, text, length) > 0);
    EXPECT(EVP_CipherFinal_ex(context, text + length, &count) > 0);
    EXPECT(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, 16, tag) > 0);
}

/* What can be measured besides GCM's records. */
static const struct what {
    const char *name, *mode;
    int encrypt;
} WHATS[] = {
    { "ecb", "ECB", 1 },         { "ecb-decrypt", "ECB", 0 }, { "ctr", "CTR", 1 },
    { "cbc", "CBC", 1 },         { "cbc-decrypt", "CBC", 0 },
};
enum { ALL_WHATS = sizeof WHATS / sizeof *WHATS };

/* A message in its place, and with `with_key` another key for it. */
static void do_message(EVP_CIPHER_CTX *context, unsigned char *text, int length, int with_key)
{
    static unsigned char iv[16], last[32];
    int count;
    iv[0]++;
    EXPECT(EVP_CipherInit_ex(context, NULL, NULL, with_key ? text : NULL, iv, -1) > 0);
    EXPECT(EVP_CipherUpdate(context, text, &count, text, length) > 0);
    EXPECT(EVP_CipherFinal_ex(context, last, &count) > 0);
}

/* Prints the nanoseconds that so many calls took. */
static void say(double start, double end, long done)
{
    printf("%.1f\n", (end - start) * 1e9 / (double)done);
}

static int ends_with(const char *name, const char *end)
{
    return strlen(name) > strlen(end) && strcmp(name + strlen(name) - strlen(end), end) == 0;
}

/* A message in a mode, with another key for each, or another context as well, where the name ends
 * so; or random bytes, which OpenSSL makes with AES-256 in CTR and ECB. */
static int measure_mode(const char *name, int bits, size_t bytes, const char *properties)
{
    static unsigned char text[LONGEST + 16];
    int is_new = ends_with(name, "-new"), with_key = is_new || ends_with(name, "-key");
    size_t length = strlen(name) - (with_key ? 4 : 0);
    int is_random = strcmp(name, "random") == 0;
    const struct what *what = WHATS;
    while (!is_random
           && (strncmp(what->name, name, length) != 0 || strlen(what->name) != length))
        if (++what == WHATS + ALL_WHATS)
            return 0;
    EVP_CIPHER *cipher = NULL;
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    if (is_random)
        EXPECT(RAND_set_DRBG_type(NULL, "CTR-DRBG", properties, "AES-256-CTR", NULL) == 1);
    else {
        cipher = fetch_mode(what->mode, bits, properties);
        EXPECT(EVP_CipherInit_ex(context, cipher, NULL, text, text, what->encrypt));
        EXPECT(EVP_CIPHER_CTX_set_padding(context, 0));
    }
    long done = 0;
    double start = now(), end;
    do {
        for (int times = 0; times < 50; times++, done++)
            if (is_random)
                EXPECT(RAND_bytes(text, (int)bytes) == 1);
            else {
                if (is_new) {
                    EVP_CIPHER_CTX_free(context);
                    context = EVP_CIPHER_CTX_new();
                    EXPECT(EVP_CipherInit_ex(context, cipher, NULL, NULL, NULL, what->encrypt));
                    EXPECT(EVP_CIPHER_CTX_set_padding(context, 0));
                }
                do_message(context, text, (int)bytes, with_key);
            }
        end = now();
    } while (end - start < 0.2);
    say(start, end, done);
    EVP_CIPHER_CTX_free(context);
    EVP_CIPHER_free(cipher);
    return 1;
}

enum { PAIRS = 2000, HANDSHAKES = 5 };

static int ascending(const void *one, const void *other)
{
    double difference = *(const double *)one - *(const double *)other;
    return difference < 0 ? -1 : difference > 0;
}

/* Some handshakes of TLS 1.3 with their tickets, of both ends, and all that a new connection takes:
 * the nanoseconds of one. */
static double handshake(SSL_CTX *server, SSL_CTX *client)
{
    double start = now();
    for (int times = 0; times < HANDSHAKES; times++) {
        struct connection connection = connect_ends(server, client, NULL);
        transfer(connection.server, connection.client, 1);
        disconnect(connection);
    }
    return (now() - start) * 1e9 / HANDSHAKES;
}

/* Handshakes with OpenSSL's own ciphers and with Evener's in turns within one process, since the
 * difference is small. Prints the medians of OpenSSL's own, and of the difference of two in turn. */
void measure_handshakes(const char *certificate, const char *key)
{
    static const char *const PREFERRED[] = { THEIRS, "?" OURS }, SUITE[] = "TLS_AES_128_GCM_SHA256";
    static double own[PAIRS], difference[PAIRS];
    SSL_CTX *server[2], *client[2];
    for (int one = 0; one < 2; one++) {
        server[one] = make_end(1, TLS1_3_VERSION, SUITE, PREFERRED[one], certificate, key);
        client[one] = make_end(0, TLS1_3_VERSION, SUITE, PREFERRED[one], NULL, NULL);
    }
    for (int pair = 0; pair < PAIRS; pair++) {
        double times[2];
        for (int turn = 0; turn < 2; turn++) {
            int one = (pair + turn) % 2;
            times[one] = handshake(server[one], client[one]);
        }
        own[pair] = times[0];
        difference[pair] = times[1] - times[0];
    }
    qsort(own, PAIRS, sizeof *own, ascending);
    qsort(difference, PAIRS, sizeof *difference, ascending);
    printf("default %.0f ns, evener %+.0f ns (%+.1f %%)\n", own[PAIRS / 2], difference[PAIRS / 2],
           100 * difference[PAIRS / 2] / own[PAIRS / 2]);
    for (int one = 0; one < 2; one++) {
        SSL_CTX_free(server[one]);
        SSL_CTX_free(client[one]);
    }
}

/* Prints the nanoseconds of the processor that a record takes: its calls, or with `transfer` its
 * whole way from SSL_write to SSL_read, by TLS 1.2 with CBC in `transfer-cbc`. Or those of a
 * message in another mode. */
void measure(const char *what, int bits, size_t bytes, const char *properties,
             const char *certificate, const char *key)
{
    static unsigned char text[LONGEST], arrived[LONGEST];
    size_t count;
    EXPECT(bytes <= LONGEST);
    if (measure_mode(what, bits, bytes, properties))
        return;
    int is_cbc = strcmp(what, "transfer-cbc") == 0;
    int is_transfer = is_cbc || strcmp(what, "transfer") == 0;
    const char *suites[2][2] = { { "TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384" },
                                 { "ECDHE-ECDSA-AES128-SHA", "ECDHE-ECDSA-AES256-SHA" } };
    const char *suite = suites[is_cbc][bits == 256];
    int version = is_cbc ? TLS1_2_VERSION : TLS1_3_VERSION;
    SSL_CTX *server = make_end(1, version, suite, properties, certificate, key);
    SSL_CTX *client = make_end(0, version, suite, properties, NULL, NULL);
    struct connection connection = connect_ends(server, client, NULL);
    EVP_CIPHER *cipher = fetch(bits, properties);
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    EXPECT(EVP_EncryptInit_ex(context, cipher, NULL, text, text));
    long done = 0;
    double start = now(), end;
    do {
        for (int times = 0; times < 50; times++, done++) {
            if (is_transfer) {
                EXPECT(SSL_write_ex(connection.server, text, bytes, &count));
                for (size_t sum = 0; sum < bytes; sum += count)
                    EXPECT(SSL_read_ex(connection.client, arrived, bytes, &count));
            } else
                send_record(context, text, (int)bytes);
        }
        end = now();
    } while (end - start < 0.2);
    say(start, end, done);
    EVP_CIPHER_CTX_free(context);
    EVP_CIPHER_free(cipher);
    disconnect(connection);
    SSL_CTX_free(server);
    SSL_CTX_free(client);
}
