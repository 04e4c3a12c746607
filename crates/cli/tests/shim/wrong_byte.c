/* A store that changes one byte of each age file that is written to it, and reports success. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char start[] = "age-encryption.org/v1";

ssize_t write(int file, const void *bytes, size_t length)
{
    ssize_t (*next)(int, const void *, size_t) =
        (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    size_t at = strtoul(getenv("WRONG_BYTE"), NULL, 10);
    if (at >= length || length < sizeof start || memcmp(bytes, start, sizeof start - 1) != 0)
        return next(file, bytes, length);
    char *wrong = malloc(length);
    if (wrong == NULL)
        return -1;
    memcpy(wrong, bytes, length);
    wrong[at] ^= 1;
    ssize_t written = next(file, wrong, length);
    free(wrong);
    return written;
}
