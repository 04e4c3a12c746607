package io.evener;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.function.Function;
import java.util.function.Predicate;

/**
 * A directory that is sealed: it hides the names, links and times of its files, and shows whether any
 * were changed, exchanged, removed or taken from an earlier run. Each run that finds changes adds a
 * generation, in which unchanged and moved files keep what was sealed.
 *
 * <p>Everything that fails throws an {@link EvenerException}, as in {@link FileEncryption}. A tree
 * that is not believed (of another key, rolled back, signed by others) is {@link Status#FILE}.
 *
 * {@snippet :
 * SealedTree tree = new SealedTree(new FileEncryption(key), backup);
 * Report report = tree.seal(photos); // report.generation(), report.isNewGeneration()
 * tree.verify(); // throws if anything was changed
 * tree.decrypt(restored);
 * tree.list(item -> {
 *     System.out.println(item.bytes() + " " + item.name());
 *     return true;
 * });
 * tree.keep(10).clean();
 * }
 */
public final class SealedTree {
    private static final MemoryLayout OPTIONS = MemoryLayout.sequenceLayout(15, JAVA_LONG);
    private static final MemoryLayout ITEM = MemoryLayout.sequenceLayout(7, JAVA_LONG);

    private final FileEncryption files;
    private final Path tree;
    private Path state;
    private Path signer;
    private List<String> signers = List.of();
    private String pin;
    private long generation;
    private long time;
    private long padding;
    private List<String> paths = List.of();
    private long keep;
    private long keepWithin;
    private List<String> abandoned = List.of();
    private long flags;

    /**
     * Takes the key, engines and options of {@code files}, and the directory of the tree, which may be
     * absent until it is sealed.
     *
     * <p>The key is one of 32 bytes (Cobblestone-256). With {@link FileKey#ofAge} each generation has a
     * fresh key, wrapped for the recipients or with the passphrase, which is that of the generations
     * before, and the tree is signed. Identities open earlier generations.
     *
     * <p>Suffix and context are none of a sealed tree's, and neither are {@link
     * FileOption#REMOVE_SOURCE}, {@link FileOption#FOLLOW_SYMLINKS}, {@link FileOption#IGNORE_CTIME}
     * and {@link FileOption#ARMOR}. Sealing takes no {@link FileOption#OVERWRITE}, {@link
     * FileOption#RESUME} and {@link FileOption#SPARSE}, reading no {@link FileOption#UPDATE}, {@link
     * FileOption#DRY_RUN}, {@link FileOption#SKIP_CHANGING} and {@link FileOption#ONE_FILE_SYSTEM}.
     */
    public SealedTree(FileEncryption files, Path tree) {
        this.files = Objects.requireNonNull(files);
        this.tree = Objects.requireNonNull(tree);
    }

    /** Tells whether a directory says that it is a sealed tree. */
    public static boolean isSealed(Path directory) {
        try (Arena call = Arena.ofConfined()) {
            MemorySegment answer = call.allocate(JAVA_INT);
            Native.check(
                    Native.TREE_IS_SEALED, call.allocateFrom(directory.toString()), answer);
            return answer.get(JAVA_INT, 0) != 0;
        }
    }

    /**
     * Sets the directory for what this machine knows of its trees: roots, signing keys and the files
     * last sealed. Otherwise it is the program's: {@code $XDG_STATE_HOME/evener/trees}, or {@code
     * ~/.local/state/evener/trees}.
     */
    public SealedTree state(Path directory) {
        state = directory;
        return this;
    }

    /**
     * Signs with this key of OpenSSH, by {@code ssh-keygen}: a private key, or a public one whose
     * private key is in ssh-agent. Otherwise trees for recipients are signed with a key that is made
     * for this machine and kept in its state.
     */
    public SealedTree sign(Path key) {
        signer = key;
        return this;
    }

    /**
     * Accepts the tree only if one of these public keys of OpenSSH has signed it, instead of those
     * that this machine saw at first use.
     */
    public SealedTree signedBy(List<String> publicKeys) {
        signers = List.copyOf(publicKeys);
        return this;
    }

    /**
     * Accepts only a tree whose generation N has this digest, or a later one: {@code N:DIGEST} with 64
     * hexadecimal digits.
     */
    public SealedTree pin(String pin) {
        this.pin = pin;
        return this;
    }

    /** Reads the generation with this number; 0 for the newest one. */
    public SealedTree generation(long number) {
        generation = number;
        return this;
    }

    /** Reads the last generation made by this time; null for the newest one. */
    public SealedTree at(Instant time) {
        this.time = time == null ? 0 : time.getEpochSecond();
        return this;
    }

    /**
     * Pads each file of a new tree to at least so many bytes, and larger ones by up to 12 %. A tree
     * that is there keeps its own padding.
     */
    public SealedTree padding(long bytes) {
        padding = bytes;
        return this;
    }

    /** Reads only these paths below the root of the tree. */
    public SealedTree paths(String... paths) {
        this.paths = List.of(paths);
        return this;
    }

    /** Has {@link #clean} keep so many generations, the newest ones; 0 for all. */
    public SealedTree keep(long generations) {
        keep = generations;
        return this;
    }

    /**
     * Has {@link #clean} keep the generations made in this time before now, and without {@link #keep}
     * only the newest one else.
     */
    public SealedTree keepWithin(Duration time) {
        keepWithin = time.toSeconds();
        return this;
    }

    /** Has {@link #clean} take these writers, which its report names, for runs that were killed. */
    public SealedTree abandon(String... writers) {
        abandoned = List.of(writers);
        return this;
    }

    /** Sets options. */
    public SealedTree with(TreeOption... options) {
        for (TreeOption option : options) {
            flags |= option.flag();
        }
        return this;
    }

    /**
     * Seals a directory into a new generation of the tree, which is made if there is none. If nothing
     * has changed, there is no new generation. Files that failed keep the content of the generation
     * before.
     */
    public Report seal(Path source) {
        return run(
                Native.TREE_SEAL,
                null,
                call -> List.of(files.key.object, text(call, source), text(call, tree)));
    }

    /** Decrypts a generation, or the {@link #paths} in it. */
    public Report decrypt(Path target) {
        return run(Native.TREE_DECRYPT, null, call -> arguments(call, text(call, target)));
    }

    /** Authenticates a generation and writes nothing. */
    public Report verify() {
        return run(Native.TREE_VERIFY, null, this::arguments);
    }

    /**
     * Seals the newest generation again, under another key, or under a fresh one that is wrapped for
     * the recipients of {@code newKey}. Nothing is accepted under the old key after that, but it still
     * opens the generations before, until they are removed.
     */
    public Report rekey(FileKey newKey) {
        return run(Native.TREE_REKEY, null, call -> arguments(call, newKey.object));
    }

    /**
     * Wraps the keys of all generations for the recipients of {@code newKey}, without reading content.
     * Old wrappings are removed if an identity of either key has opened the new ones, or with {@link
     * TreeOption#TRUST_UNOPENED}. The report's JSON has {@code keys}, {@code removed} and {@code
     * unchecked}, the old wrappings that stay.
     */
    public Report rewrap(FileKey newKey) {
        return run(Native.TREE_REWRAP, null, call -> arguments(call, newKey.object));
    }

    /**
     * Removes the generations that {@link #keep} and {@link #keepWithin} do not keep, and what killed
     * runs have left. It first makes a generation that says so. If a kept generation can't be read
     * whole, nothing is removed. Files younger than a day, or than a run that is at work, stay. The
     * report's JSON has {@code kept}, {@code removed}, {@code files}, {@code bytes}, {@code spared} and
     * {@code writers}.
     */
    public Report clean() {
        return run(Native.TREE_CLEAN, null, this::arguments);
    }

    /**
     * Passes the entries of a generation, or those of the {@link #paths} in it, by directory, then by
     * name, until {@code each} returns false.
     */
    public Report list(Predicate<TreeItem> each) {
        return run(Native.TREE_LIST, Objects.requireNonNull(each), this::arguments);
    }

    /** Passes the generations, the newest first, until {@code each} returns false. */
    public Report generations(Predicate<TreeItem> each) {
        return run(Native.TREE_GENERATIONS, Objects.requireNonNull(each), this::arguments);
    }

    /**
     * Passes what differs between the generation that {@link #generation} or {@link #at} names and a
     * later one, 0 for the newest, until {@code each} returns false.
     */
    public Report diff(long later, Predicate<TreeItem> each) {
        return run(
                Native.TREE_DIFF,
                Objects.requireNonNull(each),
                call -> arguments(call, MemorySegment.NULL, later));
    }

    /**
     * Passes what differs between a generation and a directory, such as the source, whose files count
     * as unchanged if size and time are the same, until {@code each} returns false.
     */
    public Report diff(Path later, Predicate<TreeItem> each) {
        return run(
                Native.TREE_DIFF,
                Objects.requireNonNull(each),
                call -> arguments(call, text(call, later), 0L));
    }

    /** Passes those who may sign the next generation, and those who are revoked. */
    public Report signers(Predicate<TreeItem> each) {
        return run(Native.TREE_SIGNERS, Objects.requireNonNull(each), this::arguments);
    }

    /**
     * The line with which another machine admits this one. Its keys are made at first use. The tree
     * may be absent.
     */
    public String ownSigner() {
        List<TreeItem> own = new ArrayList<>();
        Callback<TreeItem> callback = items(own::add);
        try (Arena call = Arena.ofConfined()) {
            Native.check(
                    Native.TREE_OWN_SIGNER,
                    text(call, tree),
                    options(call, MemorySegment.NULL),
                    callback.stub(call),
                    MemorySegment.NULL);
        }
        return own.getFirst().name();
    }

    /**
     * Changes who may sign, in a generation of its own. An unsigned tree becomes a signed one.
     *
     * @param add lines of {@link #ownSigner} on other machines
     * @param remove fingerprints, {@code SHA256:...}, of those who sign no later generation
     * @param revoke {@code SHA256:...@N} for those of whom nothing after generation N is believed, as
     *     when a key was stolen
     */
    public Report changeSigners(List<String> add, List<String> remove, List<String> revoke) {
        return run(
                Native.TREE_CHANGE_SIGNERS,
                null,
                call -> arguments(call, lines(call, add), lines(call, remove), lines(call, revoke)));
    }

    /** Calls a function with the arguments that come before the options. */
    private Report run(
            MethodHandle function,
            Predicate<TreeItem> each,
            Function<Arena, List<Object>> first) {
        try (Arena call = Arena.ofConfined()) {
            Callback<Progress> telling = files.telling();
            Callback<TreeItem> items = items(each);
            List<Object> arguments = new ArrayList<>(first.apply(call));
            arguments.add(options(call, files.options(call, telling)));
            if (each != null) {
                arguments.add(items.stub(call));
                arguments.add(MemorySegment.NULL);
            }
            MemorySegment place = call.allocate(ADDRESS);
            arguments.add(place);
            int status = (int) Native.invoke(function, arguments.toArray());
            return FileEncryption.ended(call, status, place, telling, items);
        }
    }

    /** The key, the tree, and more arguments. */
    private List<Object> arguments(Arena call, Object... more) {
        List<Object> arguments = new ArrayList<>();
        arguments.add(files.key.object);
        arguments.add(text(call, tree));
        arguments.addAll(List.of(more));
        return arguments;
    }

    private MemorySegment options(Arena call, MemorySegment filesOptions) {
        MemorySegment options = Native.struct(call, OPTIONS);
        MemorySegment names = call.allocate(ADDRESS, paths.size());
        for (int index = 0; index < paths.size(); index++) {
            names.setAtIndex(ADDRESS, index, call.allocateFrom(paths.get(index)));
        }
        options.set(ADDRESS, 8, filesOptions);
        options.set(JAVA_LONG, 16, flags);
        options.set(ADDRESS, 24, text(call, state));
        options.set(ADDRESS, 32, text(call, signer));
        options.set(ADDRESS, 40, lines(call, signers));
        options.set(ADDRESS, 48, Native.text(call, pin));
        options.set(JAVA_LONG, 56, generation);
        options.set(JAVA_LONG, 64, time);
        options.set(JAVA_LONG, 72, padding);
        options.set(ADDRESS, 80, names);
        options.set(JAVA_LONG, 88, paths.size());
        options.set(JAVA_LONG, 96, keep);
        options.set(JAVA_LONG, 104, keepWithin);
        options.set(ADDRESS, 112, lines(call, abandoned));
        return options;
    }

    private static Callback<TreeItem> items(Predicate<TreeItem> each) {
        return new Callback<>(
                ITEM,
                item ->
                        new TreeItem(
                                Native.text(item.get(ADDRESS, 8)),
                                Native.text(item.get(ADDRESS, 16)),
                                item.get(JAVA_LONG, 24),
                                item.get(JAVA_LONG, 32),
                                item.get(JAVA_LONG, 40),
                                Native.text(item.get(ADDRESS, 48))),
                each);
    }

    private static MemorySegment text(Arena call, Path path) {
        return Native.text(call, path == null ? null : path.toString());
    }

    private static MemorySegment lines(Arena call, List<String> lines) {
        return Native.text(call, lines.isEmpty() ? null : String.join("\n", lines));
    }
}
