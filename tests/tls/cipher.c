/* The ciphers by themselves: published vectors, and each kind of call compared with OpenSSL's own
 * provider in the same process. */

#include "host.h"

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/proverr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST 40000

/* Does a message in one piece; the status of the last call. */
static int whole(EVP_CIPHER *cipher, int encrypt, const unsigned char *key,
                 const unsigned char *iv, size_t iv_length, const unsigned char *aad,
                 size_t aad_length, unsigned char *text, size_t length, unsigned char *tag)
{
    int count = 0, done;
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    EXPECT(EVP_CipherInit_ex(context, cipher, NULL, NULL, NULL, encrypt));
    EXPECT(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_IVLEN, (int)iv_length, NULL));
    EXPECT(EVP_CipherInit_ex(context, NULL, NULL, key, iv, -1));
    if (!encrypt)
        EXPECT(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, 16, tag));
    if (aad_length > 0)
        EXPECT(EVP_CipherUpdate(context, NULL, &count, aad, (int)aad_length));
    if (length > 0) {
        EXPECT(EVP_CipherUpdate(context, text, &count, text, (int)length));
        EXPECT(count == (int)length);
    }
    done = EVP_CipherFinal_ex(context, text + length, &count) > 0 && count == 0;
    if (encrypt && done)
        EXPECT(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, 16, tag));
    EVP_CIPHER_CTX_free(context);
    return done;
}

/* A line: cipher, key, IV, additional data, text (or an exclamation mark, where decryption must
 * fail), ciphertext with its tag. */
void test_vectors(const char *file)
{
    static char line[LONGEST], name[20], field[5][LONGEST];
    static unsigned char bytes[5][LONGEST], text[LONGEST], tag[16];
    size_t length[5];
    int count = 0;
    FILE *lines = fopen(file, "r");
    EXPECT(lines != NULL);
    while (fgets(line, sizeof line, lines)) {
        if (sscanf(line, "%19s %s %s %s %s %s", name, field[0], field[1], field[2], field[3],
                   field[4]) != 6)
            continue;
        for (int index = 0; index < 5; index++)
            length[index] = from_hex(bytes[index], field[index]);
        EVP_CIPHER *cipher = fetch((int)length[0] * 8, OURS);
        size_t text_length = length[4] - 16;
        int is_forged = field[3][0] == '!';
        if (!is_forged) {
            memcpy(text, bytes[3], text_length);
            EXPECT(whole(cipher, 1, bytes[0], bytes[1], length[1], bytes[2], length[2], text,
                         text_length, tag));
            EXPECT(memcmp(text, bytes[4], text_length) == 0);
            EXPECT(memcmp(tag, bytes[4] + text_length, 16) == 0);
        }
        memcpy(text, bytes[4], text_length);
        memcpy(tag, bytes[4] + text_length, 16);
        EXPECT(whole(cipher, 0, bytes[0], bytes[1], length[1], bytes[2], length[2], text,
                     text_length, tag)
               == !is_forged);
        EXPECT(is_forged || memcmp(text, bytes[3], text_length) == 0);
        EVP_CIPHER_free(cipher);
        count++;
    }
    fclose(lines);
    EXPECT(count > 1000);
    printf("%d vectors\n", count);
}

/* What EVP says of a cipher and of a context. */
static void test_descriptions(int bits)
{
    EVP_CIPHER *ours = fetch(bits, OURS), *theirs = fetch(bits, THEIRS);
    EXPECT(EVP_CIPHER_get_nid(ours) == EVP_CIPHER_get_nid(theirs));
    EXPECT(EVP_CIPHER_get_flags(ours) == EVP_CIPHER_get_flags(theirs));
    EXPECT(EVP_CIPHER_get_mode(ours) == EVP_CIPH_GCM_MODE);
    EXPECT(EVP_CIPHER_get_block_size(ours) == EVP_CIPHER_get_block_size(theirs));
    EXPECT(EVP_CIPHER_get_iv_length(ours) == 12 && EVP_CIPHER_get_key_length(ours) == bits / 8);
    for (const OSSL_PARAM *param = EVP_CIPHER_gettable_ctx_params(theirs); param->key; param++)
        EXPECT(OSSL_PARAM_locate_const(EVP_CIPHER_gettable_ctx_params(ours), param->key));
    for (const OSSL_PARAM *param = EVP_CIPHER_settable_ctx_params(theirs); param->key; param++)
        EXPECT(OSSL_PARAM_locate_const(EVP_CIPHER_settable_ctx_params(ours), param->key));
    for (const OSSL_PARAM *param = EVP_CIPHER_gettable_params(theirs); param->key; param++)
        EXPECT(OSSL_PARAM_locate_const(EVP_CIPHER_gettable_params(ours), param->key));
    EVP_CIPHER_free(ours);
    EVP_CIPHER_free(theirs);
}

/* What must be refused, and what becomes of it. */
void test_calls(void)
{
    unsigned char key[32] = { 1 }, iv[16] = { 2 }, text[100] = { 3 }, tag[16], other[16], zeros[100];
    int count;
    memset(zeros, 0, sizeof zeros);
    for (int bits = 128; bits <= 256; bits += 64)
        test_descriptions(bits);
    EVP_CIPHER *cipher = fetch(128, OURS);
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new(), *copy = EVP_CIPHER_CTX_new();

    /* Without a key, and without an IV to decrypt with. */
    EXPECT(EVP_EncryptInit_ex(context, cipher, NULL, NULL, iv));
    EXPECT(!EVP_EncryptUpdate(context, text, &count, text, 10));
    EXPECT(!EVP_EncryptFinal_ex(context, text, &count));
    EVP_CIPHER_CTX_reset(context);
    EXPECT(EVP_DecryptInit_ex(context, cipher, NULL, key, NULL));
    EXPECT(!EVP_DecryptUpdate(context, text, &count, text, 10));
    EVP_CIPHER_CTX_reset(context);

    /* An IV serves one message. */
    EXPECT(EVP_EncryptInit_ex(context, cipher, NULL, key, iv));
    EXPECT(!EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, 16, tag));
    EXPECT(!EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, 16, tag));
    EXPECT(EVP_EncryptUpdate(context, NULL, &count, text, 5) && count == 5);
    EXPECT(EVP_EncryptUpdate(context, text, &count, text, 37) && count == 37);
    EXPECT(!EVP_EncryptUpdate(context, NULL, &count, text, 5));
    /* Only a part of the text would be replaced. */
    EXPECT(!EVP_EncryptUpdate(context, text + 40, &count, text + 41, 10));
    /* A copy goes on by itself. */
    EXPECT(EVP_CIPHER_CTX_copy(copy, context));
    EXPECT(EVP_EncryptUpdate(copy, text + 40, &count, text + 40, 10));
    EXPECT(EVP_EncryptFinal_ex(copy, text, &count));
    EXPECT(EVP_EncryptFinal_ex(context, text, &count) && count == 0);
    EXPECT(!EVP_EncryptFinal_ex(context, text, &count));
    EXPECT(!EVP_EncryptUpdate(context, text, &count, text, 10));
    EXPECT(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, 16, tag));
    EXPECT(EVP_CIPHER_CTX_ctrl(copy, EVP_CTRL_AEAD_GET_TAG, 16, other));
    EXPECT(memcmp(tag, other, 16) != 0);
    EXPECT(EVP_EncryptInit_ex(context, NULL, NULL, NULL, iv));
    EXPECT(EVP_EncryptUpdate(context, text, &count, text, 10));

    /* Decryption ends with a tag, and once. */
    EVP_CIPHER_CTX_reset(context);
    EXPECT(EVP_DecryptInit_ex(context, cipher, NULL, key, iv));
    EXPECT(EVP_DecryptUpdate(context, NULL, &count, (unsigned char *)"\3\0\0\0\0", 5));
    EXPECT(EVP_DecryptUpdate(context, text, &count, text, 37));
    EXPECT(!EVP_DecryptFinal_ex(context, text, &count));
    EXPECT(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, 16, other));
    EXPECT(!EVP_DecryptFinal_ex(context, text, &count));
    EXPECT(!EVP_DecryptUpdate(context, text, &count, text, 10));

    /* Lengths that are none. */
    EVP_CIPHER_CTX_reset(context);
    EXPECT(EVP_DecryptInit_ex(context, cipher, NULL, key, NULL));
    EXPECT(!EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_IVLEN, 129, NULL));
    EXPECT(!EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_IVLEN, 0, NULL));
    EXPECT(!EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, 17, tag));
    EXPECT(!EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_TLS1_AAD, 12, text));
    ERR_clear_error();

    /* A forged record of TLS 1.2 is wiped, and the queue of errors has what OpenSSL's own cipher puts
     * there. */
    unsigned char record[8 + 60 + 16], aad[13] = { 0, 0, 0, 0, 0, 0, 0, 1, 23, 3, 3, 0, 68 };
    memset(record, 5, sizeof record);
    EVP_CIPHER_CTX_reset(context);
    EXPECT(EVP_EncryptInit_ex(context, cipher, NULL, key, NULL));
    EXPECT(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_SET_IV_FIXED, 4, iv));
    EXPECT(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_TLS1_AAD, 13, aad) == 16);
    EXPECT(EVP_EncryptUpdate(context, record, &count, record, (int)sizeof record));
    EXPECT(count == (int)sizeof record);
    for (int forged = 0; forged < 2; forged++) {
        aad[12] = 84;
        record[70] ^= (unsigned char)forged;
        EVP_CIPHER_CTX_reset(context);
        EXPECT(EVP_DecryptInit_ex(context, cipher, NULL, key, NULL));
        EXPECT(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_SET_IV_FIXED, 4, iv));
        EXPECT(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_TLS1_AAD, 13, aad) == 16);
        unsigned char opened[sizeof record];
        memcpy(opened, record, sizeof record);
        int is_done = EVP_DecryptUpdate(context, opened, &count, opened, (int)sizeof opened);
        unsigned long error = ERR_get_error();
        EXPECT(is_done == !forged);
        EXPECT(forged ? ERR_GET_LIB(error) == ERR_LIB_PROV &&
                            ERR_GET_REASON(error) == PROV_R_CIPHER_OPERATION_FAILED
                      : error == 0);
        EXPECT(memcmp(opened + 8, forged ? zeros : (memset(text, 5, 100), text), 60) == 0);
        EXPECT(forged || count == 60);
    }
    EVP_CIPHER_CTX_free(context);
    EVP_CIPHER_CTX_free(copy);
    EVP_CIPHER_free(cipher);
    test_ivs();
    printf("calls\n");
}

/* A pair of contexts that are called alike. */
struct pair {
    EVP_CIPHER_CTX *ours, *theirs;
    unsigned char *to_ours, *to_theirs;
};

static void both_init(struct pair *pair, const unsigned char *key, const unsigned char *iv)
{
    EXPECT(EVP_CipherInit_ex(pair->ours, NULL, NULL, key, iv, -1) == 1);
    EXPECT(EVP_CipherInit_ex(pair->theirs, NULL, NULL, key, iv, -1) == 1);
}

static int both_control(struct pair *pair, int command, int number, unsigned char *ours,
                        unsigned char *theirs)
{
    int of_ours = EVP_CIPHER_CTX_ctrl(pair->ours, command, number, ours);
    int of_theirs = EVP_CIPHER_CTX_ctrl(pair->theirs, command, number, theirs);
    EXPECT(of_ours == of_theirs);
    return of_ours;
}

/* Feeds so many bytes in pieces of any length. */
static void both_update(struct pair *pair, const unsigned char *from, size_t length, int is_aad)
{
    int of_ours, of_theirs, is_in_place = !is_aad && below(2) == 0;
    size_t longest = below(3) == 0 ? length : 1 + below(length + 1);
    if (is_in_place) {
        memcpy(pair->to_ours, from, length);
        memcpy(pair->to_theirs, from, length);
    }
    for (size_t done = 0; done < length;) {
        size_t count = longest >= length ? length : 1 + below(longest);
        if (count > length - done)
            count = length - done;
        unsigned char *ours = is_aad ? NULL : pair->to_ours + done;
        unsigned char *theirs = is_aad ? NULL : pair->to_theirs + done;
        EXPECT(EVP_CipherUpdate(pair->ours, ours, &of_ours, is_in_place ? ours : from + done,
                                (int)count)
               == 1);
        EXPECT(EVP_CipherUpdate(pair->theirs, theirs, &of_theirs,
                                is_in_place ? theirs : from + done, (int)count)
               == 1);
        EXPECT(of_ours == of_theirs);
        done += count;
    }
}

static void compare_ivs(struct pair *pair)
{
    unsigned char ours[128], theirs[128];
    int length = EVP_CIPHER_CTX_get_iv_length(pair->ours);
    EXPECT(length == EVP_CIPHER_CTX_get_iv_length(pair->theirs));
    EXPECT(EVP_CIPHER_CTX_get_updated_iv(pair->ours, ours, sizeof ours));
    EXPECT(EVP_CIPHER_CTX_get_updated_iv(pair->theirs, theirs, sizeof theirs));
    EXPECT(memcmp(ours, theirs, (size_t)length) == 0);
    EXPECT(EVP_CIPHER_CTX_get_tag_length(pair->ours) == EVP_CIPHER_CTX_get_tag_length(pair->theirs));
}

/* A message, encrypted and decrypted again, now and then with a wrong tag. */
static void random_message(struct pair *pair, int encrypt, const unsigned char *key,
                           const unsigned char *iv, size_t iv_length, const unsigned char *aad,
                           size_t aad_length, const unsigned char *text, size_t length,
                           unsigned char *tag, int tag_length, int is_forged)
{
    int of_ours, of_theirs, count;
    both_control(pair, EVP_CTRL_AEAD_SET_IVLEN, (int)iv_length, NULL, NULL);
    if (below(2) == 0) {
        both_init(pair, NULL, iv);
        both_init(pair, key, NULL);
    } else
        both_init(pair, key, iv);
    if (!encrypt)
        EXPECT(both_control(pair, EVP_CTRL_AEAD_SET_TAG, tag_length, tag, tag) == 1);
    both_update(pair, aad, aad_length, 1);
    both_update(pair, text, length, 0);
    compare_ivs(pair);
    of_ours = EVP_CipherFinal_ex(pair->ours, pair->to_ours + length, &count);
    of_theirs = EVP_CipherFinal_ex(pair->theirs, pair->to_theirs + length, &count);
    EXPECT((of_ours > 0) == (of_theirs > 0) && (of_ours > 0) == !is_forged);
    EXPECT(memcmp(pair->to_ours, pair->to_theirs, length) == 0);
    if (encrypt) {
        unsigned char other[16];
        EXPECT(both_control(pair, EVP_CTRL_AEAD_GET_TAG, tag_length, tag, other) == 1);
        EXPECT(memcmp(tag, other, (size_t)tag_length) == 0);
    }
}

/* Records of TLS 1.2 that one side encrypts and the other decrypts, crosswise. */
static void random_records(EVP_CIPHER *ours, EVP_CIPHER *theirs, const unsigned char *key)
{
    unsigned char fixed[12];
    random_bytes(fixed, sizeof fixed);
    for (int is_sealed_by_us = 0; is_sealed_by_us < 2; is_sealed_by_us++) {
        EVP_CIPHER_CTX *seal = EVP_CIPHER_CTX_new(), *open = EVP_CIPHER_CTX_new();
        EXPECT(EVP_EncryptInit_ex(seal, is_sealed_by_us ? ours : theirs, NULL, key, NULL));
        EXPECT(EVP_DecryptInit_ex(open, is_sealed_by_us ? theirs : ours, NULL, key, NULL));
        int is_whole = below(2) == 0;
        EXPECT(EVP_CIPHER_CTX_ctrl(seal, EVP_CTRL_GCM_SET_IV_FIXED, is_whole ? -1 : 4, fixed));
        EXPECT(EVP_CIPHER_CTX_ctrl(open, EVP_CTRL_GCM_SET_IV_FIXED, 4, fixed));
        unsigned char last[8] = { 0 };
        for (int number = 0; number < 3; number++) {
            size_t length = below(3) == 0 ? 16384 : below(300);
            int count, total = (int)length + 24, is_forged = below(8) == 0;
            unsigned char aad[13];
            unsigned char *text = guarded(0, length), *record = guarded(1, (size_t)total);
            random_bytes(text, length);
            random_bytes(aad, 11);
            memcpy(record + 8, text, length);
            aad[11] = (unsigned char)((length + 8) >> 8);
            aad[12] = (unsigned char)(length + 8);
            EXPECT(EVP_CIPHER_CTX_ctrl(seal, EVP_CTRL_AEAD_TLS1_AAD, 13, aad) == 16);
            EXPECT(EVP_CipherUpdate(seal, record, &count, record, total) && count == total);
            /* Invocations follow each other. */
            EXPECT(number == 0 || last[7] + 1 == record[7] || record[7] == 0);
            memcpy(last, record, 8);
            record[8 + below(length + 16)] ^= (unsigned char)is_forged;
            aad[11] = (unsigned char)((length + 24) >> 8);
            aad[12] = (unsigned char)(length + 24);
            EXPECT(EVP_CIPHER_CTX_ctrl(open, EVP_CTRL_AEAD_TLS1_AAD, 13, aad) == 16);
            EXPECT((EVP_CipherUpdate(open, record, &count, record, total) > 0) == !is_forged);
            EXPECT(is_forged || (count == (int)length && memcmp(record + 8, text, length) == 0));
            ERR_clear_error();
        }
        EVP_CIPHER_CTX_free(seal);
        EVP_CIPHER_CTX_free(open);
    }
}

/* A message of any size, encrypted and decrypted, whose buffers end or begin beside pages that
 * nobody may touch. */
static void random_pair(struct pair *seal, struct pair *open, const unsigned char *key_bytes,
                        int bits)
{
    size_t longest[] = { 17, 100, 600, 5000, LONGEST };
    size_t length = below(longest[below(5)]), aad_length = below(2) ? below(20) : below(500);
    size_t iv_length = below(2) ? 12 : 1 + below(128);
    int tag_length = below(2) ? 16 : 1 + (int)below(16), is_forged = below(6) == 0;
    unsigned char *iv = guarded(0, iv_length), *aad = guarded(1, aad_length);
    unsigned char *text = guarded(2, length), *sealed = guarded(3, length);
    unsigned char *key = guarded(4, (size_t)bits / 8), *tag = guarded(5, (size_t)tag_length);
    seal->to_ours = open->to_ours = guarded(6, length);
    seal->to_theirs = open->to_theirs = guarded(7, length);
    memcpy(key, key_bytes, (size_t)bits / 8);
    random_bytes(iv, iv_length);
    random_bytes(aad, aad_length);
    random_bytes(text, length);
    random_message(seal, 1, key, iv, iv_length, aad, aad_length, text, length, tag, tag_length, 0);
    memcpy(sealed, seal->to_ours, length);
    tag[below((size_t)tag_length)] ^= (unsigned char)is_forged;
    random_message(open, 0, key, iv, iv_length, aad, aad_length, sealed, length, tag, tag_length,
                   is_forged);
    EXPECT(memcmp(open->to_ours, text, length) == 0);
}

void test_random(int rounds)
{
    unsigned char key[32];
    for (int round = 0; round < rounds; round++) {
        int bits = 128 + 64 * (int)below(3);
        EVP_CIPHER *of_ours = fetch(bits, OURS), *of_theirs = fetch(bits, THEIRS);
        random_bytes(key, sizeof key);
        struct pair seal = { EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_new(), NULL, NULL };
        struct pair open = { EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_new(), NULL, NULL };
        EXPECT(EVP_EncryptInit_ex(seal.ours, of_ours, NULL, NULL, NULL));
        EXPECT(EVP_EncryptInit_ex(seal.theirs, of_theirs, NULL, NULL, NULL));
        EXPECT(EVP_DecryptInit_ex(open.ours, of_ours, NULL, NULL, NULL));
        EXPECT(EVP_DecryptInit_ex(open.theirs, of_theirs, NULL, NULL, NULL));
        for (int number = 0; number < 3; number++)
            random_pair(&seal, &open, key, bits);
        random_records(of_ours, of_theirs, key);
        EVP_CIPHER_CTX_free(seal.ours);
        EVP_CIPHER_CTX_free(seal.theirs);
        EVP_CIPHER_CTX_free(open.ours);
        EVP_CIPHER_CTX_free(open.theirs);
        EVP_CIPHER_free(of_ours);
        EVP_CIPHER_free(of_theirs);
    }
    printf("%d rounds\n", rounds);
}
