/* Records of TLS in CBC: the calls that libssl makes, compared with OpenSSL's own provider, and
 * connections that use them. */

#include "host.h"

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/params.h>
#include <stdio.h>
#include <string.h>

enum { LONGEST = 17000, BLOCK = 16 };

static const unsigned VERSIONS[] = { SSL3_VERSION, TLS1_VERSION,   TLS1_1_VERSION, TLS1_2_VERSION,
                                     DTLS1_VERSION, DTLS1_2_VERSION, DTLS1_BAD_VER, 0x0304 };
static const size_t MACS[] = { 0, 20, 32, 48 };

static EVP_CIPHER_CTX *context_for(EVP_CIPHER *cipher, int encrypt, const unsigned char *key,
                                   const unsigned char *iv, unsigned version, size_t mac_length)
{
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    /* As libssl passes it. */
    int number = (int)version;
    OSSL_PARAM params[] = { OSSL_PARAM_construct_int(OSSL_CIPHER_PARAM_TLS_VERSION, &number),
                            OSSL_PARAM_construct_size_t(OSSL_CIPHER_PARAM_TLS_MAC_SIZE, &mac_length),
                            OSSL_PARAM_construct_end() };
    EXPECT(EVP_CipherInit_ex(context, cipher, NULL, key, iv, encrypt));
    EXPECT(EVP_CIPHER_CTX_set_params(context, params));
    return context;
}

/* The MAC of the last record, as libssl asks for it. */
static const unsigned char *mac_of(EVP_CIPHER_CTX *context, size_t length)
{
    unsigned char *mac = (unsigned char *)"none";
    OSSL_PARAM params[] = { OSSL_PARAM_construct_octet_ptr(OSSL_CIPHER_PARAM_TLS_MAC, (void **)&mac,
                                                           length),
                            OSSL_PARAM_construct_end() };
    EXPECT(EVP_CIPHER_CTX_get_params(context, params) && params[0].return_size == length);
    return mac;
}

static int has_iv(unsigned version)
{
    return version != SSL3_VERSION && version != TLS1_VERSION;
}

/* Writes text, MAC and padding of a whole number of blocks; the padding is right, or wrong. */
static size_t make_record(unsigned char *to, unsigned version, size_t mac_length, int *is_good,
                          size_t *text_length)
{
    static const size_t longest[] = { 40, 300, 1500, 16400 };
    size_t head = has_iv(version) ? BLOCK : 0, text = below(longest[below(4)]);
    size_t most = version == SSL3_VERSION ? 16 : 256, padding = 1 + below(below(2) ? 16 : most);
    size_t total = head + text + mac_length + padding;
    padding += (BLOCK - total % BLOCK) % BLOCK;
    if (padding > most)
        padding -= 16;
    total = head + text + mac_length + padding;
    random_bytes(to, total);
    for (size_t place = 1; place <= padding; place++)
        if (version != SSL3_VERSION || place == 1)
            to[total - place] = (unsigned char)(padding - 1);
    *is_good = 1;
    *text_length = text;
    if (below(3) == 0) {
        if (below(3) == 0)
            to[total - 1] = (unsigned char)below(256);
        else
            to[total - 1 - below(padding)] ^= (unsigned char)(1 << below(8));
        *is_good = -1;
    }
    return total;
}

/* Whether the padding of a record is right, and how long its text is then. */
static int judge(const unsigned char *record, size_t length, unsigned version, size_t mac_length,
                 size_t *text_length)
{
    size_t padding = (size_t)record[length - 1] + 1;
    if (padding + mac_length > length || (version == SSL3_VERSION && padding > BLOCK))
        return 0;
    for (size_t place = 1; place <= padding && version != SSL3_VERSION; place++)
        if (record[length - place] != padding - 1)
            return 0;
    *text_length = length - padding - mac_length;
    return 1;
}

/* Records that both decrypt, in one context each: their length, their text, their MAC. */
static void decrypt_records(EVP_CIPHER *ours, EVP_CIPHER *theirs, unsigned version,
                            size_t mac_length)
{
    static unsigned char plain[LONGEST], sealed[LONGEST], opened[2][LONGEST];
    unsigned char key[32], iv[16];
    int count, counts[2];
    random_bytes(key, sizeof key);
    random_bytes(iv, sizeof iv);
    EVP_CIPHER_CTX *seal = EVP_CIPHER_CTX_new(), *open[2];
    EXPECT(EVP_EncryptInit_ex(seal, theirs, NULL, key, iv) && EVP_CIPHER_CTX_set_padding(seal, 0));
    for (int side = 0; side < 2; side++)
        open[side] = context_for(side ? theirs : ours, 0, key, iv, version, mac_length);
    for (int number = 0; number < 12; number++) {
        int is_good;
        size_t text_length, head = has_iv(version) ? BLOCK : 0;
        size_t length = make_record(plain, version, mac_length, &is_good, &text_length);
        EXPECT(EVP_EncryptUpdate(seal, sealed, &count, plain, (int)length));
        EXPECT(count == (int)length);
        int status[2], is_right = judge(plain + head, length - head, version, mac_length,
                                        &text_length);
        unsigned long error[2];
        for (int side = 0; side < 2; side++) {
            memcpy(opened[side], sealed, length);
            counts[side] = -1;
            ERR_clear_error();
            status[side] = EVP_DecryptUpdate(open[side], opened[side], &counts[side], opened[side],
                                             (int)length);
            error[side] = ERR_peek_last_error();
        }
        EXPECT(status[0] == status[1] && counts[0] == counts[1] && error[0] == error[1]);
        EXPECT(is_good < 0 || version == 0x0304 || is_right);
        if (!status[0])
            continue;
        EXPECT(memcmp(opened[0], opened[1], length) == 0);
        EXPECT(memcmp(opened[0] + head, plain + head, length - head) == 0);
        if (is_right)
            EXPECT(counts[0] == (int)text_length);
        for (int side = 0; side < 2; side++) {
            const unsigned char *mac = mac_of(open[side], mac_length);
            if (mac_length == 0)
                EXPECT(mac == NULL);
            else
                EXPECT((memcmp(mac, plain + head + counts[side], mac_length) == 0) == is_right);
        }
        if (below(3) == 0) {
            /* A copy goes on by itself. OpenSSL's own shares the last MAC, and frees it twice. */
            EVP_CIPHER_CTX *copy = EVP_CIPHER_CTX_new();
            EXPECT(EVP_CIPHER_CTX_copy(copy, open[0]));
            EVP_CIPHER_CTX_free(open[0]);
            open[0] = copy;
            const unsigned char *mac = mac_of(copy, mac_length);
            EXPECT(mac_length == 0 || !is_right
                   || memcmp(mac, plain + head + counts[0], mac_length) == 0);
        }
    }
    EVP_CIPHER_CTX_free(seal);
    EVP_CIPHER_CTX_free(open[0]);
    EVP_CIPHER_CTX_free(open[1]);
}

/* Records that both encrypt. */
static void encrypt_records(EVP_CIPHER *ours, EVP_CIPHER *theirs, unsigned version)
{
    static unsigned char plain[LONGEST], sealed[2][LONGEST + BLOCK];
    unsigned char key[32], iv[16];
    int counts[2], status[2];
    random_bytes(key, sizeof key);
    random_bytes(iv, sizeof iv);
    EVP_CIPHER_CTX *seal[2];
    for (int side = 0; side < 2; side++)
        seal[side] = context_for(side ? theirs : ours, 1, key, iv, version, 20);
    for (int number = 0; number < 6; number++) {
        size_t length = below(2) ? below(100) : below(LONGEST);
        random_bytes(plain, length);
        for (int side = 0; side < 2; side++) {
            memcpy(sealed[side], plain, length);
            status[side] = EVP_EncryptUpdate(seal[side], sealed[side], &counts[side], sealed[side],
                                             (int)length);
        }
        EXPECT(status[0] == 1 && status[1] == 1);
        EXPECT(counts[0] == counts[1] && counts[0] == (int)(length + BLOCK - length % BLOCK));
        EXPECT(memcmp(sealed[0], sealed[1], (size_t)counts[0]) == 0);
    }
    EVP_CIPHER_CTX_free(seal[0]);
    EVP_CIPHER_CTX_free(seal[1]);
}

/* What is wrong, behind what OpenSSL says besides. */
static unsigned long last_error(void)
{
    unsigned long error = ERR_peek_last_error();
    ERR_clear_error();
    return error;
}

/* What is no record. */
static void refused(EVP_CIPHER *ours, EVP_CIPHER *theirs)
{
    unsigned char bytes[2][160], key[32] = { 1 }, iv[16] = { 2 };
    int count;
    unsigned long errors[2][7];
    memset(bytes, 9, sizeof bytes);
    for (int side = 0; side < 2; side++) {
        EVP_CIPHER *cipher = side ? theirs : ours;
        EVP_CIPHER_CTX *context = context_for(cipher, 0, key, iv, TLS1_2_VERSION, 20);
        int calls = 0;
        ERR_clear_error();
        /* Elsewhere than in its place, a part of a block, too short for a MAC. */
        EXPECT(!EVP_DecryptUpdate(context, bytes[0], &count, bytes[1], 64));
        errors[side][calls++] = last_error();
        EXPECT(!EVP_DecryptUpdate(context, bytes[0], &count, bytes[0], 63));
        errors[side][calls++] = last_error();
        EXPECT(!EVP_DecryptUpdate(context, bytes[0], &count, bytes[0], 32));
        errors[side][calls++] = last_error();
        EXPECT(!EVP_DecryptFinal_ex(context, bytes[0], &count));
        errors[side][calls++] = last_error();
        EXPECT(EVP_CIPHER_CTX_set_padding(context, 0));
        EXPECT(!EVP_DecryptUpdate(context, bytes[0], &count, bytes[0], 64));
        errors[side][calls++] = last_error();
        EVP_CIPHER_CTX_free(context);
        context = context_for(cipher, 1, key, iv, TLS1_2_VERSION, 20);
        EXPECT(!EVP_EncryptUpdate(context, bytes[0], &count, bytes[1], 64));
        errors[side][calls++] = last_error();
        /* The MAC is to be had as a pointer only. */
        OSSL_PARAM params[] = { OSSL_PARAM_construct_octet_string(OSSL_CIPHER_PARAM_TLS_MAC,
                                                                  bytes[0], 20),
                                OSSL_PARAM_construct_end() };
        EXPECT(!EVP_CIPHER_CTX_get_params(context, params));
        errors[side][calls++] = last_error();
        EVP_CIPHER_CTX_free(context);
    }
    EXPECT(memcmp(errors[0], errors[1], sizeof errors[0]) == 0);
    /* OpenSSL's own reads behind the end of an empty record. */
    EVP_CIPHER_CTX *context = context_for(ours, 0, key, iv, TLS1_2_VERSION, 0);
    EXPECT(!EVP_DecryptUpdate(context, bytes[0], &count, bytes[0], 0));
    EVP_CIPHER_CTX_free(context);
    ERR_clear_error();
}

void test_cbc_records(int rounds)
{
    for (int bits = 128; bits <= 256; bits += 64) {
        EVP_CIPHER *ours = fetch_mode("CBC", bits, OURS), *theirs = fetch_mode("CBC", bits, THEIRS);
        refused(ours, theirs);
        for (int round = 0; round < rounds; round++)
            for (size_t version = 0; version < sizeof VERSIONS / sizeof *VERSIONS; version++) {
                for (size_t mac = 0; mac < sizeof MACS / sizeof *MACS; mac++)
                    decrypt_records(ours, theirs, VERSIONS[version], MACS[mac]);
                encrypt_records(ours, theirs, VERSIONS[version]);
            }
        EVP_CIPHER_free(ours);
        EVP_CIPHER_free(theirs);
    }
    printf("%d rounds\n", rounds);
}
