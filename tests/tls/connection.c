/* Connections within the process, whose two ends each have the one provider or the other. */

#include "host.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LONGEST (3 << 20)

struct connection {
    SSL *server, *client;
};

static SSL_CTX *end(int is_server, int version, const char *suite, const char *properties,
                    const char *certificate, const char *key)
{
    SSL_CTX *context =
        SSL_CTX_new_ex(NULL, properties, is_server ? TLS_server_method() : TLS_client_method());
    EXPECT(context != NULL);
    EXPECT(SSL_CTX_set_min_proto_version(context, version));
    EXPECT(SSL_CTX_set_max_proto_version(context, version));
    if (version == TLS1_3_VERSION)
        EXPECT(SSL_CTX_set_ciphersuites(context, suite));
    else
        EXPECT(SSL_CTX_set_cipher_list(context, suite));
    if (is_server) {
        EXPECT(SSL_CTX_use_certificate_file(context, certificate, SSL_FILETYPE_PEM) == 1);
        EXPECT(SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) == 1);
    }
    return context;
}

static struct connection connect_ends(SSL_CTX *server, SSL_CTX *client, SSL_SESSION *session)
{
    struct connection connection = { SSL_new(server), SSL_new(client) };
    BIO *there = BIO_new(BIO_s_mem()), *back = BIO_new(BIO_s_mem());
    EXPECT(BIO_up_ref(there) && BIO_up_ref(back));
    SSL_set_bio(connection.client, back, there);
    SSL_set_bio(connection.server, there, back);
    SSL_set_connect_state(connection.client);
    SSL_set_accept_state(connection.server);
    if (session)
        EXPECT(SSL_set_session(connection.client, session));
    for (int step = 0; step < 10; step++) {
        SSL_do_handshake(connection.client);
        SSL_do_handshake(connection.server);
    }
    EXPECT(SSL_is_init_finished(connection.client) && SSL_is_init_finished(connection.server));
    ERR_clear_error();
    return connection;
}

static void disconnect(struct connection connection)
{
    SSL_shutdown(connection.client);
    SSL_shutdown(connection.server);
    SSL_free(connection.client);
    SSL_free(connection.server);
}

/* Sends so many bytes and compares what arrives. */
static void transfer(SSL *from, SSL *to, size_t length)
{
    static unsigned char text[LONGEST], arrived[LONGEST];
    size_t count, done = 0;
    random_bytes(text, length < 20000 ? length : 20000);
    EXPECT(SSL_write_ex(from, text, length, &count) && count == length);
    while (done < length) {
        EXPECT(SSL_read_ex(to, arrived + done, length - done, &count));
        done += count;
    }
    EXPECT(memcmp(text, arrived, length) == 0);
}

static const size_t LENGTHS[] = { 1, 15, 16, 17, 255, 1350, 16383, 16384, 16385, LONGEST };

static size_t transfer_all(struct connection connection)
{
    size_t sum = 0;
    for (size_t index = 0; index < sizeof LENGTHS / sizeof *LENGTHS; index++) {
        transfer(connection.client, connection.server, LENGTHS[index]);
        transfer(connection.server, connection.client, LENGTHS[index]);
        sum += LENGTHS[index];
    }
    return sum;
}

/* Changes a bit on its way. */
static void tamper(struct connection connection)
{
    unsigned char wire[200];
    size_t count;
    EXPECT(SSL_write_ex(connection.client, "hello", 5, &count));
    int length = BIO_read(SSL_get_wbio(connection.client), wire, sizeof wire);
    EXPECT(length > 20);
    wire[length - 1] ^= 4;
    EXPECT(BIO_write(SSL_get_rbio(connection.server), wire, length) == length);
    EXPECT(!SSL_read_ex(connection.server, wire, sizeof wire, &count));
    EXPECT(ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC);
    ERR_clear_error();
}

static void one(int version, const char *suite, int server_is_ours, int client_is_ours,
                const char *certificate, const char *key, const char *counters)
{
    struct count before = counted(counters);
    SSL_CTX *server =
        end(1, version, suite, server_is_ours ? "?" OURS : THEIRS, certificate, key);
    SSL_CTX *client = end(0, version, suite, client_is_ours ? "?" OURS : THEIRS, NULL, NULL);
    struct connection connection = connect_ends(server, client, NULL);
    size_t sum = transfer_all(connection);
    if (version == TLS1_3_VERSION) {
        for (int side = 0; side < 2; side++) {
            SSL *changer = side ? connection.client : connection.server;
            EXPECT(SSL_key_update(changer, SSL_KEY_UPDATE_REQUESTED));
            EXPECT(SSL_do_handshake(changer) == 1);
            sum += transfer_all(connection);
        }
    }
    SSL_SESSION *session = SSL_get1_session(connection.client);
    disconnect(connection);
    connection = connect_ends(server, client, session);
    EXPECT(SSL_session_reused(connection.client) && SSL_session_reused(connection.server));
    sum += transfer_all(connection);
    struct count after = counted(counters);
    tamper(connection);
    SSL_SESSION_free(session);
    disconnect(connection);
    SSL_CTX_free(server);
    SSL_CTX_free(client);

    /* Each end that is ours did what it sent and got, and the others did nothing here. */
    uint64_t ends = (uint64_t)(server_is_ours + client_is_ours);
    uint64_t sealed = after.sealed_bytes - before.sealed_bytes;
    uint64_t opened = after.opened_bytes - before.opened_bytes;
    EXPECT(sealed >= ends * sum && sealed < (ends + 1) * sum);
    EXPECT(opened >= ends * sum && opened < (ends + 1) * sum);
    EXPECT(ends > 0 || sealed + opened == 0);
    EXPECT(after.forged == before.forged);
    EXPECT(counted(counters).forged - before.forged == (uint64_t)server_is_ours);
}

void test_connections(const char *certificate, const char *key, const char *counters)
{
    int count = 0;
    for (int ends = 0; ends < 4; ends++) {
        int server = ends & 1, client = ends >> 1;
        one(TLS1_3_VERSION, "TLS_AES_128_GCM_SHA256", server, client, certificate, key, counters);
        one(TLS1_3_VERSION, "TLS_AES_256_GCM_SHA384", server, client, certificate, key, counters);
        one(TLS1_2_VERSION, "ECDHE-ECDSA-AES128-GCM-SHA256", server, client, certificate, key,
            counters);
        one(TLS1_2_VERSION, "ECDHE-ECDSA-AES256-GCM-SHA384", server, client, certificate, key,
            counters);
        count += 4;
    }
    printf("%d connections\n", count);
}

/* Encrypts so many messages. */
static void messages(EVP_CIPHER_CTX *context, int number)
{
    unsigned char iv[12] = { 1 }, text[100] = { 2 };
    int count;
    for (; number > 0; number--) {
        iv[11] = (unsigned char)number;
        EXPECT(EVP_EncryptInit_ex(context, NULL, NULL, NULL, iv));
        EXPECT(EVP_EncryptUpdate(context, text, &count, text, sizeof text));
        EXPECT(EVP_EncryptFinal_ex(context, text, &count));
    }
}

/* Children as a server has them: each has a context of its parent's, in the middle of a message,
 * and counts by itself. */
void test_fork(const char *counters)
{
    unsigned char key[16] = { 1 }, iv[12] = { 0 }, text[50], tag[2][16];
    int count, pipes[2], status;
    EVP_CIPHER *cipher = fetch(128, OURS);
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    EXPECT(EVP_EncryptInit_ex(context, cipher, NULL, key, NULL));
    messages(context, 7);
    EXPECT(EVP_EncryptInit_ex(context, NULL, NULL, NULL, iv));
    EXPECT(EVP_EncryptUpdate(context, text, &count, iv, sizeof iv));
    EXPECT(pipe(pipes) == 0);
    for (int child = 1; child <= 4; child++) {
        pid_t process = fork();
        EXPECT(process >= 0);
        if (process == 0) {
            EXPECT(EVP_EncryptUpdate(context, text, &count, key, sizeof key));
            EXPECT(EVP_EncryptFinal_ex(context, text, &count));
            EXPECT(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, 16, tag[0]));
            EXPECT(write(pipes[1], tag[0], 16) == 16);
            messages(context, 10 * child);
            struct count own = counted(counters);
            EXPECT(own.sealed_records == (uint64_t)(10 * child + 1));
            EXPECT(own.sealed_bytes == (uint64_t)(1000 * child) + 28);
            _exit(0);
        }
        EXPECT(waitpid(process, &status, 0) == process && status == 0);
        EXPECT(read(pipes[0], tag[0], 16) == 16);
        EXPECT(child == 1 || memcmp(tag[0], tag[1], 16) == 0);
        memcpy(tag[1], tag[0], 16);
    }
    EXPECT(EVP_EncryptUpdate(context, text, &count, key, sizeof key));
    EXPECT(EVP_EncryptFinal_ex(context, text, &count));
    EXPECT(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, 16, tag[0]));
    EXPECT(memcmp(tag[0], tag[1], 16) == 0);
    struct count own = counted(counters);
    EXPECT(own.sealed_records == 8 && own.sealed_bytes == 728);
    EVP_CIPHER_CTX_free(context);
    EVP_CIPHER_free(cipher);
    printf("4 children\n");
}

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
    SSL_CTX *server = end(1, TLS1_3_VERSION, suite, properties, certificate, key);
    SSL_CTX *client = end(0, TLS1_3_VERSION, suite, properties, NULL, NULL);
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
