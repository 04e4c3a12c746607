/* A PKCS #11 module that passes every call on to another one, and has the limits and faults
 * that its environment asks for:
 *
 *   EVENER_SHIM_MODULE         the module that does the work
 *   EVENER_SHIM_SESSIONS       how many sessions the token has
 *   EVENER_SHIM_REMOVED_AFTER  after so many messages the token is gone
 *   EVENER_SHIM_PIN_LOCKED     the user's PIN is locked
 *   EVENER_SHIM_WITHOUT        a mechanism, by its number, that is not listed
 *   EVENER_SHIM_HANGS          asked about its token, it never answers
 *   EVENER_SHIM_CLOSING        how many milliseconds it takes longer to close a session
 *   EVENER_SHIM_LOGIN          how many milliseconds a login takes longer; it makes the file
 *                              that EVENER_SHIM_TALLY names
 *   EVENER_SHIM_LIE            what is wrong with its results: flip, repeat, swap, truncate,
 *                              late, long, rare, symmetric, error, hang, die, exit, scribble
 *   EVENER_SHIM_LIE_AFTER      after so many messages; the test with known answers counts
 *   EVENER_SHIM_LIE_ABOVE      in messages of more than so many bytes, with `long`
 *   EVENER_SHIM_LIE_EVERY      in one of so many messages, at random, with `rare`
 *   EVENER_SHIM_TALLY          a file that is made when a lie is told
 *   EVENER_SHIM_PAUSE          how many milliseconds each message takes longer
 *
 * A late answer is wrong too. `symmetric` has a wrong bit in the IV in both directions, `die`
 * ends the process, and `exit` does so as if all were well. `scribble` writes to the input, and
 * its result is right.
 *
 * Written against PKCS #11 v2.40 (LP64), without its headers, which few machines have. */

#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

typedef unsigned long ulong;
typedef ulong (*any_function)();

enum { FUNCTIONS = 68 };
enum {
    GET_FUNCTION_LIST = 3, GET_TOKEN_INFO = 6, GET_MECHANISM_LIST = 7,
    OPEN_SESSION = 12, CLOSE_SESSION = 13, LOGIN = 18, CREATE_OBJECT = 20,
    ENCRYPT_INIT = 29, ENCRYPT = 30, DECRYPT_INIT = 33, DECRYPT = 34
};
enum { DEVICE_ERROR = 0x30, DEVICE_REMOVED = 0x32, SESSION_COUNT = 0xB1, USER_PIN_LOCKED = 0x40000 };

struct function_list {
    unsigned char major, minor;
    any_function functions[FUNCTIONS];
};

struct token_info {
    unsigned char label[32], manufacturer[32], model[16], serial[16];
    ulong flags, most_sessions, sessions;
};

static struct function_list ours, theirs;
static atomic_long sessions, messages;

static long setting(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 0) : otherwise;
}

static void sleep_for(long milliseconds)
{
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static int removed(void)
{
    long after = setting("EVENER_SHIM_REMOVED_AFTER", -1);
    return after >= 0 && atomic_load(&messages) >= after;
}

static ulong get_token_info(ulong slot, struct token_info *info)
{
    while (setting("EVENER_SHIM_HANGS", 0))
        pause();
    ulong result = theirs.functions[GET_TOKEN_INFO](slot, info);
    long most = setting("EVENER_SHIM_SESSIONS", 0);
    if (most) {
        info->most_sessions = most;
        info->sessions = atomic_load(&sessions);
    }
    if (setting("EVENER_SHIM_PIN_LOCKED", 0))
        info->flags |= USER_PIN_LOCKED;
    return result;
}

static ulong get_mechanism_list(ulong slot, ulong *list, ulong *count)
{
    ulong result = theirs.functions[GET_MECHANISM_LIST](slot, list, count);
    ulong hidden = setting("EVENER_SHIM_WITHOUT", 0), kept = 0;
    if (result || !list || !hidden)
        return result;
    for (ulong index = 0; index < *count; index++)
        if (list[index] != hidden)
            list[kept++] = list[index];
    *count = kept;
    return result;
}

static ulong open_session(ulong slot, ulong flags, void *data, void *notify, ulong *handle)
{
    long most = setting("EVENER_SHIM_SESSIONS", 0);
    if (removed())
        return DEVICE_REMOVED;
    if (atomic_fetch_add(&sessions, 1) >= most && most) {
        atomic_fetch_sub(&sessions, 1);
        return SESSION_COUNT;
    }
    return theirs.functions[OPEN_SESSION](slot, flags, data, notify, handle);
}

static ulong close_session(ulong handle)
{
    sleep_for(setting("EVENER_SHIM_CLOSING", 0));
    atomic_fetch_sub(&sessions, 1);
    return theirs.functions[CLOSE_SESSION](handle);
}

static ulong create_object(ulong session, void *template, ulong count, ulong *object)
{
    return removed() ? DEVICE_REMOVED
                     : theirs.functions[CREATE_OBJECT](session, template, count, object);
}

/* The result of the message before, for lies that need one. */
enum { LONGEST_KEPT = 1 << 16 };
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned char kept[LONGEST_KEPT];
static ulong kept_length;

static void make_tally(void)
{
    const char *tally = getenv("EVENER_SHIM_TALLY");
    FILE *told = tally ? fopen(tally, "w") : NULL;
    if (told)
        fclose(told);
}

static int lies(const char *kind)
{
    const char *lie = getenv("EVENER_SHIM_LIE");
    int tells = lie && !strcmp(lie, kind) &&
                atomic_load(&messages) > setting("EVENER_SHIM_LIE_AFTER", 0);
    if (tells)
        make_tally();
    return tells;
}

/* True once in `every` calls, at random. */
static int by_lot(long every)
{
    unsigned number = 0;
    return getrandom(&number, sizeof number, 0) == sizeof number && number % every == 0;
}

/* Puts the result of the message before in the place of this one's. */
static void replace(unsigned char *out, ulong length, int is_exchange)
{
    static unsigned char own[LONGEST_KEPT];
    if (length > LONGEST_KEPT)
        return;
    pthread_mutex_lock(&kept_lock);
    memcpy(own, out, length);
    for (ulong index = 0; index < length; index++)
        out[index] = kept_length ? kept[index % kept_length] : 0;
    if (is_exchange) {
        memcpy(kept, own, length);
        kept_length = length;
    }
    pthread_mutex_unlock(&kept_lock);
}

static void keep(const unsigned char *out, ulong length)
{
    pthread_mutex_lock(&kept_lock);
    kept_length = length > LONGEST_KEPT ? LONGEST_KEPT : length;
    memcpy(kept, out, kept_length);
    pthread_mutex_unlock(&kept_lock);
}

static ulong transform(int function, ulong session, void *in, ulong given, unsigned char *out,
                   ulong *length)
{
    if (out)
        atomic_fetch_add(&messages, 1);
    if (out && lies("die"))
        _exit(99);
    if (out && lies("exit"))
        exit(0);
    /* No lie, but bytes where the caller's output may be going. */
    if (out && lies("chatter")) {
        puts("the module speaks");
        fflush(stdout);
    }
    if (out && lies("error"))
        return DEVICE_ERROR;
    while (out && lies("hang"))
        sleep_for(1000);
    if (out)
        sleep_for(setting("EVENER_SHIM_PAUSE", 0));
    ulong result = theirs.functions[function](session, in, given, out, length);
    if (result || !out || !*length)
        return result;
    if (lies("scribble"))
        memset(in, 0x5A, given);
    if (lies("late"))
        sleep_for(5);
    if (lies("flip") || lies("late") ||
        (lies("long") && given > (ulong)setting("EVENER_SHIM_LIE_ABOVE", 1024)) ||
        (lies("rare") && by_lot(setting("EVENER_SHIM_LIE_EVERY", 400))))
        out[*length / 2] ^= 1;
    if (lies("truncate"))
        *length -= 1;
    if (lies("repeat") || lies("swap"))
        replace(out, *length, lies("swap"));
    else
        keep(out, *length);
    return result;
}

/* Those of the standard, as far as they are needed. */
struct mechanism {
    ulong kind;
    void *parameter;
    ulong length;
};

struct gcm_parameters {
    unsigned char *iv;
    ulong iv_length, iv_bits;
    unsigned char *aad;
    ulong aad_length, tag_bits;
};

static ulong crypt_init(int function, ulong session, struct mechanism *given, ulong key)
{
    enum { AES_CBC = 0x1082, AES_GCM = 0x1087, LONGEST = 64 };
    struct mechanism mechanism = *given;
    struct gcm_parameters gcm;
    unsigned char copy[LONGEST];
    if (removed())
        return DEVICE_REMOVED;
    /* The message that follows is not counted yet. */
    atomic_fetch_add(&messages, 1);
    int is_wrong = lies("symmetric");
    atomic_fetch_sub(&messages, 1);
    if (is_wrong && given->kind == AES_GCM && given->length == sizeof gcm) {
        memcpy(&gcm, given->parameter, sizeof gcm);
        if (gcm.iv_length <= LONGEST) {
            memcpy(copy, gcm.iv, gcm.iv_length);
            copy[0] ^= 1;
            gcm.iv = copy;
            mechanism.parameter = &gcm;
        }
    } else if (is_wrong && given->kind == AES_CBC && given->length <= LONGEST) {
        memcpy(copy, given->parameter, given->length);
        copy[0] ^= 1;
        mechanism.parameter = copy;
    }
    return theirs.functions[function](session, &mechanism, key);
}

static ulong login(ulong session, ulong user, unsigned char *pin, ulong length)
{
    long takes = setting("EVENER_SHIM_LOGIN", 0);
    if (takes)
        make_tally();
    sleep_for(takes);
    return theirs.functions[LOGIN](session, user, pin, length);
}

static ulong encrypt_init(ulong session, struct mechanism *mechanism, ulong key)
{
    return crypt_init(ENCRYPT_INIT, session, mechanism, key);
}

static ulong decrypt_init(ulong session, struct mechanism *mechanism, ulong key)
{
    return crypt_init(DECRYPT_INIT, session, mechanism, key);
}

static ulong encrypt(ulong session, void *in, ulong given, void *out, ulong *length)
{
    return transform(ENCRYPT, session, in, given, out, length);
}

static ulong decrypt(ulong session, void *in, ulong given, void *out, ulong *length)
{
    return transform(DECRYPT, session, in, given, out, length);
}

ulong C_GetFunctionList(struct function_list **list)
{
    struct function_list *found;
    void *module = dlopen(getenv("EVENER_SHIM_MODULE"), RTLD_NOW);
    any_function get = module ? (any_function)dlsym(module, "C_GetFunctionList") : NULL;
    if (!get || get(&found))
        return 5;
    theirs = ours = *found;
    ours.functions[GET_FUNCTION_LIST] = (any_function)C_GetFunctionList;
    ours.functions[GET_TOKEN_INFO] = (any_function)get_token_info;
    ours.functions[GET_MECHANISM_LIST] = (any_function)get_mechanism_list;
    ours.functions[OPEN_SESSION] = (any_function)open_session;
    ours.functions[CLOSE_SESSION] = (any_function)close_session;
    ours.functions[LOGIN] = (any_function)login;
    ours.functions[CREATE_OBJECT] = (any_function)create_object;
    ours.functions[ENCRYPT_INIT] = (any_function)encrypt_init;
    ours.functions[DECRYPT_INIT] = (any_function)decrypt_init;
    ours.functions[ENCRYPT] = (any_function)encrypt;
    ours.functions[DECRYPT] = (any_function)decrypt;
    *list = &ours;
    return 0;
}
