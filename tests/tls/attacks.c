/* Somebody on the way changes what a client sends, or a client sends what none should: a server
 * with Evener answers as one with OpenSSL's own ciphers does. */

#include "host.h"

#include <openssl/err.h>
#include <openssl/kdf.h>
#include <openssl/core_names.h>
#include <openssl/params.h>
#include <stdio.h>
#include <string.h>

enum { RECORD = 20000, WIRE = 60 * RECORD, HEADER = 5 };

/* What a server made of what it got. */
struct outcome {
    /* The alert that it sent: level and number, or 0. */
    int alert;
    int error, reason, shutdown;
    /* Text that it took, and the bytes' sum. */
    size_t count;
    unsigned long sum;
};

static int alert_sent;

static void note_alert(const SSL *ssl, int where, int value)
{
    (void)ssl;
    if ((where & SSL_CB_WRITE_ALERT) == SSL_CB_WRITE_ALERT && alert_sent == 0)
        alert_sent = value;
}

/* Two records of a client's, as they were sent. */
struct sent {
    unsigned char bytes[2][RECORD];
    size_t length[2];
    int version;
};

/* Sets the length that the header of a record says. */
static size_t set_length(unsigned char *record, size_t length)
{
    record[3] = (unsigned char)((length - HEADER) >> 8);
    record[4] = (unsigned char)(length - HEADER);
    return length;
}

static size_t put(unsigned char *to, const struct sent *sent, int which)
{
    memcpy(to, sent->bytes[which], sent->length[which]);
    return sent->length[which];
}

/* The attacks: each writes what arrives in place of the two records. */
static size_t nothing_changed(unsigned char *to, const struct sent *sent)
{
    size_t first = put(to, sent, 0);
    return first + put(to + first, sent, 1);
}

static size_t last_of_tag(unsigned char *to, const struct sent *sent)
{
    size_t length = put(to, sent, 0);
    to[length - 1] ^= 0x80;
    return length;
}

static size_t first_of_tag(unsigned char *to, const struct sent *sent)
{
    size_t length = put(to, sent, 0);
    to[length - 16] ^= 1;
    return length;
}

/* With CBC, that is the padding. */
static size_t block_before_the_last(unsigned char *to, const struct sent *sent)
{
    size_t length = put(to, sent, 0);
    to[length - 17] ^= 1;
    return length;
}

static size_t first_of_text(unsigned char *to, const struct sent *sent)
{
    size_t length = put(to, sent, 0);
    to[HEADER + (sent->version == TLS1_2_VERSION ? 8 : 0)] ^= 1;
    return length;
}

static size_t behind_header(unsigned char *to, const struct sent *sent)
{
    size_t length = put(to, sent, 0);
    to[HEADER + 7] ^= 1;
    return length;
}

static size_t another_type(unsigned char *to, const struct sent *sent)
{
    size_t length = put(to, sent, 0);
    to[0] = SSL3_RT_HANDSHAKE;
    return length;
}

static size_t unknown_type(unsigned char *to, const struct sent *sent)
{
    size_t length = put(to, sent, 0);
    to[0] = 99;
    return length;
}

static size_t another_version(unsigned char *to, const struct sent *sent)
{
    size_t length = put(to, sent, 0);
    to[2] ^= 2;
    return length;
}

static size_t shorter(unsigned char *to, const struct sent *sent)
{
    return set_length(to, put(to, sent, 0) - 1);
}

static size_t tag_alone(unsigned char *to, const struct sent *sent)
{
    put(to, sent, 0);
    return set_length(to, HEADER + 16);
}

static size_t less_than_tag(unsigned char *to, const struct sent *sent)
{
    put(to, sent, 0);
    return set_length(to, HEADER + 15);
}

static size_t iv_and_less_than_tag(unsigned char *to, const struct sent *sent)
{
    put(to, sent, 0);
    return set_length(to, HEADER + 23);
}

static size_t iv_and_tag_alone(unsigned char *to, const struct sent *sent)
{
    put(to, sent, 0);
    return set_length(to, HEADER + 24);
}

static size_t empty(unsigned char *to, const struct sent *sent)
{
    put(to, sent, 0);
    return set_length(to, HEADER);
}

static size_t longer(unsigned char *to, const struct sent *sent)
{
    size_t length = put(to, sent, 0);
    to[length] = 0;
    return set_length(to, length + 1);
}

static size_t longer_than_allowed(unsigned char *to, const struct sent *sent)
{
    put(to, sent, 0);
    return set_length(to, HEADER + 16384 + (sent->version == TLS1_2_VERSION ? 2048 : 256) + 1);
}

static size_t cut_off(unsigned char *to, const struct sent *sent)
{
    size_t first = put(to, sent, 0);
    return first + put(to + first, sent, 1) - 7;
}

static size_t twice(unsigned char *to, const struct sent *sent)
{
    size_t first = put(to, sent, 0);
    return first + put(to + first, sent, 0);
}

static size_t lost(unsigned char *to, const struct sent *sent)
{
    return put(to, sent, 1);
}

static size_t exchanged(unsigned char *to, const struct sent *sent)
{
    size_t second = put(to, sent, 1);
    return second + put(to + second, sent, 0);
}

static const struct attack {
    const char *name;
    size_t (*change)(unsigned char *to, const struct sent *sent);
    /* Whether no alert is right, and whether the connection ends there. */
    int is_taken, is_last;
} ATTACKS[] = {
    { "nothing changed", nothing_changed, 1, 0 },
    { "last byte of the tag", last_of_tag, 0, 0 },
    { "first byte of the tag", first_of_tag, 0, 0 },
    { "block before the last", block_before_the_last, 0, 0 },
    { "first byte of the text", first_of_text, 0, 0 },
    { "byte behind the header", behind_header, 0, 0 },
    { "another type", another_type, 0, 0 },
    { "unknown type", unknown_type, 0, 0 },
    { "another version", another_version, 0, 0 },
    { "a byte less", shorter, 0, 0 },
    { "as long as a tag", tag_alone, 0, 0 },
    { "shorter than a tag", less_than_tag, 0, 0 },
    { "an IV and less than a tag", iv_and_less_than_tag, 0, 0 },
    { "an IV and a tag", iv_and_tag_alone, 0, 0 },
    { "empty", empty, 0, 0 },
    { "a byte more", longer, 0, 0 },
    { "longer than allowed", longer_than_allowed, 0, 0 },
    { "cut off", cut_off, 0, 1 },
    { "twice", twice, 0, 0 },
    { "lost", lost, 0, 0 },
    { "exchanged", exchanged, 0, 0 },
};
enum { ALL_ATTACKS = sizeof ATTACKS / sizeof *ATTACKS };

/* The client's keys for what it sends. */
struct secrets {
    unsigned char key[32], iv[12], traffic[64];
    size_t key_length, traffic_length;
};

/* A record that a client makes up: its content (with type and padding, in TLS 1.3), how far its
 * sequence number is wrong, how often it comes. */
static const struct forgery {
    const char *name;
    int version;
    size_t text, zeros;
    int type, sequence, times, is_taken;
} FORGERIES[] = {
    { "no text", TLS1_3_VERSION, 0, 0, 23, 0, 1, 1 },
    { "padding", TLS1_3_VERSION, 100, 1000, 23, 0, 1, 1 },
    { "the longest padding", TLS1_3_VERSION, 100, 16284, 23, 0, 1, 1 },
    { "overlong padding", TLS1_3_VERSION, 100, 16700, 23, 0, 1, 0 },
    { "overlong text", TLS1_3_VERSION, 16385, 0, 23, 0, 1, 0 },
    { "the longest text", TLS1_3_VERSION, 16384, 0, 23, 0, 1, 1 },
    { "only padding", TLS1_3_VERSION, 0, 50, 0, 0, 1, 0 },
    { "nothing at all", TLS1_3_VERSION, 0, 0, -1, 0, 1, 0 },
    { "unknown type", TLS1_3_VERSION, 20, 0, 99, 0, 1, 0 },
    { "next number", TLS1_3_VERSION, 20, 0, 23, 1, 1, 0 },
    { "many without text", TLS1_3_VERSION, 0, 0, 23, 0, 40, 0 },
    { "no text", TLS1_2_VERSION, 0, 0, 23, 0, 1, 1 },
    { "the longest text", TLS1_2_VERSION, 16384, 0, 23, 0, 1, 1 },
    { "overlong text", TLS1_2_VERSION, 16385, 0, 23, 0, 1, 0 },
    { "unknown type", TLS1_2_VERSION, 20, 0, 99, 0, 1, 0 },
    { "next number", TLS1_2_VERSION, 20, 0, 23, 1, 1, 0 },
    { "many without text", TLS1_2_VERSION, 0, 0, 23, 0, 40, 0 },
};
enum { ALL_FORGERIES = sizeof FORGERIES / sizeof *FORGERIES };

static struct secrets secrets;

/* Takes the traffic secret of TLS 1.3 from what OpenSSL logs. */
static void note_secret(const SSL *ssl, const char *line)
{
    static const char name[] = "CLIENT_TRAFFIC_SECRET_0 ";
    (void)ssl;
    if (strncmp(line, name, sizeof name - 1) == 0) {
        const char *digits = strrchr(line, ' ') + 1;
        secrets.traffic_length = from_hex(secrets.traffic, digits);
    }
}

static void derive(const char *kdf_name, OSSL_PARAM *params, unsigned char *to, size_t length)
{
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, kdf_name, NULL);
    EVP_KDF_CTX *context = EVP_KDF_CTX_new(kdf);
    EXPECT(context != NULL && EVP_KDF_derive(context, to, length, params) == 1);
    EVP_KDF_CTX_free(context);
    EVP_KDF_free(kdf);
}

/* HKDF-Expand-Label of RFC 8446, with an empty context. */
static void expand(const char *digest, const char *label, unsigned char *to, size_t length)
{
    unsigned char info[64] = { 0, (unsigned char)length, (unsigned char)(6 + strlen(label)) };
    int mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY;
    size_t used = 3 + (size_t)sprintf((char *)info + 3, "tls13 %s", label) + 1;
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode),
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, (char *)digest, 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, secrets.traffic,
                                          secrets.traffic_length),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info, used),
        OSSL_PARAM_construct_end(),
    };
    derive("HKDF", params, to, length);
}

/* The key block of RFC 5246. */
static void key_block(const char *digest, SSL *client, unsigned char *to, size_t length)
{
    unsigned char master[64], seed[13 + 64] = "key expansion";
    size_t master_length = SSL_SESSION_get_master_key(SSL_get_session(client), master, 64);
    SSL_get_server_random(client, seed + 13, 32);
    SSL_get_client_random(client, seed + 45, 32);
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, (char *)digest, 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SECRET, master, master_length),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SEED, seed, sizeof seed),
        OSSL_PARAM_construct_end(),
    };
    derive("TLS1-PRF", params, to, length);
}

static void find_keys(int version, int bits, SSL *client)
{
    const char *digest = bits == 128 ? "SHA256" : "SHA384";
    secrets.key_length = (size_t)bits / 8;
    if (version == TLS1_3_VERSION) {
        expand(digest, "key", secrets.key, secrets.key_length);
        expand(digest, "iv", secrets.iv, 12);
    } else {
        unsigned char block[72];
        key_block(digest, client, block, 2 * secrets.key_length + 8);
        memcpy(secrets.key, block, secrets.key_length);
        memcpy(secrets.iv, block + 2 * secrets.key_length, 4);
    }
}

/* Makes a record up, whose number is this. */
static size_t forge(unsigned char *to, const struct forgery *forgery, uint64_t number)
{
    static unsigned char content[RECORD];
    unsigned char aad[13], iv[12];
    size_t length = 0, iv_length = 0, aad_length = HEADER;
    int count, is_13 = forgery->version == TLS1_3_VERSION;
    memset(content, 'x', forgery->text);
    length = forgery->text;
    if (is_13 && forgery->type >= 0)
        content[length++] = (unsigned char)forgery->type;
    memset(content + length, 0, forgery->zeros);
    length += forgery->zeros;
    memcpy(iv, secrets.iv, 12);
    to[0] = is_13 ? 23 : (unsigned char)forgery->type;
    to[1] = to[2] = 3;
    if (is_13)
        for (int byte = 0; byte < 8; byte++)
            iv[4 + byte] ^= (unsigned char)(number >> (56 - 8 * byte));
    else {
        iv_length = 8;
        memset(iv + 4, 77, 8);
        memcpy(to + HEADER, iv + 4, 8);
    }
    size_t total = set_length(to, HEADER + iv_length + length + 16);
    if (is_13)
        memcpy(aad, to, HEADER);
    else {
        for (int byte = 0; byte < 8; byte++)
            aad[byte] = (unsigned char)(number >> (56 - 8 * byte));
        memcpy(aad + 8, to, 3);
        aad[11] = (unsigned char)(length >> 8);
        aad[12] = (unsigned char)length;
        aad_length = 13;
    }
    EVP_CIPHER *cipher = fetch((int)secrets.key_length * 8, THEIRS);
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    unsigned char *text = to + HEADER + iv_length;
    EXPECT(EVP_EncryptInit_ex(context, cipher, NULL, secrets.key, iv));
    EXPECT(EVP_EncryptUpdate(context, NULL, &count, aad, (int)aad_length));
    EXPECT(EVP_EncryptUpdate(context, text, &count, content, (int)length));
    EXPECT(EVP_EncryptFinal_ex(context, text + length, &count));
    EXPECT(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, 16, text + length));
    EVP_CIPHER_CTX_free(context);
    EVP_CIPHER_free(cipher);
    return total;
}

/* Lets the server read what arrives, until it has no more to say. */
static struct outcome receive(SSL *server, const unsigned char *wire, size_t length, int is_last)
{
    static unsigned char text[RECORD];
    struct outcome outcome = { 0, 0, 0, 0, 0, 0 };
    size_t count;
    EXPECT(BIO_write(SSL_get_rbio(server), wire, (int)length) == (int)length);
    BIO_set_mem_eof_return(SSL_get_rbio(server), is_last ? 0 : -1);
    alert_sent = 0;
    ERR_clear_error();
    while (SSL_read_ex(server, text, sizeof text, &count))
        for (outcome.count += count; count > 0; count--)
            outcome.sum = outcome.sum * 31 + text[count - 1];
    outcome.error = SSL_get_error(server, 0);
    outcome.reason = ERR_GET_REASON(ERR_peek_last_error());
    outcome.shutdown = SSL_get_shutdown(server);
    outcome.alert = alert_sent;
    ERR_clear_error();
    return outcome;
}

/* What the ends agree on. */
static const struct suite {
    const char *name;
    int version, bits;
    uint64_t options;
} SUITES[] = {
    { "ECDHE-ECDSA-AES128-GCM-SHA256", TLS1_2_VERSION, 128, 0 },
    { "ECDHE-ECDSA-AES256-GCM-SHA384", TLS1_2_VERSION, 256, 0 },
    { "TLS_AES_128_GCM_SHA256", TLS1_3_VERSION, 128, 0 },
    { "TLS_AES_256_GCM_SHA384", TLS1_3_VERSION, 256, 0 },
    { "ECDHE-ECDSA-AES256-SHA384", TLS1_2_VERSION, 256, SSL_OP_NO_ENCRYPT_THEN_MAC },
    { "ECDHE-ECDSA-AES256-SHA384", TLS1_2_VERSION, 256, 0 },
    { "ECDHE-ECDSA-AES128-SHA", TLS1_2_VERSION, 128, 0 },
};
enum { ALL_SUITES = sizeof SUITES / sizeof *SUITES };

/* A connection whose server has these ciphers, and one attack. */
static struct outcome meet(const struct suite *suite, const char *properties,
                             const char *certificate, const char *key, const struct attack *attack,
                             const struct forgery *forgery)
{
    static unsigned char wire[WIRE];
    static struct sent sent;
    int version = suite->version, bits = suite->bits;
    SSL_CTX *server = make_end(1, version, suite->name, properties, certificate, key);
    SSL_CTX *client = make_end(0, version, suite->name, THEIRS, NULL, NULL);
    SSL_CTX_set_options(server, suite->options);
    SSL_CTX_set_options(client, suite->options);
    SSL_CTX_set_keylog_callback(client, note_secret);
    struct connection connection = connect_ends(server, client, NULL);
    SSL_set_info_callback(connection.server, note_alert);
    size_t length = 0, count;
    if (attack) {
        sent.version = version;
        for (int which = 0; which < 2; which++) {
            unsigned char text[300];
            memset(text, 'a' + which, sizeof text);
            EXPECT(SSL_write_ex(connection.client, text, sizeof text, &count));
            int read = BIO_read(SSL_get_wbio(connection.client), sent.bytes[which], RECORD);
            EXPECT(read > 300);
            sent.length[which] = (size_t)read;
        }
        length = attack->change(wire, &sent);
    } else {
        find_keys(version, bits, connection.client);
        /* The client's Finished was TLS 1.2's record 0. */
        uint64_t number = version == TLS1_3_VERSION ? 0 : 1;
        for (int time = 0; time < forgery->times; time++)
            length += forge(wire + length, forgery, number++ + (uint64_t)forgery->sequence);
    }
    struct outcome outcome = receive(connection.server, wire, length, attack && attack->is_last);
    SSL_free(connection.client);
    SSL_free(connection.server);
    SSL_CTX_free(server);
    SSL_CTX_free(client);
    return outcome;
}

/* The same with both; whether they do the same, and what is right. */
static void compare(const struct suite *suite, const char *certificate, const char *key,
                    const struct attack *change, const struct forgery *forgery)
{
    const char *name = change ? change->name : forgery->name;
    int is_taken = change ? change->is_taken : forgery->is_taken;
    struct outcome theirs = meet(suite, THEIRS, certificate, key, change, forgery);
    struct outcome ours = meet(suite, "?" OURS, certificate, key, change, forgery);
    if (memcmp(&theirs, &ours, sizeof ours) != 0 || (ours.alert == 0) != is_taken) {
        fprintf(stderr,
                "%s, %s: alert %#x, error %d, reason %d, %zu bytes;\n"
                "    with OpenSSL's own ciphers alert %#x, error %d, reason %d, %zu bytes\n",
                suite->name, name, (unsigned)ours.alert, ours.error, ours.reason, ours.count,
                (unsigned)theirs.alert, theirs.error, theirs.reason, theirs.count);
        EXPECT(!"the same answer");
    }
}

void test_attacks(const char *certificate, const char *key, const char *counters)
{
    int count = 0;
    uint64_t before = counted(counters).forged;
    for (const struct suite *suite = SUITES; suite < SUITES + ALL_SUITES; suite++) {
        for (int index = 0; index < ALL_ATTACKS; index++, count++)
            compare(suite, certificate, key, &ATTACKS[index], NULL);
        for (int index = 0; index < ALL_FORGERIES; index++)
            if (strstr(suite->name, "GCM") && FORGERIES[index].version == suite->version) {
                compare(suite, certificate, key, NULL, &FORGERIES[index]);
                count++;
            }
    }
    EXPECT(counted(counters).forged > before + 40);
    printf("%d attacks\n", count);
}
