/* How much of the processor's time a record takes. */

#include "host.h"

#include <stdio.h>
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

/* Prints the nanoseconds of the processor that a record takes: its calls, or with `transfer` its
 * whole way from SSL_write to SSL_read. */
void measure(const char *what, int bits, size_t bytes, const char *properties,
             const char *certificate, const char *key)
{
    static unsigned char text[LONGEST], arrived[LONGEST];
    size_t count;
    EXPECT(bytes <= LONGEST);
    int is_transfer = strcmp(what, "transfer") == 0;
    const char *suite = bits == 128 ? "TLS_AES_128_GCM_SHA256" : "TLS_AES_256_GCM_SHA384";
    SSL_CTX *server = make_end(1, TLS1_3_VERSION, suite, properties, certificate, key);
    SSL_CTX *client = make_end(0, TLS1_3_VERSION, suite, properties, NULL, NULL);
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
    printf("%.1f\n", (end - start) * 1e9 / (double)done);
    EVP_CIPHER_CTX_free(context);
    EVP_CIPHER_free(cipher);
    disconnect(connection);
    SSL_CTX_free(server);
    SSL_CTX_free(client);
}
