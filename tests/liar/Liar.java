import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.evener.Batch;
import io.evener.Direction;
import io.evener.Engine;
import io.evener.EvenerException;
import io.evener.Key;
import io.evener.Padding;
import io.evener.ParallelCipher;
import io.evener.Pool;
import io.evener.Session;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;

/** As liar.c, through the Java binding. */
public final class Liar {
    private static final int MESSAGES = 40;
    private static final int MOST = 3000;
    private static final int LONG = 1 << 20;
    private static final byte[] IV = new byte[16];
    private static boolean told;

    private Liar() {}

    private interface Work {
        void perform();
    }

    /** Whether it was done. Otherwise somebody was told. */
    private static boolean may(Work work) {
        try {
            work.perform();
            return true;
        } catch (EvenerException exception) {
            told = true;
            return false;
        }
    }

    public static void main(String[] arguments) {
        String name = arguments[0];
        int wrong = 0;
        try (Key key = Key.of("sixteen bytes of".getBytes(StandardCharsets.US_ASCII))) {
            switch (arguments[1]) {
                case "session" -> wrong = sessions(name, key, false);
                case "batch" -> wrong = sessions(name, key, true);
                default -> wrong = buffers(name, key);
            }
        } catch (EvenerException exception) {
            told = true;
        }
        System.out.println("wrong " + wrong + " told " + (told ? 1 : 0));
    }

    private static int sessions(String name, Key key, boolean together) {
        int wrong = 0;
        try (Engine engine = Engine.open(name);
                Arena arena = Arena.ofConfined()) {
            for (Direction direction : Direction.values()) {
                try (Session session = Session.open(engine, "aes-128-cbc", direction, key);
                        Session sound = Session.open("aes-128-cbc", direction, key);
                        Batch batch = new Batch(MESSAGES)) {
                    MemorySegment[] in = new MemorySegment[MESSAGES];
                    MemorySegment[] out = new MemorySegment[MESSAGES];
                    boolean[] done = new boolean[MESSAGES];
                    for (int index = 0; index < MESSAGES; index++) {
                        long length = 16 * (1 + index * 37 % (MOST / 16));
                        in[index] = arena.allocate(length).fill((byte) (index + 1));
                        out[index] = arena.allocate(length);
                        batch.add(IV, in[index], out[index]);
                        int at = index;
                        done[index] =
                                !together && may(() -> session.crypt(IV, in[at], out[at]));
                    }
                    boolean all = together && may(() -> batch.process(session));
                    may(session::finish);
                    for (int index = 0; index < MESSAGES; index++) {
                        MemorySegment right = arena.allocate(in[index].byteSize());
                        sound.crypt(IV, in[index], right);
                        if ((done[index] || all) && right.mismatch(out[index]) >= 0) {
                            wrong++;
                        }
                    }
                } catch (EvenerException exception) {
                    told = true;
                }
            }
            told |= engine.account().fault().isPresent();
        }
        return wrong;
    }

    private static int buffers(String name, Key key) {
        int wrong = 0;
        try (Pool pool = Pool.onAllCores();
                ParallelCipher cipher =
                        ParallelCipher.open(pool, name, "aes-128-cbc", key, Padding.NONE);
                Arena arena = Arena.ofShared()) {
            MemorySegment in = arena.allocate(LONG);
            MemorySegment out = arena.allocate(LONG);
            MemorySegment right = arena.allocate(LONG);
            for (Direction direction : Direction.values()) {
                try (Session sound = Session.open("aes-128-cbc", direction, key)) {
                    for (int index = 0; index < 3; index++) {
                        // Of no part is the result right in the place of another.
                        for (long at = 0; at < LONG / Long.BYTES; at++) {
                            in.setAtIndex(JAVA_LONG, at, at * 0x9E3779B97F4A7C15L + index);
                        }
                        sound.crypt(IV, in, right);
                        boolean done = may(() -> cipher.crypt(direction, IV, in, out));
                        if (done && right.mismatch(out) >= 0) {
                            wrong++;
                        }
                    }
                }
            }
        }
        return wrong;
    }
}
