/* A PKCS #11 module that can do nothing but be initialised, for which it takes its time. Until then it
 * uses memory that it frees at the end of the process. Its environment says how:
 *
 *   EVENER_SLOW_FREES   `loaded`: by a function that it registers when it is loaded
 *                       otherwise as a library that is destroyed
 *   EVENER_SLOW_BEGUN   a file that it makes when it has begun
 *   EVENER_SLOW_HANGS   it is never initialised, and frees nothing */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

typedef unsigned long ulong;
typedef ulong (*any_function)();

enum { FUNCTIONS = 68, PAGE = 4096, MILLISECONDS = 300 };

static struct {
    unsigned char major, minor;
    any_function functions[FUNCTIONS];
} ours;

static volatile char *page;

static void sleep_for(long milliseconds)
{
    struct timespec time = {0, milliseconds * 1000000};
    nanosleep(&time, NULL);
}

static void destroy(void)
{
    if (getenv("EVENER_SLOW_HANGS"))
        return;
    munmap((void *)page, PAGE);
    /* There is more to do at the end of a process. */
    sleep_for(50);
}

static int frees(const char *when)
{
    const char *text = getenv("EVENER_SLOW_FREES");
    return text && !strcmp(text, when);
}

__attribute__((constructor)) static void loaded(void)
{
    page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (frees("loaded"))
        atexit(destroy);
}

__attribute__((destructor)) static void unloaded(void)
{
    destroy();
}

static ulong initialise(void *arguments)
{
    (void)arguments;
    close(open(getenv("EVENER_SLOW_BEGUN"), O_WRONLY | O_CREAT, 0600));
    for (int passed = 0; passed < MILLISECONDS || getenv("EVENER_SLOW_HANGS"); passed++) {
        page[0]++;
        sleep_for(1);
    }
    return 0;
}

ulong C_GetFunctionList(void **list)
{
    ours.major = 2;
    ours.minor = 40;
    ours.functions[0] = (any_function)initialise;
    *list = &ours;
    return 0;
}
