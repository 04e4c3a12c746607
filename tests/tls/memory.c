/* Memory that fails: each allocation of a message's calls in turn, by itself or with all after it. A call
 * then says that it failed, or its result is right, and the program goes on. AddressSanitizer has an
 * allocator of its own. */

#include "host.h"

#include <errno.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NEVER = -1, MOST = 1000000 };

/* So many allocations succeed, then one fails, or all; with NEVER none does, and none counts. */
static long left = NEVER, asked;
static int stays;

#ifndef __SANITIZE_ADDRESS__
static int fails(void)
{
    if (left == NEVER)
        return 0;
    asked++;
    if (left > 0) {
        left--;
        return 0;
    }
    if (!stays)
        left = MOST;
    errno = ENOMEM;
    return 1;
}

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *place, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

void *malloc(size_t size)
{
    return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return fails() ? NULL : __libc_calloc(count, size);
}

void *realloc(void *place, size_t size)
{
    return fails() ? NULL : __libc_realloc(place, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return fails() ? NULL : __libc_memalign(alignment, size);
}

int posix_memalign(void **place, size_t alignment, size_t size)
{
    void *found = fails() ? NULL : __libc_memalign(alignment, size);
    if (found == NULL)
        return ENOMEM;
    *place = found;
    return 0;
}
#endif

/* A message that begins short and goes on long, and is copied between the two. */
enum { SHORT = 96, LONG = 1250 * 16, TEXT = SHORT + LONG, BLOCK = 16 };
static unsigned char key[32], iv[BLOCK], text[TEXT];

struct result {
    unsigned char text[TEXT + BLOCK], tag[BLOCK];
    int has_text, has_tag;
};

/* How often the provider said that there is no memory. */
static long said;

/* The rest of a message of which the beginning is there. */
static void finish(EVP_CIPHER_CTX *context, int has_tag, struct result *result)
{
    int written = 0, end = 0;
    result->has_text =
        EVP_EncryptUpdate(context, result->text + SHORT, &written, text + SHORT, LONG) == 1
        && written == LONG && EVP_EncryptFinal_ex(context, result->text + TEXT, &end) == 1 && end == 0;
    result->has_tag = result->has_text && has_tag
        && EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, BLOCK, result->tag) == 1;
}

/* Encrypts the message and, from where it is copied, its copy, with so many allocations: then one fails,
 * or all. Returns how many there were. */
static long encrypt(const EVP_CIPHER *cipher, int has_tag, long allocations, int all,
                    struct result results[2])
{
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new(), *copy = EVP_CIPHER_CTX_new();
    EXPECT(context != NULL && copy != NULL);
    memset(results, 0, 2 * sizeof *results);
    int written = 0;
    asked = 0, stays = all, left = allocations;
    if (EVP_EncryptInit_ex2(context, cipher, key, iv, NULL) == 1
        && EVP_CIPHER_CTX_set_padding(context, 0) == 1
        && EVP_EncryptUpdate(context, results[0].text, &written, text, SHORT) == 1
        && written == SHORT) {
        memcpy(results[1].text, results[0].text, SHORT);
        int is_copied = EVP_CIPHER_CTX_copy(copy, context) == 1;
        finish(context, has_tag, &results[0]);
        if (is_copied)
            finish(copy, has_tag, &results[1]);
    }
    left = NEVER;
    EVP_CIPHER_CTX_free(context);
    EVP_CIPHER_CTX_free(copy);
    for (unsigned long error; (error = ERR_get_error()) != 0;)
        said += ERR_GET_LIB(error) >= ERR_LIB_USER && ERR_GET_REASON(error) == ERR_R_MALLOC_FAILURE;
    return asked;
}

void test_memory(void)
{
    static const char *const modes[] = { "GCM", "CBC", "CTR", "ECB" };
    static struct result right[2], results[2];
    long failed = 0, whole = 0;
    random_bytes(key, sizeof key);
    random_bytes(iv, sizeof iv);
    random_bytes(text, sizeof text);
    for (int mode = 0; mode < 4; mode++)
        for (int bits = 128; bits <= 256; bits += 64) {
            EVP_CIPHER *cipher = offered(modes[mode], bits);
            if (cipher == NULL)
                continue;
            EVP_CIPHER *theirs = fetch_mode(modes[mode], bits, THEIRS);
            int has_tag = mode == 0;
            encrypt(theirs, has_tag, MOST, 0, right);
            long count = encrypt(cipher, has_tag, MOST, 0, results);
            EXPECT(right[1].has_text && memcmp(results, right, sizeof right) == 0);
            /* A context and its copy, at least. */
            EXPECT(count >= 2);
            for (long allocations = 0; allocations < count; allocations++)
                for (int all = 0; all < 2; all++) {
                    encrypt(cipher, has_tag, allocations, all, results);
                    int is_whole = 1;
                    for (int one = 0; one < 2; one++) {
                        struct result *result = &results[one];
                        is_whole &= result->has_text && result->has_tag == has_tag;
                        EXPECT(!result->has_text
                               || memcmp(result->text, right[one].text, TEXT) == 0);
                        EXPECT(!result->has_tag || memcmp(result->tag, right[one].tag, BLOCK) == 0);
                    }
                    whole += is_whole;
                    failed += !is_whole;
                }
            EVP_CIPHER_free(theirs);
            EVP_CIPHER_free(cipher);
        }
    EXPECT(failed > 0 && said > 0);
    printf("memory: %ld runs failed, %ld did not need it\n", failed, whole);
}
