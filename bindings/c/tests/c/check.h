/* What the tests share: a check that says where it failed, and ends the test. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>

#include <evener.h>

#define CHECK(condition)                                                            \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: not true: %s (last error: %s)\n", __FILE__,     \
                    __LINE__, #condition, evener_last_error());                     \
            exit(1);                                                                \
        }                                                                           \
    } while (0)

/* Checks for a status, and shows the one that came instead. */
#define EXPECT(expected, call)                                                      \
    do {                                                                            \
        int status_ = (call);                                                       \
        if (status_ != (expected)) {                                                \
            fprintf(stderr, "%s:%d: %s: status %d (%s): %s\n", __FILE__, __LINE__,  \
                    #call, status_, evener_status_words(status_),                   \
                    evener_last_error());                                           \
            exit(1);                                                                \
        }                                                                           \
    } while (0)

#define OK(call) EXPECT(EVENER_STATUS_OK, call)

void test_ciphers_and_engines(void);
void test_sessions(void);
void test_parallel(void);
void test_gpu(void);
void test_files(const char *directory);
void test_trees(const char *directory);

/* Joins a name to the test's directory; good until the fourth call after it. */
const char *in(const char *directory, const char *name);
void write_file(const char *path, const char *text);
void check_file(const char *path, const char *text);

#endif
