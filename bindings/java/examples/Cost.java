import io.evener.Batch;
import io.evener.Direction;
import io.evener.Key;
import io.evener.ParallelCipher;
import io.evener.Pool;
import io.evener.Session;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/** Java's worker of bindings/measure: see bindings/c/examples/cost.rs. */
public final class Cost {
    private static final int PAGE = 4096;
    private static final int BATCH = 16;
    private static final byte[] ZEROS = new byte[16];
    private static final byte[] NONCE = new byte[12];

    private Cost() {}

    /** Does the work that the first argument names, on as many bytes as the second says. */
    public static void main(String[] arguments) throws Exception {
        long length = Long.parseLong(arguments[1]);
        try (Arena arena = Arena.ofShared();
                Key key = Key.of(new byte[16])) {
            MemorySegment buffer = arena.allocate(2 * length + 3 * PAGE, PAGE).fill((byte) 1);
            MemorySegment input = buffer.asSlice(0, length);
            MemorySegment output = buffer.asSlice(length + PAGE, length + 16);
            switch (arguments[0]) {
                case "session" -> {
                    try (Session session = Session.open("aes-128-ctr", Direction.ENCRYPT, key)) {
                        answer(() -> session.crypt(ZEROS, input, output));
                    }
                }
                case "batch" -> {
                    MemorySegment outputs = arena.allocate(length + 16 * BATCH);
                    try (Session session = Session.open("aes-128-gcm", Direction.ENCRYPT, key);
                            Batch batch = new Batch(BATCH)) {
                        answer(() -> fill(batch, input, outputs).process(session));
                    }
                }
                default -> {
                    try (Pool pool = Pool.onAllCores();
                            ParallelCipher cipher =
                                    ParallelCipher.open(pool, "aes-128-ctr", key)) {
                        answer(() -> cipher.crypt(Direction.ENCRYPT, ZEROS, input, output));
                    }
                }
            }
        }
    }

    private static Batch fill(Batch batch, MemorySegment input, MemorySegment outputs) {
        long part = input.byteSize() / BATCH;
        batch.clear();
        for (int index = 0; index < BATCH; index++) {
            batch.add(
                    NONCE,
                    input.asSlice(index * part, part),
                    outputs.asSlice(index * (part + 16), part + 16));
        }
        return batch;
    }

    private static void answer(Runnable work) throws Exception {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            int times = Integer.parseInt(line);
            long started = System.nanoTime();
            for (int time = 0; time < times; time++) {
                work.run();
            }
            System.out.println(System.nanoTime() - started);
        }
    }
}
