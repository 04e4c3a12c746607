/* A CUDA driver without a device. It does what the backend asks in the process's own memory, late, as
 * a device does, and complains of whatever a real driver would not forgive: a missing context, bytes
 * outside of an allocation, an order that can't be, memory that is not given back or not wiped.
 *
 * It can be told to fail at one of its calls, to be lost from then on, to have little memory, to
 * compute wrongly, and never to return from a function (from the start with -DHANGS_IN='"cuInit"'). With
 * -DTELLS it complains on standard error at once.
 * One process may have several copies of it, each with a state of its own. */

#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int CUresult;
typedef uintptr_t CUdeviceptr;
enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_PTX = 218,
       NOT_FOUND = 500 };
enum { FIRST = 0x7d00000, PAGE = 4096, DEVICE = 7, MOST = 256, MOST_COMMANDS = 4096 };

struct memory { CUdeviceptr address; unsigned char *bytes; size_t length; int is_free; };
struct function { char name[64]; int shared; };
struct event { int is_made; int has_stream; int stream; int has_time; double time; };
enum kind { UP, DOWN, SET, FLIP, CHAINS, NOTHING };
struct command {
    enum kind kind;
    CUdeviceptr device;
    void *host;
    size_t length;
    unsigned value, groups, size;
};
struct stream { int is_made; int count; struct command commands[MOST_COMMANDS]; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct memory memories[MOST], pinned[MOST];
static struct function functions[MOST];
static struct event events[MOST];
static struct stream streams[MOST];
static int memory_count, pinned_count, function_count, event_count, stream_count = 1;
static unsigned recordings;
static CUdeviceptr next_address;
static size_t used, limit = (size_t)1 << 30;
static int retained, modules, is_initialised, context, module;
static char *text;
static int calls, fail_at, fail_code, is_sticky, has_failed, is_lost, lies, flags;
static int version = 12040, devices = 1, capability = 90;
#ifndef HANGS_IN
#define HANGS_IN NULL
#endif
static const char *hangs_in = HANGS_IN;
static char complaints[8192];
static __thread int depth;

static void complain(const char *format, ...) {
    size_t length = strlen(complaints);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(complaints + length, sizeof complaints - length, format, arguments);
    va_end(arguments);
    length = strlen(complaints);
    snprintf(complaints + length, sizeof complaints - length, "\n");
#ifdef TELLS
    va_start(arguments, format);
    fputs("fake driver: ", stderr);
    vfprintf(stderr, format, arguments);
    fputs("\n", stderr);
    va_end(arguments);
#endif
}

/* Whether this call fails; it still counts. */
static int fails(void) {
    calls++;
    if (calls == fail_at) {
        has_failed = 1;
        is_lost |= is_sticky;
        return 1;
    }
    return is_lost;
}

static void need_context(const char *name) {
    if (!is_initialised) complain("%s before cuInit", name);
    if (!retained) complain("%s without a context", name);
    if (depth < 1) complain("%s, and no context is current", name);
}

static void hang_if_told(const char *name) {
    while (hangs_in && !strcmp(hangs_in, name)) pause();
}

#define BEGIN(name) hang_if_told(name); pthread_mutex_lock(&lock); CUresult result = SUCCESS; \
    const char *called = name; (void)called; int failing = fails()
#define END do { pthread_mutex_unlock(&lock); return result; } while (0)
#define FAIL_IF_TOLD if (failing) { result = fail_code; END; }
/* What frees something does so whatever it returns: the code may be that of an earlier command. */
#define END_OF_FREEING if (failing) result = fail_code; END

static struct memory *allocation(CUdeviceptr address, size_t length, const char *name) {
    for (int i = 0; i < memory_count; i++) {
        struct memory *memory = &memories[i];
        if (address >= memory->address && address - memory->address <= memory->length) {
            if (memory->is_free) complain("%s: the memory was freed", name);
            else if (length > memory->length - (address - memory->address))
                complain("%s: %zu bytes are too many", name, length);
            else return memory;
            return NULL;
        }
    }
    complain("%s: no memory has this address", name);
    return NULL;
}

/* What `shared_chains` in kernels/shared.cl writes, on units that do a word a clock. */
static void follow_chains(unsigned char *bytes, const struct command *command) {
    uint64_t words = (uint64_t)command->size * 8 * command->value;
    for (unsigned group = 0; group < command->groups; group++) {
        uint64_t first = group / 132 * words, times[3] = { first, first + words, group % 132 };
        memcpy(bytes + 24 * group, times, sizeof times);
    }
    uint32_t *sums = (uint32_t *)(bytes + 24 * command->groups);
    for (unsigned thread = 0; thread < command->size; thread++) {
        uint32_t sum = 0;
        for (unsigned chain = 0; chain < 8; chain++) {
            uint32_t number = (thread * 7 + chain * 31) & 255;
            for (unsigned step = 0; step < command->value % 256; step++)
                number = (number * 77 + 13) & 255;
            sum += (number * 32 + thread % 32) * 4;
        }
        for (unsigned group = 0; group < command->groups; group++)
            sums[group * command->size + thread] = lies ? sum + 1 : sum;
    }
}

static void perform(const struct command *command) {
    if (is_lost || command->kind == NOTHING) return;
    struct memory *memory = allocation(command->device, command->length, "a command");
    if (!memory) return;
    unsigned char *bytes = memory->bytes + (command->device - memory->address);
    switch (command->kind) {
    case UP: memcpy(bytes, command->host, command->length); break;
    case DOWN: memcpy(command->host, bytes, command->length); break;
    case SET: memset(bytes, 0, command->length); break;
    case FLIP: for (size_t i = 0; i < command->length; i++) bytes[i] ^= lies ? 0xA5 : 0x5A; break;
    case CHAINS: follow_chains(bytes, command); break;
    case NOTHING: break;
    }
}

static void drain(struct stream *stream) {
    for (int i = 0; i < stream->count; i++) perform(&stream->commands[i]);
    stream->count = 0;
}

static struct stream *stream_of(void *handle, const char *name) {
    intptr_t number = (intptr_t)handle;
    if (number == 0) return &streams[0];
    if (number < 0 || number >= stream_count || !streams[number].is_made) {
        complain("%s: there is no such stream", name);
        return NULL;
    }
    return &streams[number];
}

static void queue(void *handle, struct command command, const char *name) {
    struct stream *stream = stream_of(handle, name);
    if (!stream) return;
    if (stream->count == MOST_COMMANDS) drain(stream);
    stream->commands[stream->count++] = command;
}

/* The place for a new entry: behind the others, or, when all are taken, of one that is free. */
static int place_in(const struct memory *list, int *count) {
    if (*count < MOST) return (*count)++;
    for (int i = 0; i < MOST; i++) if (list[i].is_free) return i;
    return -1;
}

static int is_zero(const unsigned char *bytes, size_t length) {
    for (size_t i = 0; i < length; i++) if (bytes[i]) return 0;
    return 1;
}

/* What tests call. */

void fake_begin(int at, int code, int sticky, size_t memory, int lying) {
    fail_at = at; fail_code = code; is_sticky = sticky; limit = memory; lies = lying;
    calls = has_failed = is_lost = 0;
    complaints[0] = 0;
}

void fake_be(int its_version, int its_devices, int its_capability) {
    version = its_version; devices = its_devices; capability = its_capability;
}

/* From now on this function never returns. */
void fake_hang(const char *name) { hangs_in = name; }

int fake_calls(void) { return calls; }

/* What it complains of, at the end of a piece of work. */
const char *fake_end(void) {
    for (int i = 0; i < memory_count; i++) {
        if (!memories[i].is_free) complain("%zu bytes of the device are not freed", memories[i].length);
        free(memories[i].bytes);
        memories[i].bytes = NULL;
    }
    for (int i = 0; i < pinned_count; i++)
        if (!pinned[i].is_free) complain("%zu pinned bytes are not freed", pinned[i].length);
    for (int i = 1; i < stream_count; i++) if (streams[i].is_made) complain("a stream stays open");
    for (int i = 0; i < event_count; i++) if (events[i].is_made) complain("an event stays");
    if (modules) complain("a module stays loaded");
    if (retained) complain("the context is retained %d times more than released", retained);
    if (depth) complain("%d contexts are left on the stack", depth);
    memory_count = pinned_count = function_count = event_count = modules = retained = depth = 0;
    stream_count = 1;
    streams[0].count = 0;
    used = 0;
    free(text);
    text = NULL;
    return complaints;
}

/* The driver. */

CUresult cuInit(unsigned its_flags) {
    BEGIN("cuInit"); FAIL_IF_TOLD;
    if (its_flags) complain("cuInit with flags");
    is_initialised = 1;
    if (!devices) result = NO_DEVICE;
    END;
}

CUresult cuDriverGetVersion(int *to) { BEGIN("cuDriverGetVersion"); FAIL_IF_TOLD; *to = version; END; }

CUresult cuGetErrorName(int code, const char **to) {
    *to = code == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_FAKE";
    return SUCCESS;
}

CUresult cuGetErrorString(int code, const char **to) {
    if (code == 12345) return INVALID_VALUE;
    *to = code == OUT_OF_MEMORY ? "out of memory" : "told to fail";
    return SUCCESS;
}

CUresult cuDeviceGetCount(int *to) { BEGIN("cuDeviceGetCount"); FAIL_IF_TOLD; *to = devices; END; }

CUresult cuDeviceGet(int *to, int ordinal) {
    BEGIN("cuDeviceGet"); FAIL_IF_TOLD;
    if (ordinal < 0 || ordinal >= devices) complain("cuDeviceGet: no device %d", ordinal);
    *to = DEVICE;
    END;
}

CUresult cuDeviceGetName(char *to, int length, int device) {
    BEGIN("cuDeviceGetName"); FAIL_IF_TOLD;
    if (device != DEVICE) complain("cuDeviceGetName: no such device");
    snprintf(to, (size_t)length, "Fake 9000");
    END;
}

CUresult cuDeviceTotalMem_v2(size_t *to, int device) {
    BEGIN("cuDeviceTotalMem"); FAIL_IF_TOLD;
    if (device != DEVICE) complain("cuDeviceTotalMem: no such device");
    *to = limit;
    END;
}

CUresult cuDeviceGetAttribute(int *to, int which, int device) {
    BEGIN("cuDeviceGetAttribute"); FAIL_IF_TOLD;
    if (device != DEVICE) complain("cuDeviceGetAttribute: no such device");
    switch (which) {
    case 13: *to = 1980000; break;
    case 16: *to = 132; break;
    case 38: *to = 50 << 20; break;
    case 75: *to = capability / 10; break;
    case 76: *to = capability % 10; break;
    case 97: *to = 227 << 10; break;
    default: complain("cuDeviceGetAttribute: attribute %d", which); result = INVALID_VALUE;
    }
    END;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(int device, unsigned its_flags) {
    BEGIN("cuDevicePrimaryCtxSetFlags"); FAIL_IF_TOLD;
    if (device != DEVICE || its_flags != 4) complain("the context would spin");
    flags = (int)its_flags;
    END;
}

CUresult cuDevicePrimaryCtxRetain(void **to, int device) {
    BEGIN("cuDevicePrimaryCtxRetain"); FAIL_IF_TOLD;
    if (device != DEVICE) complain("cuDevicePrimaryCtxRetain: no such device");
    retained++;
    *to = &context;
    END;
}

CUresult cuDevicePrimaryCtxRelease_v2(int device) {
    BEGIN("cuDevicePrimaryCtxRelease");
    if (device != DEVICE || retained < 1) complain("a context is released that is not retained");
    else retained--;
    END_OF_FREEING;
}

CUresult cuCtxPushCurrent_v2(void *its_context) {
    BEGIN("cuCtxPushCurrent");
    if (failing) {
        /* A context that can't become current is gone, with all that is in it. */
        is_lost = 1;
        for (int i = 0; i < memory_count; i++) memories[i].is_free = 1;
        for (int i = 0; i < pinned_count; i++) pinned[i].is_free = 1;
        for (int i = 0; i < event_count; i++) events[i].is_made = 0;
        for (int i = 1; i < stream_count; i++) streams[i].is_made = streams[i].count = 0;
        modules = 0;
        result = fail_code;
        END;
    }
    if (its_context != &context || !retained) complain("there is no such context");
    depth++;
    END;
}

CUresult cuCtxPopCurrent_v2(void **to) {
    BEGIN("cuCtxPopCurrent");
    if (depth < 1) complain("no context is current that could be popped");
    else depth--;
    *to = &context;
    END_OF_FREEING;
}

CUresult cuModuleLoadDataEx(void **to, const void *image, unsigned count, const int *options,
                            void **values) {
    BEGIN("cuModuleLoadDataEx"); FAIL_IF_TOLD; need_context(called);
    char *log = NULL;
    size_t room = 0;
    for (unsigned i = 0; i < count; i++) {
        if (options[i] == 5) log = values[i];
        else if (options[i] == 6) room = (size_t)values[i];
        else complain("cuModuleLoadDataEx: option %d", options[i]);
    }
    if (!strstr(image, ".version")) {
        if (log) snprintf(log, room, "ptxas: no version\nand more");
        result = INVALID_PTX;
        END;
    }
    free(text);
    text = strdup(image);
    modules++;
    *to = &module;
    END;
}

CUresult cuModuleUnload(void *its_module) {
    BEGIN("cuModuleUnload"); need_context(called);
    if (its_module != &module || modules < 1) complain("there is no such module");
    else modules--;
    END_OF_FREEING;
}

CUresult cuModuleGetFunction(void **to, void *its_module, const char *name) {
    BEGIN("cuModuleGetFunction"); FAIL_IF_TOLD; need_context(called);
    if (its_module != &module || !modules) complain("there is no such module");
    char entry[128];
    snprintf(entry, sizeof entry, ".entry %s(", name);
    if (!text || !strstr(text, entry)) { result = NOT_FOUND; END; }
    if (function_count == MOST) function_count = 0;
    struct function *function = &functions[function_count++];
    snprintf(function->name, sizeof function->name, "%s", name);
    function->shared = 48 << 10;
    *to = function;
    END;
}

CUresult cuFuncSetAttribute(void *handle, int which, int value) {
    BEGIN("cuFuncSetAttribute"); FAIL_IF_TOLD; need_context(called);
    struct function *function = handle;
    if (which != 8) complain("cuFuncSetAttribute: attribute %d", which);
    if (value < 0 || value > 227 << 10) { result = INVALID_VALUE; END; }
    function->shared = value;
    END;
}

CUresult cuStreamCreate(void **to, unsigned its_flags) {
    BEGIN("cuStreamCreate"); FAIL_IF_TOLD; need_context(called);
    if (its_flags != 1) complain("a stream that waits for others");
    int place = 1;
    while (place < stream_count && (stream_count < MOST || streams[place].is_made)) place++;
    if (place == MOST) { result = OUT_OF_MEMORY; END; }
    if (place == stream_count) stream_count++;
    streams[place].is_made = 1;
    streams[place].count = 0;
    *to = (void *)(intptr_t)place;
    END;
}

CUresult cuStreamDestroy_v2(void *handle) {
    BEGIN("cuStreamDestroy"); need_context(called);
    struct stream *stream = stream_of(handle, called);
    if (!handle) complain("the default stream is destroyed");
    if (stream) {
        if (stream->count && !has_failed) complain("a stream is destroyed that is at work");
        stream->is_made = stream->count = 0;
    }
    END_OF_FREEING;
}

CUresult cuStreamSynchronize(void *handle) {
    BEGIN("cuStreamSynchronize"); FAIL_IF_TOLD; need_context(called);
    struct stream *stream = stream_of(handle, called);
    if (stream) drain(stream);
    END;
}

CUresult cuEventCreate(void **to, unsigned its_flags) {
    BEGIN("cuEventCreate"); FAIL_IF_TOLD; need_context(called);
    if ((its_flags | 2) != 3) complain("who waits for such an event spins");
    int place = 0;
    while (place < event_count && (event_count < MOST || events[place].is_made)) place++;
    if (place == MOST) { result = OUT_OF_MEMORY; END; }
    if (place == event_count) event_count++;
    events[place] = (struct event){ 1, 0, 0, !(its_flags & 2), 0 };
    *to = &events[place];
    END;
}

CUresult cuEventDestroy_v2(void *handle) {
    BEGIN("cuEventDestroy"); need_context(called);
    struct event *event = handle;
    if (!event->is_made) complain("there is no such event");
    event->is_made = 0;
    END_OF_FREEING;
}

CUresult cuEventRecord(void *handle, void *stream) {
    BEGIN("cuEventRecord"); FAIL_IF_TOLD; need_context(called);
    struct event *event = handle;
    if (!event->is_made) complain("there is no such event");
    if (stream_of(stream, called)) {
        event->has_stream = 1;
        event->stream = (int)(intptr_t)stream;
        /* A millisecond more for each recording. */
        event->time = ++recordings;
    }
    END;
}

CUresult cuEventElapsedTime(float *to, void *from, void *until) {
    BEGIN("cuEventElapsedTime"); FAIL_IF_TOLD; need_context(called);
    struct event *first = from, *last = until;
    if (!first->is_made || !last->is_made || !first->has_time || !last->has_time)
        complain("cuEventElapsedTime: an event without a time");
    if (!first->has_stream || !last->has_stream) complain("cuEventElapsedTime: not recorded");
    *to = (float)(last->time - first->time);
    END;
}

CUresult cuEventSynchronize(void *handle) {
    BEGIN("cuEventSynchronize"); FAIL_IF_TOLD; need_context(called);
    struct event *event = handle;
    if (!event->is_made || !event->has_stream) complain("an event that nobody recorded");
    else drain(&streams[event->stream]);
    END;
}

CUresult cuMemAlloc_v2(CUdeviceptr *to, size_t length) {
    BEGIN("cuMemAlloc"); FAIL_IF_TOLD; need_context(called);
    if (!length) { result = INVALID_VALUE; END; }
    int place = length > limit - used ? -1 : place_in(memories, &memory_count);
    if (place < 0) { result = OUT_OF_MEMORY; END; }
    struct memory *memory = &memories[place];
    free(memory->bytes);
    if (!next_address) next_address = (CUdeviceptr)FIRST * PAGE;
    *memory = (struct memory){ next_address, malloc(length), length, 0 };
    memset(memory->bytes, 0xAA, length);
    next_address += (length / PAGE + 2) * PAGE;
    used += length;
    *to = memory->address;
    END;
}

CUresult cuMemFree_v2(CUdeviceptr address) {
    BEGIN("cuMemFree"); need_context(called);
    struct memory *memory = allocation(address, 0, called);
    if (memory && memory->address != address) complain("cuMemFree: not where it begins");
    for (int i = 0; i < stream_count && !has_failed; i++)
        for (int j = 0; j < streams[i].count; j++)
            if (memory && streams[i].commands[j].device - memory->address < memory->length)
                complain("memory is freed that a command uses");
    if (memory) {
        if (!has_failed && !is_zero(memory->bytes, memory->length))
            complain("%zu bytes of the device are freed and not wiped", memory->length);
        used -= memory->length;
        memory->is_free = 1;
    }
    END_OF_FREEING;
}

CUresult cuMemHostAlloc(void **to, size_t length, unsigned its_flags) {
    BEGIN("cuMemHostAlloc"); FAIL_IF_TOLD; need_context(called);
    if (its_flags != 1) complain("pinned memory that is not portable");
    int place = length > limit ? -1 : place_in(pinned, &pinned_count);
    if (place < 0) { result = OUT_OF_MEMORY; END; }
    struct memory *memory = &pinned[place];
    *memory = (struct memory){ 0, malloc(length), length, 0 };
    memset(memory->bytes, 0xAA, length);
    *to = memory->bytes;
    END;
}

CUresult cuMemFreeHost(void *start) {
    BEGIN("cuMemFreeHost"); need_context(called);
    struct memory *memory = NULL;
    for (int i = 0; i < pinned_count; i++)
        if (pinned[i].bytes == start && !pinned[i].is_free) memory = &pinned[i];
    if (!memory) complain("cuMemFreeHost: no such memory");
    else {
        for (int i = 0; i < stream_count && !has_failed; i++)
            for (int j = 0; j < streams[i].count; j++)
                if ((uintptr_t)streams[i].commands[j].host - (uintptr_t)start < memory->length)
                    complain("pinned memory is freed that a command uses");
        if (!is_zero(memory->bytes, memory->length)) complain("pinned memory is not wiped");
        memory->is_free = 1;
        free(memory->bytes);
    }
    END_OF_FREEING;
}

/* Copies of other memory are slow, and of freed memory worse. */
static void need_pinned(const void *start, size_t length, const char *name) {
    for (int i = 0; i < pinned_count; i++) {
        uintptr_t offset = (uintptr_t)start - (uintptr_t)pinned[i].bytes;
        if (!pinned[i].is_free && offset <= pinned[i].length && length <= pinned[i].length - offset)
            return;
    }
    if (!is_lost) complain("%s: the memory is not pinned", name);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t length, void *stream) {
    BEGIN("cuMemcpyHtoDAsync"); FAIL_IF_TOLD; need_context(called);
    need_pinned(from, length, called);
    if (allocation(to, length, called))
        queue(stream, (struct command){ UP, to, (void *)from, length, 0, 0, 0 }, called);
    END;
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t length, void *stream) {
    BEGIN("cuMemcpyDtoHAsync"); FAIL_IF_TOLD; need_context(called);
    need_pinned(to, length, called);
    if (allocation(from, length, called))
        queue(stream, (struct command){ DOWN, from, to, length, 0, 0, 0 }, called);
    END;
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t words, void *stream) {
    BEGIN("cuMemsetD32Async"); FAIL_IF_TOLD; need_context(called);
    if (value || to % 4) complain("cuMemsetD32Async: not zero, or not at a word");
    if (allocation(to, 4 * words, called))
        queue(stream, (struct command){ SET, to, NULL, 4 * words, 0, 0, 0 }, called);
    END;
}

CUresult cuLaunchKernel(void *handle, unsigned groups, unsigned one, unsigned two, unsigned size,
                        unsigned three, unsigned four, unsigned shared, void *stream, void **values,
                        void **extra) {
    BEGIN("cuLaunchKernel"); FAIL_IF_TOLD; need_context(called);
    struct function *function = handle;
    if (!groups || one != 1 || two != 1 || !size || size > 1024 || three != 1 || four != 1 || extra) {
        result = INVALID_VALUE;
        END;
    }
    if (shared > (unsigned)function->shared) { result = INVALID_VALUE; END; }
    /* flip(bytes, count): every byte, in exclusive or with 0x5A. shared_chains(output, steps) is that of
     * the engine. Other kernels do nothing. */
    struct command command = { NOTHING, 0, NULL, 0, 0, groups, size };
    if (!strcmp(function->name, "flip")) {
        command.kind = FLIP;
        command.device = *(CUdeviceptr *)values[0];
        command.length = *(unsigned *)values[1];
        allocation(command.device, command.length, called);
    }
    if (!strcmp(function->name, "shared_chains")) {
        command.kind = CHAINS;
        command.device = *(CUdeviceptr *)values[0];
        command.value = *(unsigned *)values[1];
        command.length = (size_t)groups * (24 + 4 * size);
        allocation(command.device, command.length, called);
    }
    queue(stream, command, called);
    END;
}
