/* Keys, sessions and single messages. */
#include <string.h>

#include "check.h"

/* NIST SP 800-38A, F.5.1: CTR-AES128.Encrypt, the first two blocks. */
static const uint8_t KEY[16] = {0x2b, 0x7e, 0x15, 0x16, 0x28, 0xae, 0xd2, 0xa6,
                                0xab, 0xf7, 0x15, 0x88, 0x09, 0xcf, 0x4f, 0x3c};
static const uint8_t COUNTER[16] = {0xf0, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7,
                                    0xf8, 0xf9, 0xfa, 0xfb, 0xfc, 0xfd, 0xfe, 0xff};
static const uint8_t PLAIN[32] = {0x6b, 0xc1, 0xbe, 0xe2, 0x2e, 0x40, 0x9f, 0x96,
                                  0xe9, 0x3d, 0x7e, 0x11, 0x73, 0x93, 0x17, 0x2a,
                                  0xae, 0x2d, 0x8a, 0x57, 0x1e, 0x03, 0xac, 0x9c,
                                  0x9e, 0xb7, 0x6f, 0xac, 0x45, 0xaf, 0x8e, 0x51};
static const uint8_t SEALED[32] = {0x87, 0x4d, 0x61, 0x91, 0xb6, 0x20, 0xe3, 0x26,
                                   0x1b, 0xef, 0x68, 0x64, 0x99, 0x0d, 0xb6, 0xce,
                                   0x98, 0x06, 0xf6, 0x6b, 0x79, 0x70, 0xfd, 0xff,
                                   0x86, 0x17, 0x18, 0x7b, 0xb9, 0xff, 0xfd, 0xff};

static evener_key *key_of(const uint8_t *bytes, size_t length)
{
    evener_key *key;
    OK(evener_key_from_bytes(bytes, length, &key));
    return key;
}

static evener_job job_of(const void *input, size_t input_length, void *output, size_t capacity,
                         const uint8_t *iv, size_t iv_length)
{
    evener_job job = {sizeof job};
    job.input = input;
    job.input_length = input_length;
    job.output = output;
    job.output_capacity = capacity;
    job.iv = iv;
    job.iv_length = iv_length;
    return job;
}

static void a_message_needs_no_session(void)
{
    evener_key *key = key_of(KEY, sizeof KEY);
    uint8_t output[32];
    evener_job job = job_of(PLAIN, 32, output, 32, COUNTER, 16);
    OK(evener_crypt("aes-128-ctr", EVENER_DIRECTION_ENCRYPT, key, &job));
    CHECK(job.status == EVENER_STATUS_OK && job.written == 32);
    CHECK(memcmp(output, SEALED, 32) == 0);

    memset(output, 0, sizeof output);
    job.key = key;
    OK(evener_crypt("aes-128-ctr", EVENER_DIRECTION_ENCRYPT, NULL, &job));
    CHECK(memcmp(output, SEALED, 32) == 0);
    evener_key_free(key);
}

static void a_session_does_many_messages(void)
{
    enum { COUNT = 100 };
    evener_key *key = key_of(KEY, sizeof KEY);
    evener_session *session;
    OK(evener_session_open(NULL, "aes-128-ctr", EVENER_DIRECTION_ENCRYPT, key, &session));
    /* A session has its own copy of the key. */
    evener_key_free(key);
    uint8_t outputs[COUNT][32];
    evener_job jobs[COUNT];
    for (int index = 0; index < COUNT; index++)
        jobs[index] = job_of(PLAIN, 32, outputs[index], 32, COUNTER, 16);
    OK(evener_session_process(session, jobs, COUNT));
    for (int index = 0; index < COUNT; index++) {
        CHECK(jobs[index].status == EVENER_STATUS_OK && jobs[index].written == 32);
        CHECK(memcmp(outputs[index], SEALED, 32) == 0);
    }
    OK(evener_session_process(session, NULL, 0));

    uint8_t output[32];
    size_t written = 0;
    OK(evener_session_crypt(session, EVENER_PADDING_NONE, COUNTER, 16, NULL, 0, PLAIN, 32, output,
                            32, &written));
    CHECK(written == 32 && memcmp(output, SEALED, 32) == 0);
    OK(evener_session_crypt(session, EVENER_PADDING_NONE, COUNTER, 16, NULL, 0, PLAIN, 5, output,
                            32, NULL));
    evener_session_free(session);
    evener_session_free(NULL);
}

/* Rows of a table, whose first and last column are encrypted: with gaps, and all as jobs are. */
static void records_are_what_jobs_are(void)
{
    enum { COUNT = 50, LENGTH = 20, INPUT = 24, OUTPUT = 40 };
    evener_key *key = key_of(KEY, sizeof KEY);
    uint8_t input[COUNT * INPUT], output[COUNT * OUTPUT], nonces[COUNT * 12];
    for (size_t index = 0; index < sizeof input; index++)
        input[index] = (uint8_t)(index * 7);
    for (size_t index = 0; index < sizeof nonces; index++)
        nonces[index] = (uint8_t)(index / 12 + index % 12);
    memset(output, 0xA5, sizeof output);
    evener_session *sealing, *opening;
    OK(evener_session_open(NULL, "aes-128-gcm", EVENER_DIRECTION_ENCRYPT, key, &sealing));
    OK(evener_session_open(NULL, "aes-128-gcm", EVENER_DIRECTION_DECRYPT, key, &opening));
    evener_key_free(key);

    evener_records records = {sizeof records};
    records.count = COUNT;
    records.length = LENGTH;
    records.input = input;
    records.input_length = sizeof input;
    records.input_stride = INPUT;
    records.output = output;
    records.output_capacity = sizeof output;
    records.output_stride = OUTPUT;
    records.ivs = nonces;
    records.ivs_length = sizeof nonces;
    OK(evener_session_process_records(sealing, &records));
    CHECK(records.status == EVENER_STATUS_OK && records.done == COUNT && records.rejected == 0);
    for (int index = 0; index < COUNT; index++) {
        uint8_t sealed[LENGTH + 16];
        evener_job job = job_of(input + index * INPUT, LENGTH, sealed, sizeof sealed,
                                nonces + index * 12, 12);
        OK(evener_session_process(sealing, &job, 1));
        CHECK(memcmp(output + index * OUTPUT, sealed, sizeof sealed) == 0);
        CHECK(output[index * OUTPUT + LENGTH + 16] == 0xA5);
    }

    /* Two are forged; 0 for a distance means none between them. */
    uint8_t back[COUNT * LENGTH];
    output[7 * OUTPUT] ^= 1;
    output[9 * OUTPUT + LENGTH] ^= 1;
    records.input = output;
    records.input_length = sizeof output;
    records.input_stride = OUTPUT;
    records.output = back;
    records.output_capacity = sizeof back;
    records.output_stride = 0;
    EXPECT(EVENER_STATUS_AUTHENTICATION_FAILED, evener_session_process_records(opening, &records));
    CHECK(records.done == COUNT && records.rejected == 2 && records.first_rejected == 7);
    for (int index = 0; index < COUNT; index++) {
        int same = memcmp(back + index * LENGTH, input + index * INPUT, LENGTH) == 0;
        CHECK(same == (index != 7 && index != 9));
    }

    records.output_capacity--;
    EXPECT(EVENER_STATUS_MALFORMED_JOB, evener_session_process_records(opening, &records));
    records.output_capacity++;
    records.padding = EVENER_PADDING_PKCS7;
    EXPECT(EVENER_STATUS_MALFORMED_JOB, evener_session_process_records(opening, &records));
    records.padding = 9;
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT, evener_session_process_records(opening, &records));
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT, evener_session_process_records(opening, NULL));
    evener_session_free(sealing);
    evener_session_free(opening);
}

/* One message of three is forged: the others are done, and nothing is left of that one. */
static void a_forged_message_is_rejected_alone(void)
{
    evener_key *key;
    OK(evener_key_generate("aes-256-gcm", &key));
    uint8_t sealed[3][21], opened[3][5] = {{0}};
    static const uint8_t nonces[3][12] = {{1}, {2}, {3}};
    evener_job jobs[3];
    for (int index = 0; index < 3; index++) {
        jobs[index] = job_of("hello", 5, sealed[index], 21, nonces[index], 12);
        jobs[index].aad = (const uint8_t *)"header";
        jobs[index].aad_length = 6;
    }
    evener_session *session;
    OK(evener_session_open(NULL, "aes-256-gcm", EVENER_DIRECTION_ENCRYPT, key, &session));
    OK(evener_session_process(session, jobs, 3));
    CHECK(jobs[2].written == 21);
    evener_session_free(session);

    sealed[1][0] ^= 1;
    for (int index = 0; index < 3; index++) {
        jobs[index].input = sealed[index];
        jobs[index].input_length = 21;
        jobs[index].output = opened[index];
        jobs[index].output_capacity = 5;
    }
    OK(evener_session_open(NULL, "aes-256-gcm", EVENER_DIRECTION_DECRYPT, key, &session));
    EXPECT(EVENER_STATUS_AUTHENTICATION_FAILED, evener_session_process(session, jobs, 3));
    CHECK(strstr(evener_last_error(), "job 1: authentication failed"));
    CHECK(jobs[1].status == EVENER_STATUS_AUTHENTICATION_FAILED && jobs[1].written == 0);
    for (int index = 0; index < 3; index += 2) {
        CHECK(jobs[index].status == EVENER_STATUS_OK && jobs[index].written == 5);
        CHECK(memcmp(opened[index], "hello", 5) == 0);
    }
    for (int index = 0; index < 5; index++)
        CHECK(opened[1][index] == 0);
    evener_session_free(session);
    evener_key_free(key);
}

static void padding_goes_on_and_comes_off(void)
{
    evener_key *key;
    OK(evener_key_generate("aes-192-cbc", &key));
    static const uint8_t iv[16] = {9};
    uint8_t sealed[16], opened[16];
    evener_job job = job_of("hello", 5, sealed, 16, iv, 16);
    job.padding = EVENER_PADDING_PKCS7;
    OK(evener_crypt("aes-192-cbc", EVENER_DIRECTION_ENCRYPT, key, &job));
    CHECK(job.written == 16);
    job = job_of(sealed, 16, opened, 16, iv, 16);
    job.padding = EVENER_PADDING_PKCS7;
    OK(evener_crypt("aes-192-cbc", EVENER_DIRECTION_DECRYPT, key, &job));
    CHECK(job.written == 5 && memcmp(opened, "hello", 5) == 0);
    sealed[3] ^= 1;
    int status = evener_crypt("aes-192-cbc", EVENER_DIRECTION_DECRYPT, key, &job);
    /* One time in 256 a changed block ends like a padded one. */
    CHECK(status == EVENER_STATUS_BAD_PADDING || status == EVENER_STATUS_OK);
    evener_key_free(key);
}

static void wrong_arguments_do_no_harm(void)
{
    evener_key *key = key_of(KEY, sizeof KEY), *none;
    EXPECT(EVENER_STATUS_INVALID_KEY, evener_key_from_bytes(KEY, 0, &none));
    EXPECT(EVENER_STATUS_INVALID_KEY, evener_key_from_bytes(SEALED, 65, &none));
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT, evener_key_from_bytes(NULL, 16, &none));
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT, evener_key_from_bytes(KEY, 16, NULL));
    EXPECT(EVENER_STATUS_UNKNOWN_CIPHER, evener_key_generate("rot-13", &none));
    CHECK(none == NULL);
    evener_key_free(NULL);

    evener_session *session;
    EXPECT(EVENER_STATUS_INVALID_KEY,
           evener_session_open(NULL, "aes-256-ctr", EVENER_DIRECTION_ENCRYPT, key, &session));
    CHECK(session == NULL && strstr(evener_last_error(), "32 bytes"));
    OK(evener_session_open(NULL, "aes-128-ctr", EVENER_DIRECTION_ENCRYPT, key, &session));

    uint8_t buffer[64];
    memcpy(buffer, PLAIN, 32);
    evener_job job = job_of(buffer, 32, buffer + 16, 32, COUNTER, 16);
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT, evener_session_process(session, &job, 1));
    CHECK(strstr(evener_last_error(), "overlap") && memcmp(buffer, PLAIN, 32) == 0);
    job = job_of(buffer, 32, buffer + 32, 31, COUNTER, 16);
    EXPECT(EVENER_STATUS_MALFORMED_JOB, evener_session_process(session, &job, 1));
    CHECK(job.status == EVENER_STATUS_MALFORMED_JOB);
    job = job_of(buffer, 32, buffer + 32, 32, COUNTER, 15);
    EXPECT(EVENER_STATUS_MALFORMED_JOB, evener_session_process(session, &job, 1));
    job = job_of(NULL, 32, buffer + 32, 32, COUNTER, 16);
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT, evener_session_process(session, &job, 1));
    job = job_of(buffer, SIZE_MAX, buffer + 32, 32, COUNTER, 16);
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT, evener_session_process(session, &job, 1));
    job = job_of(buffer, 32, buffer + 32, 32, PLAIN, 32);
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT, evener_session_process(session, &job, 1));
    job = job_of(buffer, 32, buffer + 32, 32, COUNTER, 16);
    job.padding = 7;
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT, evener_session_process(session, &job, 1));
    job.padding = EVENER_PADDING_PKCS7;
    EXPECT(EVENER_STATUS_MALFORMED_JOB, evener_session_process(session, &job, 1));
    job.padding = 0;
    job.size = sizeof job - 8;
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT, evener_session_process(session, &job, 1));
    job.size = sizeof job;
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT, evener_session_process(session, &job, SIZE_MAX));
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT, evener_session_process(NULL, &job, 1));
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT, evener_session_process(session, NULL, 1));
    OK(evener_session_process(session, &job, 1));
    CHECK(memcmp(buffer + 32, SEALED, 32) == 0);
    evener_session_free(session);

    OK(evener_session_open(NULL, "aes-128-ctr", EVENER_DIRECTION_ENCRYPT, NULL, &session));
    EXPECT(EVENER_STATUS_INVALID_KEY, evener_session_process(session, &job, 1));
    CHECK(job.status == EVENER_STATUS_PENDING);
    evener_session_free(session);
    evener_key_free(key);
}

void test_sessions(void)
{
    a_message_needs_no_session();
    a_session_does_many_messages();
    records_are_what_jobs_are();
    a_forged_message_is_rejected_alone();
    padding_goes_on_and_comes_off();
    wrong_arguments_do_no_harm();
}
