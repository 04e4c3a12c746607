/* What becomes of the process: what loading does to it, its children, and what they may still do
 * once they have given up their rights. */

#include "host.h"

#include <dirent.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <openssl/conf.h>
#include <openssl/provider.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Encrypts so many messages of 100 bytes. */
static void messages(EVP_CIPHER_CTX *context, int number)
{
    unsigned char iv[12] = { 1 }, text[100] = { 2 };
    int count;
    for (; number > 0; number--) {
        iv[11] = (unsigned char)number;
        EXPECT(EVP_EncryptInit_ex(context, NULL, NULL, NULL, iv));
        EXPECT(EVP_EncryptUpdate(context, text, &count, text, sizeof text));
        EXPECT(EVP_EncryptFinal_ex(context, text, &count));
    }
}

static EVP_CIPHER_CTX *new_context(void)
{
    unsigned char key[16] = { 1 };
    EVP_CIPHER *cipher = fetch(128, OURS);
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    EXPECT(EVP_EncryptInit_ex(context, cipher, NULL, key, NULL));
    EVP_CIPHER_free(cipher);
    return context;
}

static int entries(const char *directory)
{
    int count = 0;
    DIR *open = opendir(directory);
    EXPECT(open != NULL);
    while (readdir(open))
        count++;
    closedir(open);
    return count;
}

/* Whether the provider's file is in the process's memory. */
static int is_mapped(void)
{
    char line[4096];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    EXPECT(maps != NULL);
    while (fgets(line, sizeof line, maps))
        found |= strstr(line, "evener.so") != NULL;
    fclose(maps);
    return found;
}

/* The provider starts no thread and keeps no file open, however often it is loaded, and it stays
 * in the process: what the process forks may still call it. */
void test_loading(const char *configuration)
{
    int status, threads = entries("/proc/self/task"), descriptors = entries("/proc/self/fd");
    EXPECT(!is_mapped());
    for (int times = 0; times < 100; times++) {
        OSSL_LIB_CTX *library = OSSL_LIB_CTX_new();
        EXPECT(library != NULL && OSSL_LIB_CTX_load_config(library, configuration));
        EXPECT(OSSL_PROVIDER_available(library, "evener"));
        EVP_CIPHER *cipher = EVP_CIPHER_fetch(library, "AES-128-GCM", OURS);
        EXPECT(cipher != NULL);
        EVP_CIPHER_free(cipher);
        EXPECT(entries("/proc/self/task") == threads);
        EXPECT(entries("/proc/self/fd") == descriptors);
        OSSL_LIB_CTX_free(library);
        EXPECT(is_mapped());
        pid_t process = times % 10 ? 0 : fork();
        if (times % 10 == 0 && process == 0)
            _exit(0);
        EXPECT(process == 0 || (waitpid(process, &status, 0) == process && status == 0));
    }
    printf("loaded 100 times\n");
}

/* Children go on with a message of their parent's in CTR, in the middle of a block, and have random
 * bytes of their own, which OpenSSL makes with Evener's CTR and ECB. */
static void fork_with_counters(void)
{
    enum { CHILDREN = 3, TEXT = 50 };
    unsigned char key[32] = { 1 }, iv[16] = { 2 }, text[TEXT], random[16];
    unsigned char texts[CHILDREN + 1][TEXT], randoms[CHILDREN + 1][16];
    int count, pipes[2], status;
    EVP_CIPHER *cipher = EVP_CIPHER_fetch(NULL, "AES-256-CTR", NULL);
    EXPECT(strcmp(OSSL_PROVIDER_get0_name(EVP_CIPHER_get0_provider(cipher)), "evener") == 0);
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    memset(text, 3, sizeof text);
    EXPECT(EVP_EncryptInit_ex(context, cipher, NULL, key, iv));
    EXPECT(EVP_EncryptUpdate(context, texts[0], &count, text, 5));
    EXPECT(RAND_bytes(random, sizeof random) == 1 && pipe(pipes) == 0);
    for (int child = 0; child <= CHILDREN; child++) {
        pid_t process = child < CHILDREN ? fork() : 0;
        EXPECT(process >= 0);
        if (process == 0) {
            EXPECT(EVP_EncryptUpdate(context, text, &count, text, sizeof text));
            EXPECT(RAND_bytes(random, sizeof random) == 1);
            EXPECT(write(pipes[1], text, sizeof text) == sizeof text);
            EXPECT(write(pipes[1], random, sizeof random) == sizeof random);
            if (child < CHILDREN)
                _exit(0);
        } else
            EXPECT(waitpid(process, &status, 0) == process && status == 0);
        EXPECT(read(pipes[0], texts[child], TEXT) == TEXT);
        EXPECT(read(pipes[0], randoms[child], 16) == 16);
        for (int other = 0; other < child; other++) {
            EXPECT(memcmp(texts[child], texts[other], TEXT) == 0);
            EXPECT(memcmp(randoms[child], randoms[other], 16) != 0);
        }
    }
    close(pipes[0]);
    close(pipes[1]);
    EVP_CIPHER_CTX_free(context);
    EVP_CIPHER_free(cipher);
}

/* Children as a server has them: each has a context of its parent's, in the middle of a message,
 * and counts by itself. */
void test_fork(const char *counters)
{
    unsigned char key[16] = { 1 }, iv[12] = { 0 }, text[50], tag[2][16];
    int count, pipes[2], status;
    EVP_CIPHER_CTX *context = new_context();
    messages(context, 7);
    EXPECT(EVP_EncryptInit_ex(context, NULL, NULL, NULL, iv));
    EXPECT(EVP_EncryptUpdate(context, text, &count, iv, sizeof iv));
    EXPECT(pipe(pipes) == 0);
    for (int child = 1; child <= 4; child++) {
        pid_t process = fork();
        EXPECT(process >= 0);
        /* The last one is a child's child, as daemons are. */
        if (process == 0 && child == 4) {
            process = fork();
            EXPECT(process >= 0);
            if (process > 0) {
                EXPECT(waitpid(process, &status, 0) == process && status == 0);
                _exit(0);
            }
        }
        if (process == 0) {
            EXPECT(EVP_EncryptUpdate(context, text, &count, key, sizeof key));
            EXPECT(EVP_EncryptFinal_ex(context, text, &count));
            EXPECT(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, 16, tag[0]));
            EXPECT(write(pipes[1], tag[0], 16) == 16);
            messages(context, 10 * child);
            struct count own = counted(counters);
            EXPECT(own.sealed_records == (uint64_t)(10 * child + 1));
            EXPECT(own.sealed_bytes == (uint64_t)(1000 * child) + 28);
            _exit(0);
        }
        EXPECT(waitpid(process, &status, 0) == process && status == 0);
        EXPECT(read(pipes[0], tag[0], 16) == 16);
        EXPECT(child == 1 || memcmp(tag[0], tag[1], 16) == 0);
        memcpy(tag[1], tag[0], 16);
    }
    EXPECT(EVP_EncryptUpdate(context, text, &count, key, sizeof key));
    EXPECT(EVP_EncryptFinal_ex(context, text, &count));
    EXPECT(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, 16, tag[0]));
    EXPECT(memcmp(tag[0], tag[1], 16) == 0);
    struct count own = counted(counters);
    EXPECT(own.sealed_records == 8 && own.sealed_bytes == 728);
    EVP_CIPHER_CTX_free(context);
    fork_with_counters();
    printf("4 children\n");
}

/* From here on the process may compute, take memory, ask for its number, write and end, as sshd's
 * children do; another call of the system kills it. */
static void allow_little(void)
{
#ifdef SYS_mmap2 /* 32-bit ARM */
    enum { MMAP = SYS_mmap2 };
#else
    enum { MMAP = SYS_mmap };
#endif
    static const unsigned allowed[] = { SYS_read,   SYS_write,  SYS_getpid, MMAP,
                                        SYS_munmap, SYS_mremap, SYS_brk,    SYS_madvise,
                                        SYS_futex,  SYS_exit_group };
    enum { COUNT = sizeof allowed / sizeof *allowed };
    struct sock_filter filter[COUNT + 3];
    filter[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                             offsetof(struct seccomp_data, nr));
    for (unsigned index = 0; index < COUNT; index++)
        filter[1 + index] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[index],
                                                         (unsigned char)(COUNT - index), 0);
    filter[COUNT + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    filter[COUNT + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = { COUNT + 3, filter };
    EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    EXPECT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

/* A worker that gives up what it may do before its first record: it has an empty root, another
 * user and few calls of the system, and still encrypts and counts. */
void test_confined(const char *counters, const char *root)
{
    int status, is_root = geteuid() == 0;
    EVP_CIPHER_CTX *context = new_context();
    pid_t process = fork();
    EXPECT(process >= 0);
    if (process == 0) {
        if (is_root) {
            EXPECT(chroot(root) == 0 && chdir("/") == 0);
            EXPECT(setgid(65534) == 0 && setuid(65534) == 0);
        }
        allow_little();
        messages(context, 30);
        _exit(0);
    }
    EVP_CIPHER_CTX_free(context);
    EXPECT(waitpid(process, &status, 0) == process && status == 0);
    struct count its = counted_by(counters, process);
    EXPECT(its.sealed_records == 30 && its.sealed_bytes == 3000);
    printf("confined%s\n", is_root ? ", with another root and user" : "");
}
