// What GHASH and Poly1305 share. Both evaluate a polynomial whose coefficients are the blocks of the
// additional data, the blocks of the ciphertext, each filled up with zeros, and a block with the two
// lengths.
//
// The blocks are cut into stripes, counted from the end, so that the stripe `j` is followed by
// STRIPE * j blocks. A thread evaluates a stripe by Horner's rule. Then the stripes' values are the
// coefficients of a polynomial in the STRIPE-th power of the key. A thread joins them if they are few.
// Many are folded: in each pass a thread joins FOLDED values to one, which takes the place of the first
// of them, until few are left. The pass that joins these writes the message's value.
//
// Scratch memory holds MESSAGE_WORDS of every message, then STRIPE_WORDS of every stripe.

#define STRIPE 16u
#define JOINED_STRIPES 32u
#define FOLDED 16u
#define FOLDED_SHIFT 4u
#define MESSAGE_WORDS 24u
#define STRIPE_WORDS 8u

static ulong blocks_of(ulong bytes) {
    return (bytes + 15) / 16;
}

static ulong hashed_blocks(__global const Message *message) {
    return blocks_of(message->aad_length) + blocks_of(message->length) + 1;
}

static ulong stripes_of(__global const Message *message) {
    return (hashed_blocks(message) + STRIPE - 1) / STRIPE;
}

// A block of the additional data or the ciphertext.
static uint4 hashed_block(__global const Message *message, __global const uchar *input,
                          __global const uchar *text, ulong number) {
    ulong aad = blocks_of(message->aad_length);
    if (number < aad) {
        ulong offset = number * 16;
        return load_block(input + message->aad + offset, bytes_at(message->aad_length, offset, 16));
    }
    ulong offset = (number - aad) * 16;
    return load_block(text + offset, bytes_at(message->length, offset, 16));
}

static __global uint *stripe_values(__global uint *scratch, uint messages, ulong stripe) {
    return scratch + (ulong)messages * MESSAGE_WORDS + stripe * STRIPE_WORDS;
}

// The values that a thread joins in a pass.
typedef struct {
    ulong first; // the place of the first of them, as a stripe of all messages
    uint count;  // 0 if there is nothing to do
    bool is_all; // true if the message has no others
} Fold;

// The first thread of a message in a pass: every message has one thread more than it needs at most.
static ulong first_fold(__global const Message *messages, uint m, uint shift) {
    return (messages[m].stripes >> (shift + FOLDED_SHIFT)) + m;
}

// The work of a thread in a pass whose values are `1 << shift` stripes apart. `m` becomes its message.
static Fold fold_of(__global const Message *messages, uint count, ulong thread, uint shift, uint *m) {
    uint low = 0, high = count;
    while (high - low > 1) {
        uint middle = low + (high - low) / 2;
        if (first_fold(messages, middle, shift) <= thread) low = middle;
        else high = middle;
    }
    *m = low;
    ulong stripes = stripes_of(&messages[low]), values = ((stripes - 1) >> shift) + 1;
    ulong number = thread - first_fold(messages, low, shift), before = number * FOLDED;
    Fold fold = {messages[low].stripes + (before << shift), 0, values <= JOINED_STRIPES};
    ulong previous = shift == 0 ? stripes : ((stripes - 1) >> (shift - FOLDED_SHIFT)) + 1;
    if (previous <= JOINED_STRIPES || before >= values || (fold.is_all && number > 0)) return fold;
    fold.count = fold.is_all || values - before < FOLDED ? (uint)(values - before) : FOLDED;
    return fold;
}
