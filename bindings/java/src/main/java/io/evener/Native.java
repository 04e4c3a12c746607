package io.evener;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.function.Consumer;

/**
 * The C library: its functions and helpers to call them. {@code size_t} is a {@code long}.
 *
 * <p>An object of the library is a segment in an arena, whose closing frees the object. The linker
 * keeps the arenas of all arguments open during a call, so that a close by another thread fails
 * instead of freeing the object.
 */
final class Native {
    private static final Linker LINKER = Linker.nativeLinker();
    private static final SymbolLookup LIBRARY = load();

    static final MethodHandle VERSION = function("evener_version", ADDRESS);
    static final MethodHandle LAST_ERROR = function("evener_last_error", ADDRESS);

    static final MethodHandle CIPHER_COUNT = function("evener_cipher_count", JAVA_LONG);
    static final MethodHandle CIPHER_AT = call("evener_cipher_at", JAVA_LONG, ADDRESS);
    static final MethodHandle CIPHER_NAMED = call("evener_cipher_named", ADDRESS, ADDRESS);

    static final MethodHandle ENGINE_LIST_NEW = call("evener_engine_list_new", ADDRESS);
    static final MethodHandle ENGINE_LIST_LENGTH =
            function("evener_engine_list_length", JAVA_LONG, ADDRESS);
    static final MethodHandle ENGINE_LIST_AT =
            call("evener_engine_list_at", ADDRESS, JAVA_LONG, ADDRESS);
    static final MethodHandle ENGINE_LIST_FREE = free("evener_engine_list_free");
    static final MethodHandle ENGINE_OPEN = call("evener_engine_open", ADDRESS, ADDRESS);
    static final MethodHandle ENGINE_OFFER =
            call("evener_engine_offer", ADDRESS, ADDRESS, JAVA_INT, ADDRESS);
    static final MethodHandle ENGINE_ACCOUNT = call("evener_engine_account", ADDRESS, ADDRESS);
    static final MethodHandle ENGINE_FREE = free("evener_engine_free");

    static final MethodHandle KEY_FROM_BYTES =
            call("evener_key_from_bytes", ADDRESS, JAVA_LONG, ADDRESS);
    static final MethodHandle KEY_GENERATE = call("evener_key_generate", ADDRESS, ADDRESS);
    static final MethodHandle KEY_FREE = free("evener_key_free");

    static final MethodHandle SESSION_OPEN =
            call("evener_session_open", ADDRESS, ADDRESS, JAVA_INT, ADDRESS, ADDRESS);
    static final MethodHandle SESSION_PROCESS =
            call("evener_session_process", ADDRESS, ADDRESS, JAVA_LONG);
    static final MethodHandle SESSION_CRYPT = sessionCrypt();
    /** For arrays: the garbage collector stands still meanwhile, so only for short work. */
    static final MethodHandle SESSION_CRYPT_ARRAYS = sessionCrypt(Linker.Option.critical(true));
    static final MethodHandle SESSION_FINISH = call("evener_session_finish", ADDRESS);
    static final MethodHandle SESSION_FREE = free("evener_session_free");

    static final MethodHandle POOL_NEW = call("evener_pool_new", JAVA_LONG, ADDRESS);
    static final MethodHandle POOL_FREE = free("evener_pool_free");
    static final MethodHandle PARALLEL_OPEN =
            call("evener_parallel_open", ADDRESS, ADDRESS, ADDRESS, ADDRESS, JAVA_INT, ADDRESS);
    static final MethodHandle PARALLEL_CRYPT =
            call(
                    "evener_parallel_crypt",
                    ADDRESS,
                    JAVA_INT,
                    ADDRESS,
                    JAVA_LONG,
                    ADDRESS,
                    JAVA_LONG,
                    ADDRESS,
                    JAVA_LONG,
                    ADDRESS);
    static final MethodHandle PARALLEL_CRYPT_IN_PLACE =
            call(
                    "evener_parallel_crypt_in_place",
                    ADDRESS,
                    JAVA_INT,
                    ADDRESS,
                    JAVA_LONG,
                    ADDRESS,
                    JAVA_LONG);
    static final MethodHandle PARALLEL_FREE = free("evener_parallel_free");

    static final MethodHandle FILE_KEY_GENERATE =
            call("evener_file_key_generate", ADDRESS, ADDRESS);
    static final MethodHandle FILE_KEY_FROM_BYTES =
            call("evener_file_key_from_bytes", ADDRESS, JAVA_LONG, ADDRESS);
    static final MethodHandle FILE_KEY_LOAD =
            call("evener_file_key_load", ADDRESS, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS);
    static final MethodHandle FILE_KEY_OF_AGE =
            call("evener_file_key_of_age", ADDRESS, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS);
    static final MethodHandle FILE_KEY_SAVE = call("evener_file_key_save", ADDRESS, ADDRESS);
    static final MethodHandle FILE_KEY_FREE = free("evener_file_key_free");

    static final MethodHandle SEALED_LENGTH =
            call("evener_sealed_length", ADDRESS, JAVA_LONG, ADDRESS);
    static final MethodHandle SEAL = sealing("evener_seal");
    static final MethodHandle UNSEAL = sealing("evener_unseal");

    static final MethodHandle ENCRYPT_PATH =
            call("evener_encrypt_path", ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle DECRYPT_PATH =
            call("evener_decrypt_path", ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle VERIFY_PATH =
            call("evener_verify_path", ADDRESS, ADDRESS, ADDRESS, ADDRESS);

    static final MethodHandle TREE_IS_SEALED = tree("evener_tree_is_sealed", 2);
    static final MethodHandle TREE_SEAL = tree("evener_tree_seal", 5);
    static final MethodHandle TREE_DECRYPT = tree("evener_tree_decrypt", 5);
    static final MethodHandle TREE_VERIFY = tree("evener_tree_verify", 4);
    static final MethodHandle TREE_REKEY = tree("evener_tree_rekey", 5);
    static final MethodHandle TREE_CLEAN = tree("evener_tree_clean", 4);
    static final MethodHandle TREE_REWRAP = tree("evener_tree_rewrap", 5);
    static final MethodHandle TREE_CHANGE_SIGNERS = tree("evener_tree_change_signers", 7);
    static final MethodHandle TREE_LIST = tree("evener_tree_list", 6);
    static final MethodHandle TREE_GENERATIONS = tree("evener_tree_generations", 6);
    static final MethodHandle TREE_SIGNERS = tree("evener_tree_signers", 6);
    static final MethodHandle TREE_OWN_SIGNER = tree("evener_tree_own_signer", 4);
    static final MethodHandle TREE_DIFF =
            call(
                    "evener_tree_diff", ADDRESS, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS,
                    ADDRESS, ADDRESS);

    static final MethodHandle REPORT_SUMMARY = call("evener_report_summary", ADDRESS, ADDRESS);
    static final MethodHandle REPORT_FAILURE =
            call("evener_report_failure", ADDRESS, JAVA_LONG, ADDRESS);
    static final MethodHandle REPORT_DOUBT =
            call("evener_report_doubt", ADDRESS, JAVA_LONG, ADDRESS);
    static final MethodHandle REPORT_JSON = function("evener_report_json", ADDRESS, ADDRESS);
    static final MethodHandle REPORT_FREE = free("evener_report_free");

    static {
        int expected = 1;
        int found = (int) invoke(function("evener_abi_version", JAVA_INT));
        if (found != expected) {
            throw new UnsatisfiedLinkError(
                    "libevener has the interface " + found + ", not " + expected);
        }
    }

    private Native() {}

    /** Calls a function that returns a status, and throws what it says. */
    static void check(MethodHandle function, Object... arguments) {
        checkStatus((int) invoke(function, arguments));
    }

    static void checkStatus(int status) {
        if (status != Status.OK.number()) {
            throw failure(status);
        }
    }

    /** What the last call on this thread that returned this status threw. */
    static EvenerException failure(int status) {
        return new EvenerException(
                Status.of(status), text((MemorySegment) invoke(LAST_ERROR)), null);
    }

    static Object invoke(MethodHandle function, Object... arguments) {
        try {
            return function.invokeWithArguments(arguments);
        } catch (Throwable thrown) {
            throw unexpected(thrown);
        }
    }

    /** What a call throws by itself: an argument's arena is closed, or of another thread. */
    static RuntimeException unexpected(Throwable thrown) {
        if (thrown instanceof RuntimeException exception) {
            return exception;
        }
        if (thrown instanceof Error error) {
            throw error;
        }
        return new IllegalStateException(thrown);
    }

    /** Makes an object of the library, which is given back when the arena is closed. */
    static MemorySegment make(Arena arena, MethodHandle free, Consumer<MemorySegment> maker) {
        try (Arena call = Arena.ofConfined()) {
            MemorySegment place = call.allocate(ADDRESS);
            maker.accept(place);
            return place.get(ADDRESS, 0).reinterpret(arena, object -> invoke(free, object));
        }
    }

    /** A C string; null for null. */
    static MemorySegment text(Arena arena, String text) {
        return text == null ? MemorySegment.NULL : arena.allocateFrom(text);
    }

    /** A C string's text; null for NULL. */
    static String text(MemorySegment text) {
        if (text.equals(MemorySegment.NULL)) {
            return null;
        }
        return text.reinterpret(Long.MAX_VALUE).getString(0, StandardCharsets.UTF_8);
    }

    /** Memory for a struct of the library's, with its size set and everything else zero. */
    static MemorySegment struct(Arena arena, MemoryLayout layout) {
        MemorySegment struct = arena.allocate(layout);
        struct.set(JAVA_LONG, 0, layout.byteSize());
        return struct;
    }

    /** A function that returns a status. */
    private static MethodHandle call(String name, MemoryLayout... arguments) {
        return function(name, JAVA_INT, arguments);
    }

    private static MethodHandle function(
            String name, MemoryLayout result, MemoryLayout... arguments) {
        return LINKER.downcallHandle(symbol(name), FunctionDescriptor.of(result, arguments));
    }

    private static MethodHandle free(String name) {
        return LINKER.downcallHandle(symbol(name), FunctionDescriptor.ofVoid(ADDRESS));
    }

    private static MethodHandle sessionCrypt(Linker.Option... options) {
        FunctionDescriptor descriptor =
                FunctionDescriptor.of(
                        JAVA_INT, ADDRESS, JAVA_INT, ADDRESS, JAVA_LONG, ADDRESS, JAVA_LONG,
                        ADDRESS, JAVA_LONG, ADDRESS, JAVA_LONG, ADDRESS);
        return LINKER.downcallHandle(symbol("evener_session_crypt"), descriptor, options);
    }

    /** A function of sealed trees, which takes nothing but pointers. */
    private static MethodHandle tree(String name, int arguments) {
        MemoryLayout[] pointers = new MemoryLayout[arguments];
        Arrays.fill(pointers, ADDRESS);
        return call(name, pointers);
    }

    private static MethodHandle sealing(String name) {
        return call(
                name, ADDRESS, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS, JAVA_LONG, ADDRESS,
                JAVA_LONG, ADDRESS);
    }

    private static MemorySegment symbol(String name) {
        return LIBRARY.find(name)
                .orElseThrow(() -> new UnsatisfiedLinkError("libevener has no " + name));
    }

    /** The library that a property or the environment names, or else that the system finds. */
    private static SymbolLookup load() {
        String name = System.getProperty("evener.library", System.getenv("EVENER_LIBRARY"));
        String library = name == null ? "libevener.so.1" : name;
        try {
            return SymbolLookup.libraryLookup(library, Arena.global());
        } catch (IllegalArgumentException absent) {
            UnsatisfiedLinkError error =
                    new UnsatisfiedLinkError(
                            library
                                    + " can't be loaded: install it, or name it with"
                                    + " -Devener.library=PATH or EVENER_LIBRARY");
            error.initCause(absent);
            throw error;
        }
    }
}
