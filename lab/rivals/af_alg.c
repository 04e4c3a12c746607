/* The system calls that the engine af_alg makes for a message, and nothing else: what the
 * engine is compared with.
 *
 * Usage: af_alg DRIVER BYTES MILLISECONDS
 * Encrypts messages of BYTES bytes, padded as PKCS #7 has it, with a 16-byte key, and prints
 * the wall time and the thread's CPU time of one in microseconds. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/if_alg.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define PART 65536
/* From this length on the input is lent through a pipe. */
#define LENT_FROM 8192

static double now(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static char control[CMSG_SPACE(4) + CMSG_SPACE(4 + 16)];

static unsigned char *prepare_control(struct msghdr *message)
{
    message->msg_control = control;
    message->msg_controllen = sizeof control;
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    header->cmsg_level = SOL_ALG;
    header->cmsg_type = ALG_SET_OP;
    header->cmsg_len = CMSG_LEN(4);
    *(unsigned *)CMSG_DATA(header) = ALG_OP_ENCRYPT;
    header = (struct cmsghdr *)(control + CMSG_SPACE(4));
    header->cmsg_level = SOL_ALG;
    header->cmsg_type = ALG_SET_IV;
    header->cmsg_len = CMSG_LEN(4 + 16);
    struct af_alg_iv *iv = (void *)CMSG_DATA(header);
    iv->ivlen = 16;
    return iv->iv;
}

static int ends[2];

/* Sends the vectors behind a control message, copied or lent. */
static void send_part(int operation, struct msghdr *message, size_t length)
{
    if (length < LENT_FROM) {
        if (sendmsg(operation, message, MSG_DONTWAIT) != (ssize_t)length)
            fail("sendmsg");
        return;
    }
    struct msghdr only_control = *message;
    only_control.msg_iovlen = 0;
    if (sendmsg(operation, &only_control, MSG_DONTWAIT | MSG_MORE) != 0)
        fail("sendmsg");
    if (vmsplice(ends[1], message->msg_iov, message->msg_iovlen, 0) != (ssize_t)length)
        fail("vmsplice");
    for (size_t sent = 0; sent < length;) {
        ssize_t moved = splice(ends[0], NULL, operation, NULL, length - sent, 0);
        if (moved <= 0)
            fail("splice");
        sent += moved;
    }
}

static int run(char **arguments)
{
    size_t bytes = strtoul(arguments[2], NULL, 10);
    double budget = strtod(arguments[3], NULL) * 1e3;

    struct sockaddr_alg address = {.salg_family = AF_ALG, .salg_type = "skcipher"};
    strncpy((char *)address.salg_name, arguments[1], sizeof address.salg_name - 1);
    int transform = socket(AF_ALG, SOCK_SEQPACKET, 0);
    if (transform < 0 || bind(transform, (struct sockaddr *)&address, sizeof address) < 0)
        fail("bind");
    if (setsockopt(transform, SOL_ALG, ALG_SET_KEY, "0123456789abcdef", 16) < 0)
        fail("setsockopt");
    int operation = accept(transform, NULL, 0);
    if (operation < 0)
        fail("accept");
    if (pipe(ends) < 0 || fcntl(ends[1], F_SETPIPE_SZ, 2 * PART) < 0)
        fail("pipe");

    char *input = malloc(bytes), *output = malloc(bytes + 16);
    memset(input, 1, bytes);
    memset(output, 2, bytes + 16);
    /* The whole blocks, and the last one with the padding in it. */
    size_t padded = bytes / 16 * 16 + 16;
    char last[16];
    memset(last, 16 - bytes % 16, 16);
    struct iovec vectors[2];
    struct msghdr out = {.msg_iov = vectors}, in = {.msg_iov = vectors, .msg_iovlen = 1};
    unsigned char *iv = prepare_control(&out);

    double start = 0, cpu_start = 0, looked = 0, wall = 0;
    unsigned long jobs = 0, until_look = 1, calls = 1;
    /* The first job is not counted. */
    for (unsigned long number = 0; looked < budget; number++) {
        if (number == 1) {
            start = now(CLOCK_MONOTONIC);
            cpu_start = now(CLOCK_THREAD_CPUTIME_ID);
        }
        for (size_t done = 0; done < padded; done += PART) {
            size_t part = padded - done < PART ? padded - done : PART;
            size_t message = padded - 16 - done < part ? padded - 16 - done : part;
            vectors[0] = (struct iovec){input + done, message};
            vectors[1] = (struct iovec){last, part - message};
            out.msg_iovlen = part == message ? 1 : 2;
            send_part(operation, &out, part);
            vectors[0] = (struct iovec){output + done, part};
            if (recvmsg(operation, &in, 0) != (ssize_t)part)
                fail("recvmsg");
            memcpy(iv, output + done + part - 16, 16);
        }
        jobs = number;
        if (number == 0 || --until_look > 0)
            continue;
        /* Reading the clock must not be what is measured. */
        wall = now(CLOCK_MONOTONIC) - start;
        if (wall - looked < 4000)
            calls *= 2;
        looked = wall;
        until_look = calls;
    }
    double cpu = now(CLOCK_THREAD_CPUTIME_ID) - cpu_start;
    printf("%.3f %.3f\n", wall / jobs, cpu / jobs);
    return 0;
}

static void *start(void *arguments)
{
    exit(run(arguments));
}

/* The engine works in a thread, and system calls on descriptors cost more in a program that
 * has several. */
int main(int count, char **arguments)
{
    pthread_t thread;
    if (count != 4 || pthread_create(&thread, NULL, start, arguments) != 0)
        return 2;
    pthread_join(thread, NULL);
    return 2;
}
