/*
 * C's worker of bindings/measure: see cost.rs.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <evener.h>

enum { PAGE = 4096, BATCH = 16 };

static const uint8_t ZEROS[16];

static size_t length;
static uint8_t *input, *output, *outputs;
static evener_session *session;
static evener_parallel *parallel;

static evener_status do_session(void)
{
    evener_job job = {sizeof job, .input = input, .input_length = length, .output = output,
                      .output_capacity = length + 16, .iv = ZEROS, .iv_length = 16};
    return evener_session_process(session, &job, 1);
}

static evener_status do_batch(void)
{
    size_t part = length / BATCH;
    evener_job jobs[BATCH];
    for (size_t index = 0; index < BATCH; index++)
        jobs[index] = (evener_job){sizeof *jobs, .input = input + index * part,
                                   .input_length = part,
                                   .output = outputs + index * (part + 16),
                                   .output_capacity = part + 16, .iv = ZEROS, .iv_length = 12};
    return evener_session_process(session, jobs, BATCH);
}

static evener_status do_parallel(void)
{
    return evener_parallel_crypt(parallel, EVENER_DIRECTION_ENCRYPT, ZEROS, 16, input, length, output,
                                 length + 16, NULL);
}

static void need(int is_well)
{
    if (!is_well) {
        fprintf(stderr, "cost: %s\n", evener_last_error());
        exit(1);
    }
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e9 * (double)time.tv_sec + (double)time.tv_nsec;
}

int main(int count, char **arguments)
{
    if (count != 3)
        return 2;
    length = strtoul(arguments[2], NULL, 10);
    uint8_t *buffer = calloc(2 * length + 3 * PAGE, 1);
    outputs = calloc(length + 16 * BATCH, 1);
    need(buffer && outputs);
    /* Pages that nobody has written to would all be the one page of zeros. */
    memset(buffer, 1, 2 * length + 3 * PAGE);
    memset(outputs, 1, length + 16 * BATCH);
    input = buffer + (PAGE - (uintptr_t)buffer % PAGE) % PAGE;
    output = input + length + PAGE;
    evener_key *key;
    need(!evener_key_from_bytes(ZEROS, 16, &key));
    evener_status (*work)(void) = NULL;
    if (!strcmp(arguments[1], "session")) {
        need(!evener_session_open(NULL, "aes-128-ctr", EVENER_DIRECTION_ENCRYPT, key, &session));
        work = do_session;
    } else if (!strcmp(arguments[1], "batch")) {
        need(!evener_session_open(NULL, "aes-128-gcm", EVENER_DIRECTION_ENCRYPT, key, &session));
        work = do_batch;
    } else {
        need(!evener_parallel_open(NULL, NULL, "aes-128-ctr", key, 0, &parallel));
        work = do_parallel;
    }
    unsigned times;
    while (scanf("%u", &times) == 1) {
        double started = now();
        for (unsigned time = 0; time < times; time++)
            need(!work());
        printf("%.0f\n", now() - started);
        fflush(stdout);
    }
    evener_session_free(session);
    evener_parallel_free(parallel);
    evener_key_free(key);
    free(buffer);
    free(outputs);
    return 0;
}
