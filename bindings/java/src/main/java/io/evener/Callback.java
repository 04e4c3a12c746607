package io.evener;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.function.Function;
import java.util.function.Predicate;

/** A listener as C calls it. What it throws must not go through C, and waits here. */
final class Callback<T> {
    private static final MethodHandle TELL = tellHandle();

    private final MemoryLayout layout;
    private final Function<MemorySegment, T> reader;
    private final Predicate<? super T> listener;
    private RuntimeException exception;
    private Error error;

    /** Takes the layout of the struct that C passes, what reads it, and a listener or null. */
    Callback(
            MemoryLayout layout,
            Function<MemorySegment, T> reader,
            Predicate<? super T> listener) {
        this.layout = layout;
        this.reader = reader;
        this.listener = listener;
    }

    /** The function for C; NULL without a listener. */
    MemorySegment stub(Arena arena) {
        if (listener == null) {
            return MemorySegment.NULL;
        }
        FunctionDescriptor descriptor =
                FunctionDescriptor.of(JAVA_INT, ADDRESS.withTargetLayout(layout), ADDRESS);
        return Linker.nativeLinker().upcallStub(TELL.bindTo(this), descriptor, arena);
    }

    int tell(MemorySegment facts, MemorySegment userData) {
        try {
            return listener.test(reader.apply(facts)) ? 0 : 1;
        } catch (RuntimeException thrown) {
            exception = thrown;
        } catch (Error thrown) {
            error = thrown;
        }
        return 1;
    }

    /** Throws what the listener threw, if it did, with how the operation ended. */
    void rethrow(EvenerException end) {
        Throwable thrown = exception != null ? exception : error;
        if (thrown != null && end != null) {
            thrown.addSuppressed(end);
        }
        if (exception != null) {
            throw exception;
        }
        if (error != null) {
            throw error;
        }
    }

    private static MethodHandle tellHandle() {
        MethodType type =
                MethodType.methodType(int.class, MemorySegment.class, MemorySegment.class);
        try {
            return MethodHandles.lookup().findVirtual(Callback.class, "tell", type);
        } catch (ReflectiveOperationException impossible) {
            throw new IllegalStateException(impossible);
        }
    }
}
