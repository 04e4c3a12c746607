/* ECB, CBC and CTR: random sequences of calls, compared with OpenSSL's own provider in the same
 * process, and what is told apart from them. */

#include "host.h"

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/params.h>
#include <stdio.h>
#include <string.h>

enum { LONGEST = 20000, ROOM = LONGEST + 700 };

static const char *const MODES[] = { "ECB", "CBC", "CTR" };

/* Contexts that are called alike. */
struct pair {
    EVP_CIPHER_CTX *ours, *theirs;
};

static int last_status;
static unsigned long last_error;

/* Notes what a call of ours made, then compares it with theirs. */
static void note_ours(int status)
{
    last_status = status;
    last_error = ERR_peek_last_error();
    ERR_clear_error();
}

static int compare_theirs(int status, const char *what, int line)
{
    unsigned long error = ERR_peek_last_error();
    if (status != last_status || error != last_error) {
        fprintf(stderr, "%s:%d: %s: %d %s, with OpenSSL's own %d %s\n", __FILE__, line, what,
                last_status, last_error ? ERR_reason_error_string(last_error) : "-", status,
                error ? ERR_reason_error_string(error) : "-");
        EXPECT(!"the same status and error");
    }
    ERR_clear_error();
    return status;
}

/* Does a call with each context of a pair, named `context`; its status, which is the same. */
#define BOTH(pair, call)                                                                           \
    ({                                                                                             \
        int is_ours = 1;                                                                           \
        EVP_CIPHER_CTX *context = (pair)->ours;                                                    \
        (void)is_ours;                                                                             \
        note_ours(call);                                                                           \
        context = (pair)->theirs;                                                                  \
        is_ours = 0;                                                                               \
        compare_theirs(call, #call, __LINE__);                                                     \
    })

/* What EVP says of a cipher and of a context. */
static void test_descriptions(const char *mode, int bits)
{
    EVP_CIPHER *ours = fetch_mode(mode, bits, OURS), *theirs = fetch_mode(mode, bits, THEIRS);
    EXPECT(EVP_CIPHER_get_nid(ours) == EVP_CIPHER_get_nid(theirs));
    EXPECT(EVP_CIPHER_get_flags(ours) == EVP_CIPHER_get_flags(theirs));
    EXPECT(EVP_CIPHER_get_mode(ours) == EVP_CIPHER_get_mode(theirs));
    EXPECT(EVP_CIPHER_get_block_size(ours) == EVP_CIPHER_get_block_size(theirs));
    EXPECT(EVP_CIPHER_get_iv_length(ours) == EVP_CIPHER_get_iv_length(theirs));
    EXPECT(EVP_CIPHER_get_key_length(ours) == EVP_CIPHER_get_key_length(theirs));
    EXPECT(strcmp(EVP_CIPHER_get0_name(ours), EVP_CIPHER_get0_name(theirs)) == 0);
    const OSSL_PARAM *params[3][2] = {
        { EVP_CIPHER_gettable_params(ours), EVP_CIPHER_gettable_params(theirs) },
        { EVP_CIPHER_gettable_ctx_params(ours), EVP_CIPHER_gettable_ctx_params(theirs) },
        { EVP_CIPHER_settable_ctx_params(ours), EVP_CIPHER_settable_ctx_params(theirs) },
    };
    for (int list = 0; list < 3; list++)
        for (const OSSL_PARAM *param = params[list][1]; param->key; param++) {
            const OSSL_PARAM *own = OSSL_PARAM_locate_const(params[list][0], param->key);
            /* OpenSSL 3.6 describes the MAC as what it takes no place for. */
            int is_mac = strcmp(param->key, OSSL_CIPHER_PARAM_TLS_MAC) == 0;
            EXPECT(own != NULL && (own->data_type == param->data_type || is_mac));
        }
    EVP_CIPHER_free(ours);
    EVP_CIPHER_free(theirs);
}

/* Everything that can be asked of contexts. */
static void compare_states(struct pair *pair)
{
    EXPECT(EVP_CIPHER_CTX_get_num(pair->ours) == EVP_CIPHER_CTX_get_num(pair->theirs));
    unsigned padding[2];
    size_t key_length[2], iv_length[2];
    unsigned char iv[2][16] = { { 0 }, { 0 } }, updated[2][16] = { { 0 }, { 0 } };
    for (int side = 0; side < 2; side++) {
        EVP_CIPHER_CTX *context = side ? pair->theirs : pair->ours;
        size_t length = (size_t)EVP_CIPHER_CTX_get_iv_length(context);
        OSSL_PARAM params[] = {
            OSSL_PARAM_construct_uint(OSSL_CIPHER_PARAM_PADDING, &padding[side]),
            OSSL_PARAM_construct_size_t(OSSL_CIPHER_PARAM_KEYLEN, &key_length[side]),
            OSSL_PARAM_construct_size_t(OSSL_CIPHER_PARAM_IVLEN, &iv_length[side]),
            OSSL_PARAM_construct_octet_string(OSSL_CIPHER_PARAM_IV, iv[side], length),
            OSSL_PARAM_construct_octet_string(OSSL_CIPHER_PARAM_UPDATED_IV, updated[side], length),
            OSSL_PARAM_construct_end(),
        };
        EXPECT(EVP_CIPHER_CTX_get_params(context, params));
    }
    EXPECT(padding[0] == padding[1] && key_length[0] == key_length[1]);
    EXPECT(iv_length[0] == iv_length[1] && memcmp(iv[0], iv[1], 16) == 0);
    EXPECT(memcmp(updated[0], updated[1], 16) == 0);
    /* OpenSSL's own leaves what it tried first in the queue. */
    ERR_clear_error();
}

/* Where a piece lies: its result goes elsewhere, begins before it, or in CTR replaces it. */
static void update_both(struct pair *pair, const unsigned char *from, size_t length, int is_ctr)
{
    static unsigned char memory[2][ROOM], before[ROOM];
    size_t way = is_ctr ? below(3) : 1 + below(2), offset = way == 2 ? 16 + below(600) : 0;
    int counts[2];
    random_bytes(before, 50);
    memset(before + 50, 0x5A, sizeof before - 50);
    for (int side = 0; side < 2; side++) {
        memcpy(memory[side], before, sizeof before);
        if (way != 1)
            memcpy(memory[side] + offset, from, length);
    }
    int status = BOTH(pair, EVP_CipherUpdate(context, memory[!is_ours], &counts[!is_ours],
                                             way == 1 ? from : memory[!is_ours] + offset,
                                             (int)length));
    EXPECT(status == 1 && counts[0] == counts[1]);
    EXPECT(memcmp(memory[0], memory[1], (size_t)counts[0]) == 0);
    if (way == 1)
        EXPECT(memcmp(memory[0] + counts[0], before + counts[0], ROOM - (size_t)counts[0]) == 0);
}

/* Where the result of a piece lies as callers have it that encrypt a message in its place: behind
 * the results before. */
static void whole_in_place(struct pair *pair, const unsigned char *from, size_t length)
{
    static unsigned char memory[2][ROOM];
    size_t longest = 1 + below(length + 1), written = 0;
    int counts[2];
    memcpy(memory[0], from, length);
    memcpy(memory[1], from, length);
    for (size_t done = 0, count; done < length; done += count) {
        count = 1 + below(longest);
        if (count > length - done)
            count = length - done;
        EXPECT(BOTH(pair, EVP_CipherUpdate(context, memory[!is_ours] + written, &counts[!is_ours],
                                           memory[!is_ours] + done, (int)count))
               == 1);
        EXPECT(counts[0] == counts[1]);
        written += (size_t)counts[0];
    }
    EXPECT(memcmp(memory[0], memory[1], written) == 0);
}

static void replace_by_copies(struct pair *pair)
{
    struct pair copies = { EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_new() };
    EXPECT(EVP_CIPHER_CTX_copy(copies.ours, pair->ours));
    EXPECT(EVP_CIPHER_CTX_copy(copies.theirs, pair->theirs));
    EVP_CIPHER_CTX_free(pair->ours);
    EVP_CIPHER_CTX_free(pair->theirs);
    *pair = copies;
}

/* A call that is none for the next part of the message. */
static void another_call(struct pair *pair, int is_ctr)
{
    unsigned char text[2][700] = { { 0 }, { 0 } }, from[680];
    int is_padded;
    switch (below(7)) {
    case 0:
        replace_by_copies(pair);
        break;
    case 1:
        is_padded = (int)below(2);
        BOTH(pair, EVP_CIPHER_CTX_set_padding(context, is_padded));
        break;
    case 2: {
        /* Larger ones are refused by some versions of OpenSSL 3.0, and taken by others. */
        int number = (int)below(is_ctr ? 1 : 16);
        BOTH(pair, EVP_CIPHER_CTX_set_num(context, number));
        break;
    }
    case 3: {
        int length = (int)(is_ctr ? below(680) : below(42) * 16);
        random_bytes(from, sizeof from);
        memset(text, 0, sizeof text);
        BOTH(pair, EVP_Cipher(context, text[!is_ours], from, (unsigned)length));
        EXPECT(memcmp(text[0], text[1], sizeof text[0]) == 0);
        break;
    }
    case 4: {
        int counts[2] = { 7, 7 };
        BOTH(pair, EVP_CipherUpdate(context, text[!is_ours], &counts[!is_ours], from, 0));
        EXPECT(counts[0] == counts[1] && memcmp(text[0], text[1], (size_t)counts[0]) == 0);
        break;
    }
    case 5: {
        unsigned bits = (unsigned)below(2);
        OSSL_PARAM params[] = { OSSL_PARAM_construct_uint(OSSL_CIPHER_PARAM_USE_BITS, &bits),
                                OSSL_PARAM_construct_end() };
        BOTH(pair, EVP_CIPHER_CTX_set_params(context, params));
        break;
    }
    default:
        compare_states(pair);
    }
}

/* Sets a direction, and a key and an IV or what was there before. */
static int begin(struct pair *pair, int *encrypt, int has_key, int key_length, int is_ctr)
{
    unsigned char *key = guarded(0, (size_t)key_length), *iv = guarded(1, 16);
    random_bytes(key, (size_t)key_length);
    if (below(3) == 0)
        memset(iv, 0xFF, 16);
    else
        random_bytes(iv, 16);
    if (below(3) == 0)
        iv[15 - below(16)] ^= 0x11;
    /* Without a key OpenSSL's own goes on with what it made for the other direction. */
    int keep_key = has_key && below(3) == 0, keep_iv = has_key && below(3) == 0;
    if (!keep_key || is_ctr)
        *encrypt = (int)below(2);
    int status = 1;
    if (below(4) == 0) {
        status &= BOTH(pair, EVP_CipherInit_ex(context, NULL, NULL, NULL, keep_iv ? NULL : iv,
                                               *encrypt));
        status &= BOTH(pair, EVP_CipherInit_ex(context, NULL, NULL, keep_key ? NULL : key, NULL,
                                               *encrypt));
    } else
        status &= BOTH(pair, EVP_CipherInit_ex(context, NULL, NULL, keep_key ? NULL : key,
                                               keep_iv ? NULL : iv, *encrypt));
    return status;
}

static void random_message(struct pair *pair, int is_ctr)
{
    static const size_t longest[] = { 17, 100, 600, 5000, LONGEST };
    static unsigned char from[LONGEST];
    unsigned char last[2][64];
    size_t length = below(longest[below(5)]);
    if (below(3) == 0)
        length -= length % 16;
    int counts[2];
    random_bytes(from, length);
    if (below(3) == 0)
        whole_in_place(pair, from, length);
    else {
        size_t most = below(3) ? length : below(length + 1);
        for (size_t done = 0, count; done < length; done += count) {
            count = most == length ? length : 1 + below(most + 1);
            if (count > length - done)
                count = length - done;
            update_both(pair, from + done, count, is_ctr);
            if (below(3) == 0)
                another_call(pair, is_ctr);
        }
    }
    memset(last, 0x3C, sizeof last);
    counts[0] = counts[1] = 0;
    if (below(10) > 0) {
        BOTH(pair, EVP_CipherFinal_ex(context, last[!is_ours], &counts[!is_ours]));
        EXPECT(counts[0] == counts[1] && memcmp(last[0], last[1], sizeof last[0]) == 0);
    }
}

/* What a caller gets that has forgotten something. */
static void without_key(EVP_CIPHER *ours, EVP_CIPHER *theirs)
{
    unsigned char text[2][64] = { { 0 }, { 0 } };
    int counts[2];
    struct pair pair = { EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_new() };
    EXPECT(BOTH(&pair, EVP_EncryptInit_ex(context, is_ours ? ours : theirs, NULL, NULL, NULL)) == 1);
    EXPECT(BOTH(&pair, EVP_CipherUpdate(context, text[!is_ours], &counts[!is_ours],
                                        text[!is_ours], 16))
           == 0);
    EXPECT(BOTH(&pair, EVP_CipherFinal_ex(context, text[!is_ours], &counts[!is_ours])) == 0);
    BOTH(&pair, EVP_Cipher(context, text[!is_ours], text[!is_ours], 16));
    compare_states(&pair);
    EVP_CIPHER_CTX_free(pair.ours);
    EVP_CIPHER_CTX_free(pair.theirs);
}

/* The message is decrypted right with a padding that was made by the other, and wrong paddings are
 * found by both. */
static void paddings(EVP_CIPHER *ours, EVP_CIPHER *theirs)
{
    unsigned char key[32], iv[16], block[16], sealed[64], opened[2][64];
    int count, counts[2];
    random_bytes(key, sizeof key);
    random_bytes(iv, sizeof iv);
    for (int last = 0; last < 256; last++) {
        random_bytes(block, 16);
        for (int place = 15; place >= 0 && place > 15 - last; place--)
            block[place] = (unsigned char)last;
        block[15] = (unsigned char)last;
        if (below(3) == 0)
            block[below(16)] ^= 1;
        EVP_CIPHER_CTX *seal = EVP_CIPHER_CTX_new();
        EXPECT(EVP_EncryptInit_ex(seal, theirs, NULL, key, iv));
        EXPECT(EVP_CIPHER_CTX_set_padding(seal, 0));
        EXPECT(EVP_EncryptUpdate(seal, sealed, &count, block, 16) && count == 16);
        EVP_CIPHER_CTX_free(seal);
        struct pair pair = { EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_new() };
        EXPECT(BOTH(&pair, EVP_DecryptInit_ex(context, is_ours ? ours : theirs, NULL, key, iv)));
        EXPECT(BOTH(&pair, EVP_CipherUpdate(context, opened[!is_ours], &counts[!is_ours], sealed, 16)));
        EXPECT(counts[0] == 0 && counts[1] == 0);
        memset(opened, 0, sizeof opened);
        BOTH(&pair, EVP_CipherFinal_ex(context, opened[!is_ours], &counts[!is_ours]));
        EXPECT(counts[0] == counts[1] && memcmp(opened[0], opened[1], sizeof opened[0]) == 0);
        EVP_CIPHER_CTX_free(pair.ours);
        EVP_CIPHER_CTX_free(pair.theirs);
    }
}

/* Where OpenSSL's own ciphers go wrong, Evener's don't: a direction that is changed without a key
 * has what it needs, and a result that would replace text before it is read is refused. */
static void better(EVP_CIPHER *ours)
{
    unsigned char key[32] = { 1 }, iv[16] = { 2 }, text[640], sealed[640];
    int count;
    random_bytes(text, sizeof text);
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    EXPECT(EVP_EncryptInit_ex(context, ours, NULL, key, iv));
    EXPECT(EVP_CIPHER_CTX_set_padding(context, 0));
    EXPECT(EVP_EncryptUpdate(context, sealed, &count, text, 600 - 600 % 16));
    EXPECT(EVP_DecryptInit_ex(context, NULL, NULL, NULL, iv));
    EXPECT(EVP_DecryptUpdate(context, sealed, &count, sealed, 600 - 600 % 16));
    EXPECT(count == 592 && memcmp(text, sealed, 592) == 0);
    EXPECT(!EVP_DecryptUpdate(context, sealed + 8, &count, sealed, 592) && count == 0);
    EXPECT(memcmp(text, sealed, 592) == 0);
    ERR_clear_error();
    EVP_CIPHER_CTX_free(context);
}

void test_modes(int rounds)
{
    for (int which = 0; which < 9; which++) {
        const char *mode = MODES[which / 3];
        int bits = 128 + which % 3 * 64, is_ctr = which / 3 == 2;
        EVP_CIPHER *ours = fetch_mode(mode, bits, OURS), *theirs = fetch_mode(mode, bits, THEIRS);
        test_descriptions(mode, bits);
        without_key(ours, theirs);
        better(ours);
        if (!is_ctr)
            paddings(ours, theirs);
        for (int round = 0; round < rounds; round++) {
            struct pair pair = { EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_new() };
            int encrypt = (int)below(2), has_key = 0;
            EXPECT(BOTH(&pair, EVP_CipherInit_ex(context, is_ours ? ours : theirs, NULL, NULL, NULL,
                                                 encrypt))
                   == 1);
            for (int number = 0; number < 4; number++) {
                has_key = begin(&pair, &encrypt, has_key, bits / 8, is_ctr);
                random_message(&pair, is_ctr);
                compare_states(&pair);
            }
            EVP_CIPHER_CTX_free(pair.ours);
            EVP_CIPHER_CTX_free(pair.theirs);
        }
        EVP_CIPHER_free(ours);
        EVP_CIPHER_free(theirs);
    }
    printf("%d rounds of 9 ciphers\n", rounds);
}
