/*
 * Encrypts a buffer with OpenMP's threads and a session of Evener's on each: what a program that
 * has its own thread pool does.
 *
 *     cc -fopenmp encrypt_openmp.c $(pkg-config --cflags --libs evener) -o encrypt_openmp
 *     ./encrypt_openmp [MEGABYTES]
 *
 * AES-128-CTR counts a block every 16 bytes, so that a part that begins at byte n of the buffer
 * has the counter n / 16 further on, and the parts are independent. The result is compared with
 * the same by one thread.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <evener.h>
#include <omp.h>

enum { PART = 1 << 18 };

/* The counter block that is `blocks` further on: a number of 128 bits, big-endian. */
static void advance(uint8_t counter[16], uint64_t blocks)
{
    for (int index = 15; index >= 0 && blocks > 0; index--) {
        blocks += counter[index];
        counter[index] = (uint8_t)blocks;
        blocks >>= 8;
    }
}

/* Encrypts one part of the buffer. */
static evener_status encrypt_part(const evener_session *session, const uint8_t first[16],
                                  const uint8_t *input, uint8_t *output, size_t start, size_t length)
{
    uint8_t counter[16];
    memcpy(counter, first, sizeof counter);
    advance(counter, start / 16);
    return evener_session_crypt(session, EVENER_PADDING_NONE, counter, sizeof counter, NULL, 0,
                                input + start, length, output + start, length, NULL);
}

/* Encrypts a whole buffer with this many threads, each with a session of its own. */
static evener_status encrypt(const evener_key *key, const uint8_t counter[16],
                             const uint8_t *input, uint8_t *output, size_t length, int threads)
{
    evener_status result = EVENER_STATUS_OK;
#pragma omp parallel num_threads(threads)
    {
        evener_session *session;
        evener_status status =
            evener_session_open(NULL, "aes-128-ctr", EVENER_DIRECTION_ENCRYPT, key, &session);
#pragma omp for schedule(dynamic)
        for (size_t start = 0; start < length; start += PART) {
            size_t part = length - start < PART ? length - start : PART;
            if (status == EVENER_STATUS_OK)
                status = encrypt_part(session, counter, input, output, start, part);
        }
        if (status != EVENER_STATUS_OK) {
            fprintf(stderr, "%s\n", evener_last_error());
#pragma omp critical
            result = status;
        }
        evener_session_free(session);
    }
    return result;
}

int main(int count, char **arguments)
{
    size_t length = (count > 1 ? strtoul(arguments[1], NULL, 10) : 64) << 20;
    uint8_t *plain = calloc(length, 1), *alone = malloc(length), *together = malloc(length);
    evener_key *key;
    if (!plain || !alone || !together || evener_key_generate("aes-128-ctr", &key)) {
        fprintf(stderr, "can't begin: %s\n", evener_last_error());
        return 1;
    }
    /* The low half is about to carry into the high one. */
    const uint8_t counter[16] = {0, 0, 0, 0, 0, 0, 0, 7, 255, 255, 255, 255, 255, 255, 255, 0};
    int threads = omp_get_max_threads();
    double started = omp_get_wtime();
    evener_status status = encrypt(key, counter, plain, alone, length, 1);
    double one = omp_get_wtime();
    status = status ? status : encrypt(key, counter, plain, together, length, threads);
    double all = omp_get_wtime();
    int same = !status && memcmp(alone, together, length) == 0;
    printf("%zu MiB: 1 thread %.1f ms, %d threads %.1f ms, %s\n", length >> 20,
           1e3 * (one - started), threads, 1e3 * (all - one), same ? "the same" : "NOT the same");
    evener_key_free(key);
    free(plain);
    free(alone);
    free(together);
    return same ? 0 : 1;
}
