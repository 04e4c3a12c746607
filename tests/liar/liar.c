/* Has an engine that may lie do some work through the C library, and says what came of it.
 *
 *   liar ENGINE session|batch|parallel|in-place
 *
 * Prints how many results are wrong that came with EVENER_STATUS_OK, and whether the caller was
 * told that the engine is not to be trusted: by a status, or by the engine's account. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <evener.h>

enum { MESSAGES = 40, MOST = 3000, LONG = 1 << 20 };

static int told;

static void must(int status)
{
    if (status != EVENER_STATUS_OK) {
        fprintf(stderr, "liar: %s\n", evener_last_error());
        exit(2);
    }
}

/* Whether it was done. Otherwise somebody was told. */
static int may(int status)
{
    told |= status != EVENER_STATUS_OK;
    return status == EVENER_STATUS_OK;
}

static evener_session *session_of(evener_engine *engine, uint32_t direction, evener_key *key)
{
    evener_session *session;
    if (!may(evener_session_open(engine, "aes-128-cbc", direction, key, &session)))
        return NULL;
    return session;
}

static int crypt(evener_session *session, const uint8_t *in, size_t length, uint8_t *out)
{
    static const uint8_t iv[16] = {1};
    return evener_session_crypt(session, EVENER_PADDING_NONE, iv, 16, NULL, 0, in, length, out,
                                length, NULL);
}

/* One message after the other, or all in one call. */
static int sessions(evener_engine *engine, evener_key *key, int together)
{
    static uint8_t in[MESSAGES][MOST], out[MESSAGES][MOST], right[MOST];
    static const uint8_t iv[16] = {1};
    evener_job jobs[MESSAGES];
    int done[MESSAGES] = {0}, wrong = 0;
    for (uint32_t direction = EVENER_DIRECTION_ENCRYPT; direction <= EVENER_DIRECTION_DECRYPT; direction++) {
        evener_session *session = session_of(engine, direction, key);
        evener_session *sound = session_of(NULL, direction, key);
        if (!session)
            continue;
        for (int index = 0; index < MESSAGES; index++) {
            size_t length = 16 * (1 + index * 37 % (MOST / 16));
            memset(in[index], index + 1, length);
            jobs[index] = (evener_job){sizeof(evener_job), .input = in[index],
                                       .input_length = length, .output = out[index],
                                       .output_capacity = length, .iv = iv, .iv_length = 16};
            if (!together)
                done[index] = may(crypt(session, in[index], length, out[index]));
        }
        if (together) {
            int all = may(evener_session_process(session, jobs, MESSAGES));
            for (int index = 0; index < MESSAGES; index++)
                done[index] = all;
        }
        may(evener_session_finish(session));
        for (int index = 0; index < MESSAGES; index++) {
            size_t length = jobs[index].input_length;
            must(crypt(sound, in[index], length, right));
            wrong += done[index] && memcmp(out[index], right, length);
        }
        evener_session_free(session);
        evener_session_free(sound);
    }
    return wrong;
}

static int buffers(const char *engine, evener_key *key, int in_place)
{
    static const uint8_t iv[16] = {1};
    uint8_t *in = malloc(LONG), *out = malloc(LONG), *right = malloc(LONG);
    int wrong = 0;
    evener_pool *pool;
    evener_parallel *parallel;
    must(evener_pool_new(2, &pool));
    if (!may(evener_parallel_open(pool, engine, "aes-128-cbc", key, EVENER_PADDING_NONE, &parallel)))
        return 0;
    for (uint32_t direction = EVENER_DIRECTION_ENCRYPT; direction <= EVENER_DIRECTION_DECRYPT; direction++) {
        evener_session *sound = session_of(NULL, direction, key);
        for (int index = 0; index < 3; index++) {
            /* Of no part is the result right in the place of another. */
            for (size_t at = 0; at < LONG; at++)
                in[at] = (uint8_t)((at * 2654435761u >> 13) + (size_t)index);
            must(crypt(sound, in, LONG, right));
            memcpy(out, in, LONG);
            int done = in_place
                           ? may(evener_parallel_crypt_in_place(parallel, direction, iv, 16, out,
                                                                LONG))
                           : may(evener_parallel_crypt(parallel, direction, iv, 16, in, LONG, out,
                                                       LONG, NULL));
            wrong += done && memcmp(out, right, LONG);
        }
        evener_session_free(sound);
    }
    evener_parallel_free(parallel);
    evener_pool_free(pool);
    free(in);
    free(out);
    free(right);
    return wrong;
}

int main(int count, char **arguments)
{
    if (count != 3)
        return 2;
    const char *name = arguments[1], *what = arguments[2];
    evener_engine *engine = NULL;
    evener_key *key;
    int wrong = 0;
    must(evener_key_from_bytes((const uint8_t *)"sixteen bytes of", 16, &key));
    if (!strcmp(what, "session") || !strcmp(what, "batch")) {
        if (may(evener_engine_open(name, &engine))) {
            wrong = sessions(engine, key, !strcmp(what, "batch"));
            evener_account account = {sizeof account};
            must(evener_engine_account(engine, &account));
            told |= account.fault != NULL;
        }
        evener_engine_free(engine);
    } else {
        wrong = buffers(name, key, !strcmp(what, "in-place"));
    }
    evener_key_free(key);
    printf("wrong %d told %d\n", wrong, told);
    return 0;
}
