/* The files of vectors that OpenSSL's own tests read (test/recipes/30-test_evp_data): groups of
 * lines "name = value". Those for AES in GCM, ECB, CBC and CTR, and for GMAC, are done here with
 * Evener. */

#include "host.h"

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/params.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define LONGEST 10000

enum field { KEY, IV, AAD, TAG, PLAINTEXT, CIPHERTEXT, INPUT, OUTPUT, NEXT_IV, FIELDS };

static const char *const NAMES[FIELDS] = { "Key",       "IV",         "AAD",   "Tag",
                                           "Plaintext", "Ciphertext", "Input", "Output",
                                           "NextIV" };

struct group {
    char cipher[40], mac[40], algorithm[40], operation[40], result[40];
    unsigned char bytes[FIELDS][LONGEST];
    size_t length[FIELDS];
};

/* How a message is passed: so many bytes a call, in place or so many bytes apart. */
struct way {
    size_t piece;
    int is_in_place, offset, is_copied;
};

static const struct way WAYS[] = { { LONGEST, 0, 0, 0 }, { LONGEST, 1, 0, 0 }, { 1, 0, 1, 0 },
                                   { 1, 1, 0, 1 },       { 7, 0, 3, 1 } };
enum { ALL_WAYS = sizeof WAYS / sizeof *WAYS };

/* Does the message one way; the status of its last call. */
static int one_way(const struct group *group, EVP_CIPHER *cipher, int encrypt, struct way way)
{
    static unsigned char room[2 * LONGEST];
    const unsigned char *text = group->bytes[encrypt ? PLAINTEXT : CIPHERTEXT];
    const unsigned char *expected = group->bytes[encrypt ? CIPHERTEXT : PLAINTEXT];
    size_t length = group->length[PLAINTEXT];
    unsigned char *out = room + way.offset, tag[16];
    int count, is_done;
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    EXPECT(EVP_CipherInit_ex(context, cipher, NULL, NULL, NULL, encrypt));
    EXPECT(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_IVLEN, (int)group->length[IV], NULL));
    if (!encrypt)
        EXPECT(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, (int)group->length[TAG],
                                   (void *)group->bytes[TAG]));
    EXPECT(EVP_CipherInit_ex(context, NULL, NULL, group->bytes[KEY], group->bytes[IV], -1));
    if (way.is_copied) {
        EVP_CIPHER_CTX *copy = EVP_CIPHER_CTX_new();
        EXPECT(EVP_CIPHER_CTX_copy(copy, context));
        EVP_CIPHER_CTX_free(context);
        context = copy;
    }
    for (size_t done = 0, part; done < group->length[AAD]; done += part) {
        part = group->length[AAD] - done < way.piece ? group->length[AAD] - done : way.piece;
        EXPECT(EVP_CipherUpdate(context, NULL, &count, group->bytes[AAD] + done, (int)part));
    }
    if (way.is_in_place)
        memcpy(out, text, length);
    for (size_t done = 0, part; done < length; done += part) {
        part = length - done < way.piece ? length - done : way.piece;
        EXPECT(EVP_CipherUpdate(context, out + done, &count,
                                way.is_in_place ? out + done : text + done, (int)part));
        EXPECT(count == (int)part);
    }
    is_done = EVP_CipherFinal_ex(context, out + length, &count) > 0;
    EXPECT(memcmp(out, expected, length) == 0);
    if (encrypt && is_done) {
        EXPECT(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, (int)group->length[TAG], tag));
        EXPECT(memcmp(tag, group->bytes[TAG], group->length[TAG]) == 0);
    }
    EVP_CIPHER_CTX_free(context);
    ERR_clear_error();
    return is_done;
}

/* Does the message one way in a mode without a tag, and without padding as the files have it. */
static int confidential_way(const struct group *group, EVP_CIPHER *cipher, int encrypt,
                            struct way way)
{
    static unsigned char room[2 * LONGEST];
    const unsigned char *text = group->bytes[encrypt ? PLAINTEXT : CIPHERTEXT];
    const unsigned char *expected = group->bytes[encrypt ? CIPHERTEXT : PLAINTEXT];
    size_t length = group->length[PLAINTEXT], written = 0;
    unsigned char *out = room + way.offset, next[16];
    int count;
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    EXPECT(EVP_CipherInit_ex(context, cipher, NULL, group->bytes[KEY], group->bytes[IV], encrypt));
    EXPECT(EVP_CIPHER_CTX_set_padding(context, 0));
    if (way.is_copied) {
        EVP_CIPHER_CTX *copy = EVP_CIPHER_CTX_new();
        EXPECT(EVP_CIPHER_CTX_copy(copy, context));
        EVP_CIPHER_CTX_free(context);
        context = copy;
    }
    if (way.is_in_place)
        memcpy(out, text, length);
    for (size_t done = 0, part; done < length; done += part, written += (size_t)count) {
        part = length - done < way.piece ? length - done : way.piece;
        EXPECT(EVP_CipherUpdate(context, out + written, &count,
                                way.is_in_place ? out + done : text + done, (int)part));
    }
    EXPECT(EVP_CipherFinal_ex(context, out + written, &count) && count == 0 && written == length);
    EXPECT(memcmp(out, expected, length) == 0);
    if (group->length[NEXT_IV] == 16) {
        EXPECT(EVP_CIPHER_CTX_get_updated_iv(context, next, sizeof next));
        EXPECT(memcmp(next, group->bytes[NEXT_IV], sizeof next) == 0);
    }
    EVP_CIPHER_CTX_free(context);
    return 1;
}

/* Encrypts and decrypts all ways; the number of messages. */
static int try_confidential(const struct group *group)
{
    EXPECT(group->result[0] == 0 && group->length[PLAINTEXT] == group->length[CIPHERTEXT]);
    EVP_CIPHER *cipher = EVP_CIPHER_fetch(NULL, group->cipher, OURS);
    EXPECT(cipher != NULL);
    int count = 0;
    for (int way = 0; way < ALL_WAYS; way++) {
        count += confidential_way(group, cipher, 1, WAYS[way]);
        count += confidential_way(group, cipher, 0, WAYS[way]);
    }
    EVP_CIPHER_free(cipher);
    return count;
}

/* Encrypts and decrypts all ways; the number of messages. */
static int try_cipher(const struct group *group)
{
    int count = 0, only_open = strcasecmp(group->operation, "DECRYPT") == 0;
    int only_seal = strcasecmp(group->operation, "ENCRYPT") == 0;
    int is_forged = strcmp(group->result, "CIPHERFINAL_ERROR") == 0;
    EXPECT(is_forged || group->result[0] == 0);
    EXPECT(group->length[PLAINTEXT] == group->length[CIPHERTEXT]);
    EVP_CIPHER *cipher = EVP_CIPHER_fetch(NULL, group->cipher, OURS);
    EXPECT(cipher != NULL);
    for (int way = 0; way < ALL_WAYS; way++) {
        if (!only_open)
            EXPECT(one_way(group, cipher, 1, WAYS[way]));
        if (!only_seal)
            EXPECT(one_way(group, cipher, 0, WAYS[way]) == !is_forged);
        count += !only_open + !only_seal;
    }
    EVP_CIPHER_free(cipher);
    return count;
}

static int try_mac(const struct group *group)
{
    unsigned char sum[16];
    size_t length;
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_CIPHER, (char *)group->algorithm, 0),
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_PROPERTIES, (char *)OURS, 0),
        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, (void *)group->bytes[KEY],
                                          group->length[KEY]),
        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_IV, (void *)group->bytes[IV],
                                          group->length[IV]),
        OSSL_PARAM_construct_end(),
    };
    EVP_MAC *mac = EVP_MAC_fetch(NULL, "GMAC", NULL);
    EVP_MAC_CTX *context = EVP_MAC_CTX_new(mac);
    EXPECT(context != NULL && EVP_MAC_CTX_set_params(context, params));
    EXPECT(EVP_MAC_init(context, NULL, 0, NULL));
    EXPECT(EVP_MAC_update(context, group->bytes[INPUT], group->length[INPUT]));
    EXPECT(EVP_MAC_final(context, sum, &length, sizeof sum));
    EXPECT(length == group->length[OUTPUT] && memcmp(sum, group->bytes[OUTPUT], length) == 0);
    EVP_MAC_CTX_free(context);
    EVP_MAC_free(mac);
    return 1;
}

/* Whether it is the name of AES in this mode. */
static int is_aes(const char *name, const char *mode)
{
    return strncasecmp(name, "aes-", 4) == 0 && strlen(name) == 11 && strcasecmp(name + 8, mode) == 0;
}

/* Takes a line into the group. */
static void take(struct group *group, const char *line)
{
    static char name[40], value[2 * LONGEST + 4];
    value[0] = 0;
    if (line[0] == '#' || sscanf(line, "%39[A-Za-z] = %20000s", name, value) < 1)
        return;
    for (int field = 0; field < FIELDS; field++)
        if (strcmp(name, NAMES[field]) == 0)
            group->length[field] = from_hex(group->bytes[field], value);
    char *texts[] = { group->cipher, group->mac, group->algorithm, group->operation,
                      group->result };
    const char *of[] = { "Cipher", "MAC", "Algorithm", "Operation", "Result" };
    for (int index = 0; index < 5; index++)
        if (strcmp(name, of[index]) == 0 && strlen(value) < sizeof group->cipher)
            strcpy(texts[index], value);
}

void test_published(const char *file, const char *counters)
{
    static char line[3 * LONGEST];
    static struct group group;
    int groups = 0, messages = 0, is_there;
    uint64_t before = counted(counters).sealed_records + counted(counters).opened_records
                      + counted(counters).forged;
    FILE *lines = fopen(file, "r");
    EXPECT(lines != NULL);
    do {
        is_there = fgets(line, sizeof line, lines) != NULL;
        if (is_there && line[strspn(line, " \r\n")] != 0) {
            take(&group, line);
            continue;
        }
        int done = 0;
        if (is_aes(group.cipher, "gcm"))
            done = try_cipher(&group);
        else if (is_aes(group.cipher, "ecb") || is_aes(group.cipher, "cbc")
                 || is_aes(group.cipher, "ctr"))
            done = try_confidential(&group);
        else if (strcmp(group.mac, "GMAC") == 0 && is_aes(group.algorithm, "gcm"))
            done = try_mac(&group);
        groups += done > 0;
        messages += done;
        memset(&group, 0, sizeof group);
    } while (is_there);
    fclose(lines);
    struct count after = counted(counters);
    EXPECT(groups > 0);
    EXPECT(after.sealed_records + after.opened_records + after.forged - before
           == (uint64_t)messages);
    printf("%d vectors, %d messages\n", groups, messages);
}
