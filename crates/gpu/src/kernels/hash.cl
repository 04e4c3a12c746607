// What GHASH and Poly1305 share. Both evaluate a polynomial whose coefficients are the blocks of the
// additional data, the blocks of the ciphertext, each filled up with zeros, and a block with the two
// lengths.
//
// The blocks are cut into stripes, counted from the end, so that the stripe `j` is followed by
// STRIPE * j blocks. A thread evaluates a stripe by Horner's rule. Then the stripes' values are the
// coefficients of a polynomial in the STRIPE-th power of the key: few are joined by a thread, many
// by a group.
//
// Scratch memory holds MESSAGE_WORDS of every message, then STRIPE_WORDS of every stripe.

#define STRIPE 16u
#define JOINED_STRIPES 32u
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
