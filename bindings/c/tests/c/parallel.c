/* One buffer on several threads. */
#include <string.h>

#include "check.h"

enum { LENGTH = (1 << 20) + 7 };

static uint8_t *bytes_of(size_t length)
{
    uint8_t *bytes = malloc(length);
    CHECK(bytes);
    for (size_t index = 0; index < length; index++)
        bytes[index] = (uint8_t)(index * 2654435761u >> 13);
    return bytes;
}

/* Carries through all of the counter's bytes, and is what a session makes of it. */
static void a_buffer_is_what_a_session_makes_of_it(void)
{
    uint8_t counter[16];
    memset(counter, 0xff, sizeof counter);
    uint8_t *plain = bytes_of(LENGTH), *expected = malloc(LENGTH), *output = malloc(LENGTH);
    CHECK(expected && output);
    evener_key *key;
    OK(evener_key_generate("aes-256-ctr", &key));
    evener_session *session;
    OK(evener_session_open(NULL, "aes-256-ctr", EVENER_DIRECTION_ENCRYPT, key, &session));
    OK(evener_session_crypt(session, EVENER_PADDING_NONE, counter, 16, NULL, 0, plain, LENGTH,
                            expected, LENGTH, NULL));
    evener_session_free(session);

    evener_pool *pool;
    OK(evener_pool_new(3, &pool));
    const char *engines[] = {NULL, "openssl"};
    for (int index = 0; index < 2; index++) {
        evener_parallel *parallel;
        OK(evener_parallel_open(pool, engines[index], "aes-256-ctr", key, EVENER_PADDING_NONE,
                                &parallel));
        size_t written;
        memset(output, 0, LENGTH);
        OK(evener_parallel_crypt(parallel, EVENER_DIRECTION_ENCRYPT, counter, 16, plain, LENGTH, output,
                                 LENGTH, &written));
        CHECK(written == LENGTH && memcmp(output, expected, LENGTH) == 0);
        OK(evener_parallel_crypt_in_place(parallel, EVENER_DIRECTION_DECRYPT, counter, 16, output, LENGTH));
        CHECK(memcmp(output, plain, LENGTH) == 0);
        EXPECT(EVENER_STATUS_INVALID_ARGUMENT,
               evener_parallel_crypt(parallel, EVENER_DIRECTION_ENCRYPT, counter, 16, plain, LENGTH, plain,
                                     LENGTH, &written));
        EXPECT(EVENER_STATUS_MALFORMED_JOB,
               evener_parallel_crypt(parallel, EVENER_DIRECTION_ENCRYPT, counter, 15, plain, LENGTH, output,
                                     LENGTH, &written));
        CHECK(written == 0);
        evener_parallel_free(parallel);
    }
    evener_pool_free(pool);
    evener_pool_free(NULL);
    evener_key_free(key);
    free(plain);
    free(expected);
    free(output);
}

static void padding_is_for_modes_that_pad(void)
{
    enum { SHORT = 200005 };
    evener_key *key;
    OK(evener_key_generate("aes-128-cbc", &key));
    static const uint8_t iv[16] = {1};
    uint8_t *plain = bytes_of(SHORT), *sealed = malloc(SHORT + 16), *opened = malloc(SHORT + 16);
    CHECK(sealed && opened);
    evener_parallel *parallel;
    OK(evener_parallel_open(NULL, NULL, "aes-128-cbc", key, EVENER_PADDING_PKCS7, &parallel));
    size_t written;
    OK(evener_parallel_crypt(parallel, EVENER_DIRECTION_ENCRYPT, iv, 16, plain, SHORT, sealed, SHORT + 16,
                             &written));
    CHECK(written == SHORT + 16 - SHORT % 16);
    OK(evener_parallel_crypt(parallel, EVENER_DIRECTION_DECRYPT, iv, 16, sealed, written, opened,
                             SHORT + 16, &written));
    CHECK(written == SHORT && memcmp(plain, opened, SHORT) == 0);
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT,
           evener_parallel_crypt_in_place(parallel, EVENER_DIRECTION_ENCRYPT, iv, 16, plain, 32));
    evener_parallel_free(parallel);
    evener_parallel_free(NULL);

    EXPECT(EVENER_STATUS_INVALID_ARGUMENT,
           evener_parallel_open(NULL, NULL, "aes-128-ctr", key, EVENER_PADDING_PKCS7, &parallel));
    CHECK(parallel == NULL);
    EXPECT(EVENER_STATUS_NOT_OFFERED,
           evener_parallel_open(NULL, NULL, "aes-128-gcm", key, EVENER_PADDING_NONE, &parallel));
    EXPECT(EVENER_STATUS_INVALID_KEY,
           evener_parallel_open(NULL, NULL, "aes-256-ctr", key, EVENER_PADDING_NONE, &parallel));
    evener_key_free(key);
    free(plain);
    free(sealed);
    free(opened);
}

void test_parallel(void)
{
    a_buffer_is_what_a_session_makes_of_it();
    padding_is_for_modes_that_pad();
}
