package io.evener;

/** How an operation on a sealed tree is to be done. The order is that of the bits in evener.h. */
public enum TreeOption {
    /** To seal: compare every file by its content, not by size and times. */
    CHECKSUM,
    /**
     * Accept a tree for recipients that nobody has signed. Recipients are not secret, so anybody
     * could have made it.
     */
    UNSIGNED,
    /** Accept an older generation or another tree than this machine has seen, this once. */
    ALLOW_ROLLBACK,
    /**
     * To verify: read no content. This finds missing, cut and exchanged files, not decayed ones.
     */
    QUICK,
    /** To list: only the entries of the directories in {@link SealedTree#paths}, not those below. */
    SHALLOW,
    /** To wrap keys for others: remove old wrappings also where nothing given opens the new ones. */
    TRUST_UNOPENED,
    /**
     * To seal: accept other recipients or another passphrase than this machine last sealed for, as
     * after {@link SealedTree#rewrap} on another machine. Otherwise that is an error, since others
     * could not read unchanged files.
     */
    RECIPIENTS_CHANGED;

    long flag() {
        return 1L << ordinal();
    }
}
