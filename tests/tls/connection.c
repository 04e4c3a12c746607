/* Connections within the process, whose two ends each have the one provider or the other. */

#include "host.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define LONGEST (3 << 20)

SSL_CTX *make_end(int is_server, int version, const char *suite, const char *properties,
                  const char *certificate, const char *key)
{
    const SSL_METHOD *method = version == DTLS1_2_VERSION || version == DTLS1_VERSION
                                   ? (is_server ? DTLS_server_method() : DTLS_client_method())
                                   : (is_server ? TLS_server_method() : TLS_client_method());
    SSL_CTX *context = SSL_CTX_new_ex(NULL, properties, method);
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

/* Streams go through memory, packets through a pair of sockets. */
static void join(struct connection connection)
{
    BIO *ends[2] = { BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()) };
    if (!SSL_is_dtls(connection.client)) {
        EXPECT(BIO_up_ref(ends[0]) && BIO_up_ref(ends[1]));
        SSL_set_bio(connection.client, ends[0], ends[1]);
        SSL_set_bio(connection.server, ends[1], ends[0]);
        return;
    }
    int sockets[2];
    EXPECT(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, sockets) == 0);
    for (int index = 0; index < 2; index++) {
        SSL *end = index ? connection.client : connection.server;
        BIO_free(ends[index]);
        ends[index] = BIO_new_socket(sockets[index], BIO_CLOSE);
        SSL_set_bio(end, ends[index], ends[index]);
        SSL_set_options(end, SSL_OP_NO_QUERY_MTU);
        EXPECT(SSL_set_mtu(end, 1400));
    }
}

struct connection connect_ends(SSL_CTX *server, SSL_CTX *client, SSL_SESSION *session)
{
    struct connection connection = { SSL_new(server), SSL_new(client) };
    join(connection);
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

void disconnect(struct connection connection)
{
    SSL_shutdown(connection.client);
    SSL_shutdown(connection.server);
    SSL_free(connection.client);
    SSL_free(connection.server);
}

void transfer(SSL *from, SSL *to, size_t length)
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

/* Sends all lengths either way, and nothing; the sum. */
static size_t transfer_all(struct connection connection)
{
    size_t sum = 0, last = sizeof LENGTHS / sizeof *LENGTHS;
    int is_dtls = SSL_is_dtls(connection.client);
    for (size_t index = 0; index < last; index++) {
        /* What is sent by DTLS in one call is one record. */
        if (is_dtls && LENGTHS[index] > 1350)
            continue;
        transfer(connection.client, connection.server, LENGTHS[index]);
        transfer(connection.server, connection.client, LENGTHS[index]);
        sum += LENGTHS[index];
    }
    if (!is_dtls)
        EXPECT(SSL_write(connection.client, "", 0) <= 0 && SSL_write(connection.server, "", 0) <= 0);
    ERR_clear_error();
    return sum;
}

/* Both ends get new keys. */
static void update_keys(struct connection connection)
{
    for (int side = 0; side < 2; side++) {
        SSL *changer = side ? connection.client : connection.server;
        EXPECT(SSL_key_update(changer, SSL_KEY_UPDATE_REQUESTED));
        EXPECT(SSL_do_handshake(changer) == 1);
    }
}

/* The handshake is done again within the connection, as the server wants it. */
static void renegotiate(struct connection connection)
{
    char byte;
    long before = SSL_num_renegotiations(connection.client);
    EXPECT(SSL_renegotiate(connection.server));
    for (int step = 0; step < 10; step++) {
        SSL_do_handshake(connection.server);
        EXPECT(SSL_read(connection.client, &byte, 1) <= 0);
        EXPECT(SSL_read(connection.server, &byte, 1) <= 0);
    }
    EXPECT(!SSL_renegotiate_pending(connection.server));
    EXPECT(SSL_num_renegotiations(connection.client) == before + 1);
    EXPECT(SSL_is_init_finished(connection.client) && SSL_is_init_finished(connection.server));
    ERR_clear_error();
}

/* A suite, what the ends are told besides, whether its records are done by the ciphers that Evener
 * has, and how much longer records are than their text may make all of them. */
struct kind {
    int version;
    const char *suite;
    uint64_t options;
    int is_done_here;
    size_t excess;
};

static void one(const struct kind *kind, int server_is_ours, int client_is_ours,
                const char *certificate, const char *key, const char *counters)
{
    int version = kind->version;
    const char *suite = kind->suite;
    struct count before = counted(counters);
    SSL_CTX *server =
        make_end(1, version, suite, server_is_ours ? "?" OURS : THEIRS, certificate, key);
    SSL_CTX *client = make_end(0, version, suite, client_is_ours ? "?" OURS : THEIRS, NULL, NULL);
    SSL_CTX_set_options(server, kind->options);
    SSL_CTX_set_options(client, kind->options);
    struct connection connection = connect_ends(server, client, NULL);
    size_t sum = transfer_all(connection);
    if (version == TLS1_3_VERSION)
        update_keys(connection);
    else
        renegotiate(connection);
    sum += transfer_all(connection);
    SSL_SESSION *session = SSL_get1_session(connection.client);
    disconnect(connection);
    connection = connect_ends(server, client, session);
    EXPECT(SSL_session_reused(connection.client) && SSL_session_reused(connection.server));
    sum += transfer_all(connection);
    struct count after = counted(counters);
    SSL_SESSION_free(session);
    disconnect(connection);
    SSL_CTX_free(server);
    SSL_CTX_free(client);

    /* Each end that is ours did what it sent and got, and the others did nothing here. */
    uint64_t ends = (uint64_t)(server_is_ours + client_is_ours);
    uint64_t sealed = after.sealed_bytes - before.sealed_bytes;
    uint64_t opened = after.opened_bytes - before.opened_bytes;
    if (!kind->is_done_here)
        sum = 0;
    EXPECT(sealed >= ends * sum && sealed < ends * (sum + kind->excess) + 1);
    EXPECT(opened >= ends * sum && opened < ends * (sum + kind->excess) + 1);
    EXPECT(after.forged == before.forged);
}

/* GCM, and of the rest what libssl has CBC ciphers for: with encrypt-then-MAC, with other MACs than
 * SHA-1 and SHA-256, and by DTLS. For those it has ciphers that do both, where OpenSSL's own
 * provider knows the processor to have AES's instructions. */
static const struct kind KINDS[] = {
    { TLS1_3_VERSION, "TLS_AES_128_GCM_SHA256", 0, 1, 20000 },
    { TLS1_3_VERSION, "TLS_AES_256_GCM_SHA384", 0, 1, 20000 },
    { TLS1_2_VERSION, "ECDHE-ECDSA-AES128-GCM-SHA256", 0, 1, 20000 },
    { TLS1_2_VERSION, "ECDHE-ECDSA-AES256-GCM-SHA384", 0, 1, 20000 },
    { DTLS1_2_VERSION, "ECDHE-ECDSA-AES128-GCM-SHA256", 0, 1, 20000 },
    { DTLS1_2_VERSION, "ECDHE-ECDSA-AES256-GCM-SHA384", 0, 1, 20000 },
};
static const struct kind CBC_KINDS[] = {
    { TLS1_VERSION, "ECDHE-ECDSA-AES128-SHA:@SECLEVEL=0", 0, 1, 100000 },
    { TLS1_1_VERSION, "ECDHE-ECDSA-AES256-SHA:@SECLEVEL=0", 0, 1, 100000 },
    { TLS1_2_VERSION, "ECDHE-ECDSA-AES128-SHA", 0, 1, 100000 },
    { TLS1_2_VERSION, "ECDHE-ECDSA-AES256-SHA384", 0, 1, 100000 },
    { DTLS1_2_VERSION, "ECDHE-ECDSA-AES128-SHA256", 0, 1, 100000 },
    { TLS1_2_VERSION, "ECDHE-ECDSA-AES256-SHA384", SSL_OP_NO_ENCRYPT_THEN_MAC, 1, 100000 },
    { DTLS1_VERSION, "ECDHE-ECDSA-AES128-SHA:@SECLEVEL=0", SSL_OP_NO_ENCRYPT_THEN_MAC, 1, 100000 },
    { DTLS1_2_VERSION, "ECDHE-ECDSA-AES128-SHA256", SSL_OP_NO_ENCRYPT_THEN_MAC, 1, 100000 },
};
static const struct kind STITCHED_KINDS[] = {
    { TLS1_VERSION, "ECDHE-ECDSA-AES128-SHA:@SECLEVEL=0", SSL_OP_NO_ENCRYPT_THEN_MAC, 0, 100000 },
    { TLS1_1_VERSION, "ECDHE-ECDSA-AES128-SHA:@SECLEVEL=0", SSL_OP_NO_ENCRYPT_THEN_MAC, 0, 100000 },
    { TLS1_2_VERSION, "ECDHE-ECDSA-AES256-SHA", SSL_OP_NO_ENCRYPT_THEN_MAC, 0, 100000 },
};

void test_connections(const char *certificate, const char *key, const char *counters)
{
    int count = 0;
    for (int ends = 0; ends < 4; ends++)
        for (size_t kind = 0; kind < sizeof KINDS / sizeof *KINDS; kind++, count++)
            one(&KINDS[kind], ends & 1, ends >> 1, certificate, key, counters);
    printf("%d connections\n", count);
}

void test_cbc_connections(int is_plain, const char *certificate, const char *key,
                          const char *counters)
{
    int count = 0;
    for (int ends = 1; ends < 4; ends++) {
        for (size_t kind = 0; kind < sizeof CBC_KINDS / sizeof *CBC_KINDS; kind++, count++)
            one(&CBC_KINDS[kind], ends & 1, ends >> 1, certificate, key, counters);
        for (size_t kind = 0; kind < sizeof STITCHED_KINDS / sizeof *STITCHED_KINDS; kind++) {
            struct kind stitched = STITCHED_KINDS[kind];
            stitched.is_done_here = is_plain;
            one(&stitched, ends & 1, ends >> 1, certificate, key, counters);
            count++;
        }
    }
    printf("%d connections\n", count);
}

/* So many bytes from the server to the client, in pieces of all lengths; their SHA-256 at both
 * ends. */
static void bulk(size_t all, int version, const char *suite, int server_is_ours, const char *certificate,
                 const char *key, const char *counters)
{
    static unsigned char text[LONGEST], arrived[LONGEST];
    unsigned char sums[2][32];
    struct count before = counted(counters);
    SSL_CTX *server =
        make_end(1, version, suite, server_is_ours ? "?" OURS : THEIRS, certificate, key);
    SSL_CTX *client = make_end(0, version, suite, server_is_ours ? THEIRS : "?" OURS, NULL, NULL);
    struct connection connection = connect_ends(server, client, NULL);
    EVP_MD_CTX *sent = EVP_MD_CTX_new(), *got = EVP_MD_CTX_new();
    EXPECT(EVP_DigestInit_ex(sent, EVP_sha256(), NULL) && EVP_DigestInit_ex(got, EVP_sha256(), NULL));
    random_bytes(text, 1 << 20);
    for (size_t done = 0, count, length; done < all; done += length) {
        unsigned char *start = text + below(1 << 19);
        length = below(4) ? 1 + below(1 << 19) : 1 + below(20000);
        if (length > all - done)
            length = all - done;
        EXPECT(EVP_DigestUpdate(sent, start, length));
        EXPECT(SSL_write_ex(connection.server, start, length, &count) && count == length);
        for (size_t part = 0; part < length; part += count) {
            EXPECT(SSL_read_ex(connection.client, arrived, sizeof arrived, &count));
            EXPECT(EVP_DigestUpdate(got, arrived, count));
        }
    }
    EXPECT(EVP_DigestFinal_ex(sent, sums[0], NULL) && EVP_DigestFinal_ex(got, sums[1], NULL));
    EXPECT(memcmp(sums[0], sums[1], 32) == 0);
    struct count after = counted(counters);
    uint64_t did = server_is_ours ? after.sealed_bytes - before.sealed_bytes
                                  : after.opened_bytes - before.opened_bytes;
    EXPECT(did >= all);
    EVP_MD_CTX_free(sent);
    EVP_MD_CTX_free(got);
    disconnect(connection);
    SSL_CTX_free(server);
    SSL_CTX_free(client);
}

void test_bulk(size_t mebibytes, const char *certificate, const char *key, const char *counters)
{
    size_t all = mebibytes << 20;
    bulk(all, TLS1_3_VERSION, "TLS_AES_256_GCM_SHA384", 1, certificate, key, counters);
    bulk(all, TLS1_2_VERSION, "ECDHE-ECDSA-AES128-GCM-SHA256", 0, certificate, key, counters);
    printf("%zu MiB twice\n", mebibytes);
}
