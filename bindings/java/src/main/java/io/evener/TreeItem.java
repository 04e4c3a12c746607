package io.evener;

/**
 * An entry, generation, difference or signer of a sealed tree.
 *
 * @param name the path below the root of the tree, empty for the root itself; a generation's digest;
 *     a signer's line; or the fingerprint of one who is revoked
 * @param kind of an entry: {@code file}, {@code directory}, {@code symlink}, or {@code link} for a
 *     further name of a file. Of a generation: {@code whole} or {@code removed}. Of a difference:
 *     {@code added}, {@code removed}, {@code kind}, {@code content} or {@code metadata}. Of a signer:
 *     {@code signer} or {@code revoked}
 * @param bytes bytes of content; of a difference, those after it; else 0
 * @param time the time of the last modification, or that of a generation, in seconds since 1970;
 *     else 0
 * @param generation the number of a generation; of a file, that for which its content was sealed; of
 *     one who is revoked, the last good one; else 0
 * @param json all of this and more, as the program's {@code --json} prints it
 */
public record TreeItem(
        String name, String kind, long bytes, long time, long generation, String json) {}
