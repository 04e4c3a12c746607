/* A PKCS #11 module that passes every call on to another one, and has the limits and faults
 * that its environment asks for:
 *
 *   EVENER_SHIM_MODULE         the module that does the work
 *   EVENER_SHIM_SESSIONS       how many sessions the token has
 *   EVENER_SHIM_REMOVED_AFTER  after so many messages the token is gone
 *   EVENER_SHIM_PIN_LOCKED     the user's PIN is locked
 *   EVENER_SHIM_WITHOUT        a mechanism, by its number, that is not listed
 *   EVENER_SHIM_HANGS          asked about its token, it never answers
 *
 * Written against PKCS #11 v2.40 (LP64), without its headers, which few machines have. */

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned long ulong;
typedef ulong (*any_function)();

enum { FUNCTIONS = 68 };
enum {
    GET_FUNCTION_LIST = 3, GET_TOKEN_INFO = 6, GET_MECHANISM_LIST = 7,
    OPEN_SESSION = 12, CLOSE_SESSION = 13, CREATE_OBJECT = 20,
    ENCRYPT_INIT = 29, ENCRYPT = 30, DECRYPT_INIT = 33, DECRYPT = 34
};
enum { DEVICE_REMOVED = 0x32, SESSION_COUNT = 0xB1, USER_PIN_LOCKED = 0x40000 };

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
    atomic_fetch_sub(&sessions, 1);
    return theirs.functions[CLOSE_SESSION](handle);
}

static ulong create_object(ulong session, void *template, ulong count, ulong *object)
{
    return removed() ? DEVICE_REMOVED
                     : theirs.functions[CREATE_OBJECT](session, template, count, object);
}

static ulong encrypt_init(ulong session, void *mechanism, ulong key)
{
    return removed() ? DEVICE_REMOVED : theirs.functions[ENCRYPT_INIT](session, mechanism, key);
}

static ulong decrypt_init(ulong session, void *mechanism, ulong key)
{
    return removed() ? DEVICE_REMOVED : theirs.functions[DECRYPT_INIT](session, mechanism, key);
}

static ulong encrypt(ulong session, void *in, ulong given, void *out, ulong *length)
{
    atomic_fetch_add(&messages, 1);
    return theirs.functions[ENCRYPT](session, in, given, out, length);
}

static ulong decrypt(ulong session, void *in, ulong given, void *out, ulong *length)
{
    atomic_fetch_add(&messages, 1);
    return theirs.functions[DECRYPT](session, in, given, out, length);
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
    ours.functions[CREATE_OBJECT] = (any_function)create_object;
    ours.functions[ENCRYPT_INIT] = (any_function)encrypt_init;
    ours.functions[DECRYPT_INIT] = (any_function)decrypt_init;
    ours.functions[ENCRYPT] = (any_function)encrypt;
    ours.functions[DECRYPT] = (any_function)decrypt;
    *list = &ours;
    return 0;
}
