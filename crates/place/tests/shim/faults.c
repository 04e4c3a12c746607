/*
 * Lets chosen system calls fail, for tests: a library to LD_PRELOAD.
 *
 *   EVENER_FAULT_BELOW=PATH      only calls on files below PATH count
 *   EVENER_FAULT_NAME=TEXT       of those, only calls whose file's path contains TEXT
 *   EVENER_FAULT_CALL=NAME       the call, by its POSIX name: pwrite, openat, linkat, ...
 *   EVENER_FAULT_NTH=N           the Nth such call fails; 0: all of them
 *   EVENER_FAULT_DO=ERRNO|short  with this error, or by doing only a byte of what was asked;
 *                   flip|longer  pwrite writes another first byte, or three bytes more, and succeeds
 *                   wait     it waits for a millisecond, and succeeds
 *   EVENER_FAULT_MARK=PATH       made when a call was made to fail
 *   EVENER_FAULT_COUNT=PATH      gets, at the end of the process, the number of names that files and
 *                                directories were opened by: of `a/b` two
 *   EVENER_FAULT_NO_TMPFILE=1    O_TMPFILE is not supported
 *   EVENER_FAULT_FOLD_BELOW=PATH names below PATH are the same in capital and small letters,
 *                                as on file systems that fold them: all become small
 *   EVENER_FAULT_SWAP=PATH       a directory or link that is made, whose path contains that TEXT, is
 *                                exchanged with this at once
 *   EVENER_FAULT_TAKE=N          the first N temporary files, and as many links of both kinds, are removed
 *                                when they are made, as by a run that looks for what killed ones have left
 *   EVENER_FAULT_NO_LINKS=1      nor are hard links and renaming without replacing
 *
 * On 32-bit systems the calls that have 64 in their names, or take times of 64 bits, are those that
 * count there.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

static int calls;

static int matches(const char *variable, const char *text, int prefix)
{
    const char *wanted = getenv(variable);
    if (wanted == NULL)
        return 1;
    return prefix ? strncmp(text, wanted, strlen(wanted)) == 0 : strstr(text, wanted) != NULL;
}

/* The path of `name` below the directory `fd`, or of `fd` itself. */
static void path_of(int fd, const char *name, char *path, size_t size)
{
    size_t length = 0;
    if (name == NULL || name[0] != '/') {
        char link[64];
        if (fd == AT_FDCWD)
            snprintf(link, sizeof link, "/proc/self/cwd");
        else
            snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        long read = syscall(SYS_readlinkat, AT_FDCWD, link, path, size - 1);
        length = read > 0 ? (size_t)read : 0;
        path[length] = 0;
    }
    if (name != NULL)
        snprintf(path + length, size - length, "%s%s", name[0] == '/' ? "" : "/", name);
}

/* The name that a file system which folds names would take: `name`, or its small letters. */
static const char *folded(int fd, const char *name, char *small, size_t size)
{
    const char *below = getenv("EVENER_FAULT_FOLD_BELOW");
    if (below == NULL || name == NULL || name[0] == '/' || strlen(name) >= size)
        return name;
    char path[8192];
    path_of(fd, NULL, path, sizeof path);
    if (strncmp(path, below, strlen(below)) != 0)
        return name;
    size_t length = 0;
    for (; name[length] != 0; length++)
        small[length] = (char)tolower((unsigned char)name[length]);
    small[length] = 0;
    return small;
}

#define FOLD(fd, path) \
    char small_##path[4096]; \
    path = folded(fd, path, small_##path, sizeof small_##path);

enum verdict { GO_ON, FAIL, SHORT, FLIP, LONGER };

/* Decides about one call, and sets errno when it is to fail. */
static enum verdict judge(const char *call, int fd, const char *name)
{
    const char *wanted = getenv("EVENER_FAULT_CALL");
    if (wanted == NULL || strcmp(wanted, call) != 0)
        return GO_ON;
    char path[8192];
    path_of(fd, name, path, sizeof path);
    if (!matches("EVENER_FAULT_BELOW", path, 1) || !matches("EVENER_FAULT_NAME", path, 0))
        return GO_ON;
    const char *nth = getenv("EVENER_FAULT_NTH");
    int number = __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
    int due = nth == NULL ? 0 : atoi(nth);
    if (due != 0 && number != due)
        return GO_ON;
    const char *mark = getenv("EVENER_FAULT_MARK");
    if (mark != NULL) {
        long made = syscall(SYS_openat, AT_FDCWD, mark, O_CREAT | O_WRONLY, 0600);
        if (made >= 0)
            syscall(SYS_close, made);
    }
    const char *what = getenv("EVENER_FAULT_DO");
    if (what != NULL && strcmp(what, "short") == 0)
        return SHORT;
    if (what != NULL && strcmp(what, "flip") == 0)
        return FLIP;
    if (what != NULL && strcmp(what, "longer") == 0)
        return LONGER;
    if (what != NULL && strcmp(what, "wait") == 0) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        return GO_ON;
    }
    errno = what == NULL ? EIO : atoi(what);
    return FAIL;
}

static int names;

static void count_names(const char *path)
{
    int count = 1;
    for (; *path != 0; path++)
        count += *path == '/';
    __atomic_add_fetch(&names, count, __ATOMIC_SEQ_CST);
}

__attribute__((destructor)) static void tell_count(void)
{
    const char *place = getenv("EVENER_FAULT_COUNT");
    FILE *file = place == NULL ? NULL : fopen(place, "w");
    if (file != NULL) {
        fprintf(file, "%d", names);
        fclose(file);
    }
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* A call that is passed on as it is unless it is to fail. */
#define PASS(type, name, parameters, arguments, fd, path) \
    PASS_AS(#name, type, name, parameters, arguments, fd, path)

/* The same, for a call that has another name than POSIX gives it. */
#define PASS_AS(call, type, name, parameters, arguments, fd, path) \
    type name parameters \
    { \
        return judge(call, fd, path) != GO_ON ? (type)-1 : REAL(name) arguments; \
    }

/* The same, with a name that may be folded. */
#define PASS_NAME(type, name, parameters, arguments, fd, path) \
    type name parameters \
    { \
        FOLD(fd, path) \
        return judge(#name, fd, path) != GO_ON ? (type)-1 : REAL(name) arguments; \
    }

#define TRANSFER(name, call, pointer, ...) \
    ssize_t name(int fd, pointer buffer, size_t count __VA_OPT__(,) __VA_ARGS__)

#define TRANSFER_BODY(name, call, ...) \
    { \
        switch (judge(call, fd, NULL)) { \
        case FAIL: \
            return -1; \
        case SHORT: \
            count = count > 1 ? 1 : count; \
            break; \
        default: \
            break; \
        } \
        return REAL(name)(fd, buffer, count __VA_OPT__(,) __VA_ARGS__); \
    }

TRANSFER(read, "read", void *) TRANSFER_BODY(read, "read")
TRANSFER(write, "write", const void *) TRANSFER_BODY(write, "write")
TRANSFER(pread, "pread", void *, off_t offset) TRANSFER_BODY(pread, "pread", offset)
TRANSFER(pread64, "pread", void *, off64_t offset) TRANSFER_BODY(pread64, "pread", offset)

/* Writes, and lies about it if that is due. */
static ssize_t write_at(int fd, const void *buffer, size_t count, off64_t offset)
{
    switch (judge("pwrite", fd, NULL)) {
    case FAIL:
        return -1;
    case SHORT:
        return REAL(pwrite64)(fd, buffer, count > 1 ? 1 : count, offset);
    case FLIP: {
        ssize_t written = REAL(pwrite64)(fd, buffer, count, offset);
        char other = count == 0 ? 0 : *(const char *)buffer ^ 1;
        REAL(pwrite64)(fd, &other, count > 0, offset);
        return written;
    }
    case LONGER:
        REAL(pwrite64)(fd, "abc", 3, offset + (off64_t)count);
        break;
    case GO_ON:
        break;
    }
    return REAL(pwrite64)(fd, buffer, count, offset);
}

ssize_t pwrite(int fd, const void *buffer, size_t count, off_t offset)
{
    return write_at(fd, buffer, count, offset);
}

ssize_t pwrite64(int fd, const void *buffer, size_t count, off64_t offset)
{
    return write_at(fd, buffer, count, offset);
}

/* Removes what was just made, if it has a temporary name and is due, and counts it. */
static int take(int *taken, int result, int directory, const char *name)
{
    const char *most = getenv("EVENER_FAULT_TAKE");
    if (result >= 0 && most != NULL && strncmp(name, ".evener-", 8) == 0 &&
        __atomic_add_fetch(taken, 1, __ATOMIC_SEQ_CST) <= atoi(most))
        syscall(SYS_unlinkat, directory, name, 0);
    return result;
}

static int open_at(int directory, const char *path, int flags, mode_t mode)
{
    count_names(path);
    if ((flags & O_TMPFILE) == O_TMPFILE && getenv("EVENER_FAULT_NO_TMPFILE") != NULL) {
        errno = EOPNOTSUPP;
        return -1;
    }
    FOLD(directory, path)
    if (judge("openat", directory, path) != GO_ON)
        return -1;
    int file = (int)syscall(SYS_openat, directory, path, flags, mode);
    static int taken;
    return flags & O_EXCL ? take(&taken, file, directory, path) : file;
}

#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & O_CREAT || ((flags) & O_TMPFILE) == O_TMPFILE) { \
        va_list list; \
        va_start(list, flags); \
        mode = va_arg(list, mode_t); \
        va_end(list); \
    }

int openat(int directory, const char *path, int flags, ...)
{
    MODE(flags)
    return open_at(directory, path, flags, mode);
}

int openat64(int directory, const char *path, int flags, ...)
{
    MODE(flags)
    return open_at(directory, path, flags | O_LARGEFILE, mode);
}

/* Those that Rust's own library calls. */
int open64(const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    mode_t mode = va_arg(more, mode_t);
    va_end(more);
    return judge("open", AT_FDCWD, path) != GO_ON ? -1 : REAL(open64)(path, flags, mode);
}

PASS(int, rename, (const char *from, const char *to), (from, to), AT_FDCWD, to)

int linkat(int from_directory, const char *from, int directory, const char *path, int flags)
{
    FOLD(from_directory, from)
    FOLD(directory, path)
    if (getenv("EVENER_FAULT_NO_LINKS") != NULL) {
        errno = EPERM;
        return -1;
    }
    if (judge("linkat", directory, path) != GO_ON)
        return -1;
    static int taken;
    return take(&taken, REAL(linkat)(from_directory, from, directory, path, flags), directory, path);
}

int renameat(int from_directory, const char *from, int directory, const char *path)
{
    FOLD(from_directory, from)
    FOLD(directory, path)
    if (judge("renameat", directory, path) != GO_ON)
        return -1;
    return REAL(renameat)(from_directory, from, directory, path);
}

int renameat2(int from_directory, const char *from, int directory, const char *path,
              unsigned int flags)
{
    FOLD(from_directory, from)
    FOLD(directory, path)
    if (flags != 0 && getenv("EVENER_FAULT_NO_LINKS") != NULL) {
        errno = EINVAL;
        return -1;
    }
    if (judge("renameat2", directory, path) != GO_ON)
        return -1;
    return REAL(renameat2)(from_directory, from, directory, path, flags);
}

PASS_NAME(int, unlinkat, (int directory, const char *path, int flags), (directory, path, flags),
     directory, path)
/* Puts something else in the place of what was made. */
static int swapped(int result, int directory, const char *name)
{
    const char *other = getenv("EVENER_FAULT_SWAP");
    if (result != 0 || other == NULL)
        return result;
    char path[8192];
    path_of(directory, name, path, sizeof path);
    if (matches("EVENER_FAULT_NAME", path, 0))
        syscall(SYS_renameat2, AT_FDCWD, path, AT_FDCWD, other, RENAME_EXCHANGE);
    return result;
}

int mkdirat(int directory, const char *path, mode_t mode)
{
    FOLD(directory, path)
    if (judge("mkdirat", directory, path) != GO_ON)
        return -1;
    return swapped(REAL(mkdirat)(directory, path, mode), directory, path);
}

int symlinkat(const char *text, int directory, const char *path)
{
    FOLD(directory, path)
    if (judge("symlinkat", directory, path) != GO_ON)
        return -1;
    static int taken;
    return take(&taken, swapped(REAL(symlinkat)(text, directory, path), directory, path), directory, path);
}

PASS_NAME(ssize_t, readlinkat, (int directory, const char *path, char *buffer, size_t size),
     (directory, path, buffer, size), directory, path)
PASS(int, fsync, (int fd), (fd), fd, NULL)
PASS(int, fdatasync, (int fd), (fd), fd, NULL)
PASS(int, syncfs, (int fd), (fd), fd, NULL)
PASS(int, futimens, (int fd, const struct timespec times[2]), (fd, times), fd, NULL)
#if __SIZEOF_LONG__ == 4
PASS_AS("futimens", int, __futimens64, (int fd, const void *times), (fd, times), fd, NULL)
#endif
PASS(int, utimensat,
     (int directory, const char *path, const struct timespec times[2], int flags),
     (directory, path, times, flags), directory, path)
#if __SIZEOF_LONG__ == 4
PASS_AS("utimensat", int, __utimensat64,
        (int directory, const char *path, const void *times, int flags),
        (directory, path, times, flags), directory, path)
#endif
PASS(int, flock, (int fd, int operation), (fd, operation), fd, NULL)
PASS(int, fsetxattr, (int fd, const char *name, const void *value, size_t size, int flags),
     (fd, name, value, size, flags), fd, NULL)

/* rustix makes these calls without the functions of the C library, which has none for openat2. */
long syscall(long number, ...)
{
    long given[6];
    va_list list;
    va_start(list, number);
    for (int index = 0; index < 6; index++)
        given[index] = va_arg(list, long);
    va_end(list);
    const char *call = number == SYS_fchmod ? "fchmod" : number == SYS_getdents64 ? "readdir" : NULL;
#ifdef SYS_fchown32
    call = number == SYS_fchown32 ? "fchown" : call;
#else
    call = number == SYS_fchown ? "fchown" : call;
#endif
    if (number == SYS_openat2)
        count_names((const char *)given[1]);
    if (call != NULL && judge(call, (int)given[0], NULL) != GO_ON)
        return -1;
    return REAL(syscall)(number, given[0], given[1], given[2], given[3], given[4], given[5]);
}

int ftruncate(int fd, off_t length)
{
    return judge("ftruncate", fd, NULL) != GO_ON ? -1 : REAL(ftruncate)(fd, length);
}

int ftruncate64(int fd, off64_t length)
{
    return judge("ftruncate", fd, NULL) != GO_ON ? -1 : REAL(ftruncate64)(fd, length);
}

int fstat64(int fd, struct stat64 *status)
{
    return judge("fstat", fd, NULL) != GO_ON ? -1 : REAL(fstat64)(fd, status);
}

int fstatat64(int directory, const char *path, struct stat64 *restrict status, int flags)
{
    FOLD(directory, path)
    if (judge("fstatat", directory, path) != GO_ON)
        return -1;
    return REAL(fstatat64)(directory, path, status, flags);
}

int statx(int directory, const char *path, int flags, unsigned int mask,
          struct statx *restrict status)
{
    FOLD(directory, path)
    /* Where times in `struct stat` are too short, this is what fstat is. */
    if (flags == AT_EMPTY_PATH && path[0] == 0) {
        if (judge("fstat", directory, NULL) != GO_ON)
            return -1;
    } else if (judge("fstatat", directory, path) != GO_ON) {
        return -1;
    }
    return REAL(statx)(directory, path, flags, mask, status);
}

struct dirent64 *readdir64(DIR *directory)
{
    return judge("readdir", dirfd(directory), NULL) != GO_ON ? NULL : REAL(readdir64)(directory);
}
