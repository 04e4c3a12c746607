/* The calls that the engine pkcs11 makes for a message, and nothing else: what the engine is
 * compared with.
 *
 * Usage: pkcs11 MODULE TOKEN PIN-FILE BYTES MILLISECONDS
 * Encrypts messages of BYTES bytes with AES-128-CBC, padded as PKCS #7 has it beforehand, and
 * prints the wall time and the thread's CPU time of one in microseconds.
 * Built with the header of p11-kit: cc -O2 -I/usr/include/p11-kit-1 pkcs11.c -ldl */

#include <dlfcn.h>
#include <p11-kit/pkcs11.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PART 32768

static double now(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

static void check(CK_RV result, const char *what)
{
    if (result != CKR_OK) {
        fprintf(stderr, "%s: 0x%lx\n", what, result);
        exit(1);
    }
}

static CK_SLOT_ID find_token(CK_FUNCTION_LIST *module, const char *label)
{
    CK_SLOT_ID slots[16];
    CK_ULONG count = 16;
    check(module->C_GetSlotList(CK_TRUE, slots, &count), "C_GetSlotList");
    for (CK_ULONG index = 0; index < count; index++) {
        CK_TOKEN_INFO token;
        check(module->C_GetTokenInfo(slots[index], &token), "C_GetTokenInfo");
        if (memcmp(token.label, label, strlen(label)) == 0)
            return slots[index];
    }
    check(CKR_TOKEN_NOT_PRESENT, label);
    return 0;
}

static CK_OBJECT_HANDLE create_key(CK_FUNCTION_LIST *module, CK_SESSION_HANDLE session)
{
    CK_OBJECT_CLASS class = CKO_SECRET_KEY;
    CK_KEY_TYPE type = CKK_AES;
    CK_BBOOL yes = CK_TRUE, no = CK_FALSE;
    CK_ATTRIBUTE attributes[] = {
        {CKA_CLASS, &class, sizeof class}, {CKA_KEY_TYPE, &type, sizeof type},
        {CKA_TOKEN, &no, sizeof no},       {CKA_PRIVATE, &yes, sizeof yes},
        {CKA_ENCRYPT, &yes, sizeof yes},   {CKA_VALUE, "0123456789abcdef", 16},
    };
    CK_OBJECT_HANDLE key;
    check(module->C_CreateObject(session, attributes, 6, &key), "C_CreateObject");
    return key;
}

static CK_SESSION_HANDLE open_session(CK_FUNCTION_LIST *module, char **arguments)
{
    /* As a program that calls from several threads must. */
    CK_C_INITIALIZE_ARGS threads = {.flags = CKF_OS_LOCKING_OK};
    check(module->C_Initialize(&threads), "C_Initialize");
    CK_SESSION_HANDLE session;
    CK_SLOT_ID slot = find_token(module, arguments[2]);
    check(module->C_OpenSession(slot, CKF_SERIAL_SESSION, NULL, NULL, &session), "C_OpenSession");
    char pin[64];
    FILE *file = fopen(arguments[3], "r");
    if (file == NULL || fgets(pin, sizeof pin, file) == NULL)
        check(CKR_PIN_INCORRECT, arguments[3]);
    size_t length = strcspn(pin, "\n");
    check(module->C_Login(session, CKU_USER, (CK_UTF8CHAR *)pin, length), "C_Login");
    return session;
}

static int run(char **arguments)
{
    size_t bytes = strtoul(arguments[4], NULL, 10);
    double budget = strtod(arguments[5], NULL) * 1e3;

    void *library = dlopen(arguments[1], RTLD_NOW);
    CK_C_GetFunctionList list = library ? dlsym(library, "C_GetFunctionList") : NULL;
    CK_FUNCTION_LIST *module;
    check(list ? list(&module) : CKR_LIBRARY_LOAD_FAILED, arguments[1]);
    CK_SESSION_HANDLE session = open_session(module, arguments);
    CK_OBJECT_HANDLE key = create_key(module, session);

    size_t padded = bytes / 16 * 16 + 16;
    CK_BYTE *input = malloc(padded), *output = malloc(padded);
    memset(input, 1, bytes);
    memset(input + bytes, padded - bytes, padded - bytes);
    memset(output, 2, padded);
    CK_BYTE iv[16] = {0};
    CK_MECHANISM mechanism = {CKM_AES_CBC, iv, sizeof iv};

    double start = 0, cpu_start = 0, looked = 0, wall = 0;
    unsigned long jobs = 0, until_look = 1, calls = 1;
    /* The first job is not counted. */
    for (unsigned long number = 0; looked < budget; number++) {
        if (number == 1) {
            start = now(CLOCK_MONOTONIC);
            cpu_start = now(CLOCK_THREAD_CPUTIME_ID);
        }
        for (size_t done = 0; done < padded; done += PART) {
            CK_ULONG part = padded - done < PART ? padded - done : PART, written = part;
            check(module->C_EncryptInit(session, &mechanism, key), "C_EncryptInit");
            check(module->C_Encrypt(session, input + done, part, output + done, &written),
                  "C_Encrypt");
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

/* The engine works in a thread, and locks cost more in a program that has several. */
int main(int count, char **arguments)
{
    pthread_t thread;
    if (count != 6 || pthread_create(&thread, NULL, start, arguments) != 0)
        return 2;
    pthread_join(thread, NULL);
    return 2;
}
