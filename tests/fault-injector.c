/* Runs a program and has one of its system calls go wrong, once.
 *
 *     inject count COUNTS PROGRAM [ARGUMENT…]
 *     inject CALL NTH ACTION PROGRAM [ARGUMENT…]
 *
 * `count` writes how often each call was made, a line `NUMBER TIMES` each, into the file COUNTS.
 * Otherwise the NTHth call number CALL of all threads together goes wrong: ACTION is
 *
 *     error=ERRNO    it is not made and gives this error
 *     short          what it reads or writes is a part of what was asked for
 *     signal=SIGNAL  the program gets a signal right before it
 *
 * strace can do the like (`-e inject=`), but counts the calls of each thread apart, so that more
 * than one goes wrong or one in the dynamic loader instead; and its `retval=` claims bytes that
 * were never written. Calls count from the program's first own one, where it asks for a limit
 * other than the stack's: what comes before is the loader's and the runtime's.
 *
 * The exit status is the program's, or 128 and the number of the signal that ended it. The last
 * line on standard error is `inject: done` if the call was made. */

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CALLS = 1024, THREADS = 4096 };

static unsigned long counts[CALLS];
static struct { pid_t thread; long result; } failing[THREADS];

static void fail(const char *what) {
    fprintf(stderr, "inject: %s: %s\n", what, strerror(errno));
    exit(125);
}

static void set_register(pid_t thread, size_t offset, long value) {
    if (ptrace(PTRACE_POKEUSER, thread, offset, value) < 0) fail("can't change a register");
}

/* Whether the program begins with this call. */
static int is_first(const struct __ptrace_syscall_info *call) {
    return call->entry.nr == SYS_prlimit64 && call->entry.args[1] != RLIMIT_STACK;
}

/* The argument that says how many bytes; both of reading and of writing. */
static void shorten(pid_t thread, const struct __ptrace_syscall_info *call) {
    unsigned long length = call->entry.args[2];
    if (length > 1) set_register(thread, offsetof(struct user_regs_struct, rdx), length / 3 + 1);
}

int main(int count, char **arguments) {
    int counting = count > 3 && strcmp(arguments[1], "count") == 0;
    if (count < (counting ? 4 : 5)) {
        fputs("inject: see the beginning of its source\n", stderr);
        return 125;
    }
    long number = counting ? -1 : atol(arguments[1]);
    unsigned long nth = counting ? 0 : strtoul(arguments[2], NULL, 10);
    const char *action = counting ? "" : arguments[3];
    char **program = arguments + (counting ? 3 : 4);

    pid_t child = fork();
    if (child < 0) fail("can't fork");
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP);
        execvp(program[0], program);
        fail(program[0]);
    }
    int status;
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) fail("can't start");
    long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL;
    if (ptrace(PTRACE_SETOPTIONS, child, NULL, options) < 0) fail("can't trace");
    ptrace(PTRACE_SYSCALL, child, NULL, NULL);

    int begun = 0, done = 0, result = 125;
    for (;;) {
        pid_t thread = waitpid(-1, &status, __WALL);
        if (thread < 0) {
            if (errno == EINTR) continue;
            break;
        }
        if (WIFEXITED(status) || WIFSIGNALED(status)) {
            if (thread == child)
                result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
            continue;
        }
        int stop = WSTOPSIG(status), deliver = 0;
        if (stop == (SIGTRAP | 0x80)) {
            struct __ptrace_syscall_info call;
            memset(&call, 0, sizeof call);
            ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof call, &call);
            int slot = thread % THREADS;
            if (call.op == PTRACE_SYSCALL_INFO_ENTRY && call.entry.nr < CALLS) {
                begun = begun || is_first(&call);
                unsigned long times = begun ? ++counts[call.entry.nr] : 0;
                if (begun && (long)call.entry.nr == number && times == nth) {
                    done = 1;
                    if (strncmp(action, "error=", 6) == 0) {
                        failing[slot].thread = thread;
                        failing[slot].result = -atol(action + 6);
                        set_register(thread, offsetof(struct user_regs_struct, orig_rax), -1);
                    } else if (strcmp(action, "short") == 0) {
                        shorten(thread, &call);
                    } else if (strncmp(action, "signal=", 7) == 0) {
                        kill(child, atoi(action + 7));
                    }
                }
            } else if (call.op == PTRACE_SYSCALL_INFO_EXIT && failing[slot].thread == thread) {
                set_register(thread, offsetof(struct user_regs_struct, rax), failing[slot].result);
                failing[slot].thread = 0;
            }
        } else if (stop != SIGTRAP && stop != SIGSTOP) {
            deliver = stop;
        }
        ptrace(PTRACE_SYSCALL, thread, NULL, deliver);
    }
    if (counting) {
        FILE *out = fopen(arguments[2], "w");
        if (out == NULL) fail(arguments[2]);
        for (int call = 0; call < CALLS; call++)
            if (counts[call] > 0) fprintf(out, "%d %lu\n", call, counts[call]);
        if (fclose(out) != 0) fail(arguments[2]);
    }
    if (done) fputs("inject: done\n", stderr);
    return result;
}
