/* Files, trees and their keys. */
#define _POSIX_C_SOURCE 200809L
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

const char *in(const char *directory, const char *name)
{
    static char paths[4][4096];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    CHECK(file);
    CHECK(fputs(text, file) >= 0);
    CHECK(fclose(file) == 0);
}

void check_file(const char *path, const char *text)
{
    char read[64] = {0};
    FILE *file = fopen(path, "r");
    CHECK(file);
    CHECK(fread(read, 1, sizeof read - 1, file) == strlen(text));
    CHECK(strcmp(read, text) == 0);
    CHECK(fclose(file) == 0);
}

/* A key under the passphrase "open sesame", with so few rounds that it opens at once. */
static const char locked_key[] =
    "-----BEGIN AGE ENCRYPTED FILE-----\n"
    "YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IHNjcnlwdCBVZG81cUxuNHBXQ0hjZnNO\n"
    "UU5QQUpBIDIKRXh0cjhwQnRTcnI5UjFNVHBiNVFBSDhVOVk1UVdSd1VOTVV4RnRO\n"
    "STZiRQotLS0gMWVnaVlYZncvYW9Ic0N0MGhkandNSG12Z0paQS9HcE96aEdVOVNV\n"
    "RGVEcwoeJ3y0/+tXZtMQDZYfqZfgkwsOiEXxlmFO9bvcrtq6YRJRNJV44PzI935g\n"
    "TRMiGNdN/BbRVh4wKXVuOh7ju5QB+XlVD1d6PAwc6aC7T6xqJ/L4FE7G\n"
    "-----END AGE ENCRYPTED FILE-----\n";

/* An SSH key of that passphrase, and a key for it. */
static const char ssh_identity[] =
    "-----BEGIN OPENSSH PRIVATE KEY-----\n"
    "b3BlbnNzaC1rZXktdjEAAAAACmFlczI1Ni1jdHIAAAAGYmNyeXB0AAAAGAAAABBOEc2en+\n"
    "fXrRm7wjYrRHOCAAAAAQAAAAEAAAAzAAAAC3NzaC1lZDI1NTE5AAAAIEv9zKBH7FJsA3kL\n"
    "S7BmKLF0Kgp6yOECxzLgPOlwXO82AAAAkDrdmRRtPyWDpylen7f+RS1nC+g7aceu8ca27l\n"
    "Gmtl/bmjnrBAfzOxy4dEbuwSqqG3DFv17G/msGcrYqB4XVL1q5v2nqgKG4Myg0mLOxLVvg\n"
    "vLyGv69qhokk37CUSaWgzkr2WIUEGzbzudY+PcRjY9dl1GSZ+g/q0u5rlDjkh2/qTYkFmZ\n"
    "v5mCifyqZt5bZ/QA==\n"
    "-----END OPENSSH PRIVATE KEY-----\n";
static const char key_for_ssh[] =
    "-----BEGIN AGE ENCRYPTED FILE-----\n"
    "YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IHNzaC1lZDI1NTE5IGo0NTE0USBIQ05H\n"
    "MG94TlpKMUxMWWFIRlpzTld5RWZ6ZjhyNHk3UFp1V0RiZDNHWm1vCnhwa0grRThm\n"
    "SUZGOVJ3akVleHpJcUN3SjdVcTYvUkh0ZHRNdUpsVUkyZjQKLS0tIDJqMmpha0pJ\n"
    "Rnp5eDFtakZQcW5TVjgxQTV4czhKaTlzMDJxRDBWSFRVM1UKv2aueyGL2dcMfLPs\n"
    "bs8Dl/NXubC5WinIr63A6i1F46RAL0Aa1IVpk9Tz5UROivCedfTDRO+hADJEGd2q\n"
    "Cr9CN/DdgbH1RxrgZuToXIIBifXKPmFsKg==\n"
    "-----END AGE ENCRYPTED FILE-----\n";

static void a_passphrase_opens_keys_and_identities(const char *directory)
{
    evener_file_key *key;
    static const struct {
        const char *key, *identities, *passphrase;
        evener_status status;
    } cases[] = {
        {"locked.age", NULL, "open sesame", EVENER_STATUS_OK},
        {"locked.age", NULL, "open sesame\r", EVENER_STATUS_OK},
        {"locked.age", NULL, "\xEF\xBB\xBF open sesame ", EVENER_STATUS_OK},
        {"locked.age", NULL, "open barley", EVENER_STATUS_KEY_FILE},
        {"locked.age", NULL, NULL, EVENER_STATUS_KEY_FILE},
        {"for-ssh.age", "id", "open sesame", EVENER_STATUS_OK},
        {"for-ssh.age", "id", "open sesame\r", EVENER_STATUS_OK},
        {"for-ssh.age", "id", "open barley", EVENER_STATUS_KEY_FILE},
        {"for-ssh.age", "id", NULL, EVENER_STATUS_KEY_FILE},
        {"for-ssh.age", NULL, "open sesame", EVENER_STATUS_KEY_FILE},
    };
    write_file(in(directory, "locked.age"), locked_key);
    write_file(in(directory, "for-ssh.age"), key_for_ssh);
    write_file(in(directory, "id"), ssh_identity);
    CHECK(chmod(in(directory, "id"), 0600) == 0);
    for (size_t each = 0; each < sizeof cases / sizeof cases[0]; each++) {
        const char *passphrase = cases[each].passphrase, *identities = cases[each].identities;
        EXPECT(cases[each].status,
               evener_file_key_load(in(directory, cases[each].key), (const uint8_t *)passphrase,
                                    passphrase ? strlen(passphrase) : 0,
                                    identities ? in(directory, identities) : NULL, &key));
        evener_file_key_free(key);
    }
}

static void keys_are_made_kept_and_read(const char *directory)
{
    evener_file_key *key;
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT, evener_file_key_generate("rot-13", &key));
    CHECK(key == NULL);
    OK(evener_file_key_generate("tink", &key));
    OK(evener_file_key_save(key, in(directory, "tink.key")));
    EXPECT(EVENER_STATUS_KEY_FILE, evener_file_key_save(key, in(directory, "tink.key")));
    CHECK(strstr(evener_last_error(), "not overwriting"));
    evener_file_key_free(key);
    OK(evener_file_key_load(in(directory, "tink.key"), NULL, 0, NULL, &key));
    evener_file_key_free(key);
    EXPECT(EVENER_STATUS_KEY_FILE,
           evener_file_key_load(in(directory, "absent"), NULL, 0, NULL, &key));
    CHECK(chmod(in(directory, "tink.key"), 0644) == 0);
    EXPECT(EVENER_STATUS_KEY_FILE,
           evener_file_key_load(in(directory, "tink.key"), NULL, 0, NULL, &key));
    CHECK(strstr(evener_last_error(), "chmod 600"));
    EXPECT(EVENER_STATUS_INVALID_KEY,
           evener_file_key_from_bytes((const uint8_t *)"short", 5, &key));
    CHECK(key == NULL);
    evener_file_key_free(NULL);
}

static void age_files_have_no_key(const char *directory)
{
    static const char identity[] =
        "AGE-SECRET-KEY-1AVAUC2SN5XMEYHPEUW5REVFPLFSNGUTU3Z8ELL050JTS9UC03J7SK8M0KD\n";
    static const char recipient[] =
        "age15za80n2vxu7gd2j2lfaydcdeltgm5rmfvz8zxcw94grvedplufrsw50j95";
    evener_file_key *key;
    write_file(in(directory, "age-identity"), identity);
    CHECK(chmod(in(directory, "age-identity"), 0600) == 0);
    OK(evener_file_key_of_age(recipient, NULL, 0, NULL, &key));
    write_file(in(directory, "for-age"), "a letter");
    OK(evener_encrypt_path(key, in(directory, "for-age"), in(directory, "for-age.age"), NULL, NULL));
    evener_options options = {sizeof options};
    options.flags = EVENER_FLAG_ARMOR;
    OK(evener_encrypt_path(key, in(directory, "for-age"), in(directory, "armored"), &options, NULL));
    CHECK(mkdir(in(directory, "age-tree"), 0700) == 0);
    write_file(in(directory, "age-tree/one"), "a letter");
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT,
           evener_encrypt_path(key, in(directory, "age-tree"), in(directory, "age-sealed"), &options,
                               NULL));
    OK(evener_encrypt_path(key, in(directory, "age-tree"), in(directory, "age-sealed"), NULL, NULL));
    options.flags |= EVENER_FLAG_UPDATE;
    EXPECT(EVENER_STATUS_FILE,
           evener_encrypt_path(key, in(directory, "for-age"), in(directory, "armored"), &options,
                               NULL));
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT, evener_file_key_save(key, in(directory, "age.key")));
    evener_file_key_free(key);
    OK(evener_file_key_of_age(NULL, NULL, 0, in(directory, "age-identity"), &key));
    OK(evener_decrypt_path(key, in(directory, "for-age.age"), in(directory, "from-age"), NULL, NULL));
    check_file(in(directory, "from-age"), "a letter");
    OK(evener_verify_path(key, in(directory, "armored"), NULL, NULL));
    OK(evener_decrypt_path(key, in(directory, "armored"), in(directory, "unarmored"), NULL, NULL));
    check_file(in(directory, "unarmored"), "a letter");
    OK(evener_decrypt_path(key, in(directory, "age-sealed/one.age"), in(directory, "from-tree"), NULL,
                           NULL));
    check_file(in(directory, "from-tree"), "a letter");
    evener_file_key_free(key);
    EXPECT(EVENER_STATUS_KEY_FILE, evener_file_key_of_age("age1nobody", NULL, 0, NULL, &key));
}

/* Encrypts a pipe, which ends once this process has closed it, into a directory. */
static void a_pipe_is_read_to_its_end(const char *directory)
{
    int ends[2];
    char source[64];
    evener_file_key *key;
    OK(evener_file_key_generate(NULL, &key));
    CHECK(pipe(ends) == 0 && write(ends[1], "a letter", 8) == 8 && close(ends[1]) == 0);
    snprintf(source, sizeof source, "/dev/fd/%d", ends[0]);
    OK(evener_encrypt_path(key, source, in(directory, "piped"), NULL, NULL));
    CHECK(close(ends[0]) == 0);
    CHECK(pipe(ends) == 0);
    snprintf(source, sizeof source, "/dev/fd/%d", ends[1]);
    OK(evener_decrypt_path(key, in(directory, "piped"), source, NULL, NULL));
    char read_back[9] = {0};
    CHECK(read(ends[0], read_back, 8) == 8 && strcmp(read_back, "a letter") == 0);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
    evener_options options = {sizeof options};
    options.flags = EVENER_FLAG_ARMOR;
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT,
           evener_encrypt_path(key, in(directory, "piped"), in(directory, "not"), &options, NULL));
    evener_file_key_free(key);
}

struct told {
    int times;
    uint64_t done_files;
    int answer;
};

static int tell(const evener_progress *progress, void *user_data)
{
    struct told *told = user_data;
    CHECK(progress->size >= sizeof *progress);
    told->times++;
    told->done_files = progress->done_files;
    return told->answer;
}

/* Stops once files were done. */
static int stop_after_some(const evener_progress *progress, void *user_data)
{
    (void)user_data;
    return progress->done_files >= 1;
}

/* What was stopped midway has done some files, and its report counts them. */
static void stopped_midway(evener_file_key *key, const char *directory)
{
    enum { FILES = 1000 };
    CHECK(mkdir(in(directory, "many"), 0700) == 0);
    char path[4096];
    for (int number = 0; number < FILES; number++) {
        snprintf(path, sizeof path, "%s/many/%d", directory, number);
        write_file(path, "a letter");
    }
    evener_options options = {sizeof options};
    options.workers = 1;
    options.progress_interval = 1;
    options.progress = stop_after_some;
    evener_report *report;
    evener_status status = evener_encrypt_path(key, in(directory, "many"),
                                               in(directory, "stopped"), &options, &report);
    CHECK(status == EVENER_STATUS_CANCELLED);
    evener_summary summary = {sizeof summary};
    OK(evener_report_summary(report, &summary));
    CHECK(summary.interrupted == 1 && summary.success == 0);
    CHECK(summary.files >= 1 && summary.files <= FILES);
    CHECK(strstr(evener_report_json(report), "\"interrupted\":true"));
    evener_report_free(report);
}

static void a_tree_comes_back(const char *directory)
{
    CHECK(mkdir(in(directory, "tree"), 0700) == 0);
    CHECK(mkdir(in(directory, "tree/deeper"), 0700) == 0);
    write_file(in(directory, "tree/one"), "the first");
    write_file(in(directory, "tree/deeper/two"), "the second");
    uint8_t raw[32] = {42};
    evener_file_key *key;
    OK(evener_file_key_from_bytes(raw, sizeof raw, &key));

    struct told told = {0, 0, 0};
    const char *engines[] = {"openssl"};
    evener_options options = {sizeof options};
    options.engines = engines;
    options.engine_count = 1;
    options.workers = 2;
    options.permits = 1;
    options.permit_lease = 60000;
    options.max_cpu = 100;
    options.flags = EVENER_FLAG_BACKGROUND | EVENER_FLAG_MEASURE_TOTAL;
    options.suffix = ".sealed";
    options.context = (const uint8_t *)"photos";
    options.context_length = 6;
    options.progress = tell;
    options.user_data = &told;
    evener_report *report;
    OK(evener_encrypt_path(key, in(directory, "tree"), in(directory, "sealed"), &options,
                           &report));
    CHECK(told.times >= 2 && told.done_files == 2);
    evener_summary summary = {sizeof summary};
    OK(evener_report_summary(report, &summary));
    CHECK(summary.files == 2 && summary.bytes == 19 && summary.success == 1);
    CHECK(summary.failures == 0 && summary.interrupted == 0 && summary.seconds > 0);
    CHECK(strstr(evener_report_json(report), "\"openssl\""));
    evener_report_free(report);

    /* What is no number of its kind. */
    options.max_cpu = 101;
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT,
           evener_verify_path(key, in(directory, "sealed"), &options, NULL));
    options.max_cpu = 0;
    options.gate = EVENER_GATE_NONE + 1;
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT,
           evener_verify_path(key, in(directory, "sealed"), &options, NULL));
    options.gate = EVENER_GATE_NONE;
    options.permits = 1 << 30;
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT,
           evener_verify_path(key, in(directory, "sealed"), &options, NULL));
    options.permits = 0;

    /* A program that was compiled before there were permits. */
    options.size = offsetof(evener_options, permits);
    OK(evener_verify_path(key, in(directory, "sealed"), &options, NULL));
    options.size = sizeof options;

    /* Nothing that is no part of a name, so that no output goes elsewhere. */
    const char *no_suffixes[] = {"", "/", "/../../elsewhere", "a/b"};
    for (int index = 0; index < 4; index++) {
        options.suffix = no_suffixes[index];
        EXPECT(EVENER_STATUS_INVALID_ARGUMENT,
               evener_encrypt_path(key, in(directory, "tree"), in(directory, "elsewhere"),
                                   &options, NULL));
        CHECK(strstr(evener_last_error(), "suffix"));
    }
    CHECK(access(in(directory, "elsewhere"), F_OK) != 0);
    options.suffix = ".sealed";

    OK(evener_verify_path(key, in(directory, "sealed"), &options, NULL));
    OK(evener_decrypt_path(key, in(directory, "sealed"), in(directory, "back"), &options, NULL));
    check_file(in(directory, "back/one"), "the first");
    check_file(in(directory, "back/deeper/two"), "the second");

    /* The same outputs again: each is there already. */
    EXPECT(EVENER_STATUS_INCOMPLETE,
           evener_decrypt_path(key, in(directory, "sealed"), in(directory, "back"), &options,
                               &report));
    OK(evener_report_summary(report, &summary));
    CHECK(summary.failures == 2 && summary.success == 0);
    evener_failure failure = {sizeof failure};
    OK(evener_report_failure(report, 0, &failure));
    CHECK(strstr(failure.path, "sealed/") && strstr(failure.cause, "exists"));
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT, evener_report_failure(report, 2, &failure));
    evener_report_free(report);

    options.flags = EVENER_FLAG_UPDATE;
    OK(evener_decrypt_path(key, in(directory, "sealed"), in(directory, "back"), &options, NULL));

    const uint32_t contradictory[] = {EVENER_FLAG_RESUME | EVENER_FLAG_UPDATE,
                                      EVENER_FLAG_IGNORE_CTIME};
    for (size_t i = 0; i < sizeof contradictory / sizeof *contradictory; i++) {
        options.flags = contradictory[i];
        EXPECT(EVENER_STATUS_FILE,
               evener_decrypt_path(key, in(directory, "sealed"), in(directory, "back"), &options,
                                   NULL));
        CHECK(strstr(evener_last_error(), "update"));
    }
    options.flags = EVENER_FLAG_UPDATE;

    /* Another context is another key. */
    options.context_length = 5;
    EXPECT(EVENER_STATUS_INCOMPLETE,
           evener_verify_path(key, in(directory, "sealed"), &options, NULL));

    told.answer = 1;
    told.times = 0;
    EXPECT(EVENER_STATUS_CANCELLED,
           evener_encrypt_path(key, in(directory, "tree"), in(directory, "cancelled"), &options,
                               &report));
    CHECK(told.times == 1 && report != NULL);
    evener_report_free(report);

    options.flags = 1u << 31;
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT,
           evener_verify_path(key, in(directory, "sealed"), &options, &report));
    CHECK(report == NULL);
    options.flags = 0;
    /* What could not begin has a report too. */
    EXPECT(EVENER_STATUS_FILE, evener_verify_path(key, in(directory, "absent"), NULL, &report));
    OK(evener_report_summary(report, &summary));
    CHECK(summary.files == 0 && summary.failures == 1 && summary.success == 0);
    OK(evener_report_failure(report, 0, &failure));
    CHECK(strstr(failure.path, "absent"));
    evener_report_free(report);
    stopped_midway(key, directory);
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT, evener_verify_path(NULL, directory, NULL, NULL));
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT, evener_encrypt_path(key, directory, NULL, NULL, NULL));
    evener_file_key_free(key);
    evener_report_free(NULL);
    CHECK(evener_report_json(NULL) == NULL);
}

static void a_buffer_comes_back(void)
{
    enum { LENGTH = 100000 };
    static uint8_t plain[LENGTH], sealed[LENGTH + 1000], opened[LENGTH + 1000];
    evener_file_key *key;
    OK(evener_file_key_generate(NULL, &key));
    evener_pool *pool;
    OK(evener_pool_new(2, &pool));
    size_t length, written;
    OK(evener_sealed_length(key, LENGTH, &length));
    CHECK(length > LENGTH && length <= sizeof sealed);
    OK(evener_seal(key, pool, NULL, 0, plain, LENGTH, sealed, sizeof sealed, &written));
    CHECK(written == length);
    OK(evener_unseal(key, pool, NULL, 0, sealed, length, opened, sizeof opened, &written));
    CHECK(written == LENGTH && memcmp(plain, opened, LENGTH) == 0);

    EXPECT(EVENER_STATUS_MALFORMED_JOB,
           evener_seal(key, pool, NULL, 0, plain, LENGTH, sealed, length - 1, &written));
    sealed[length / 2] ^= 1;
    opened[0] = 7;
    EXPECT(EVENER_STATUS_AUTHENTICATION_FAILED,
           evener_unseal(key, pool, NULL, 0, sealed, length, opened, sizeof opened, &written));
    CHECK(written == 0 && opened[0] == 0);
    EXPECT(EVENER_STATUS_MALFORMED_JOB,
           evener_unseal(key, pool, NULL, 0, sealed, 10, opened, sizeof opened, NULL));
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT,
           evener_seal(key, NULL, NULL, 0, plain, LENGTH, sealed, sizeof sealed, NULL));
    evener_pool_free(pool);
    evener_file_key_free(key);
}

void test_files(const char *directory)
{
    keys_are_made_kept_and_read(directory);
    age_files_have_no_key(directory);
    a_pipe_is_read_to_its_end(directory);
    a_passphrase_opens_keys_and_identities(directory);
    a_tree_comes_back(directory);
    a_buffer_comes_back();
}
