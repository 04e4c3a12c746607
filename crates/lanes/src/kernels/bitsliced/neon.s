@ AES of eight blocks at once by NEON, bitsliced: register i has bit i of every byte. A byte of it
@ is one place of the state, and bit j of that byte belongs to block j. Nothing here depends on
@ what is in the blocks or the keys but the values of registers: no branch and no address.
@
@ - SubBytes and its inverse are circuits of exclusive ors and ands (circuits.s), without the
@   complements, which are in the round keys: 0x63 is added to all but the first, see keys.rs.
@ - Between the first and the last ShiftRows the state's rows follow each other, where FIPS 197 has
@   columns: so MixColumns' rotations are rotations of whole registers. Tables turn them: first,
@   middle and last.

    .syntax unified
    .arch armv7-a
    .fpu neon
    .arm
    .text

@ What a function has on the stack: the kept variables, its arguments, and the caller's sp.
    .set EVENER_KEYS, 160
    .set EVENER_ROUNDS, 164
    .set EVENER_FROM, 168
    .set EVENER_TO, 172
    .set EVENER_SP, 176
    .set EVENER_FRAME, 192

.macro evener_enter
    push {r4-r11, lr}
    vpush {d8-d15}
    mov r12, sp
    sub sp, sp, #EVENER_FRAME
    bic sp, sp, #15
    str r0, [sp, #EVENER_KEYS]
    str r1, [sp, #EVENER_ROUNDS]
    str r2, [sp, #EVENER_FROM]
    str r3, [sp, #EVENER_TO]
    str r12, [sp, #EVENER_SP]
.endm

@ Wipes what was kept.
.macro evener_leave
    vmov.i8 q0, #0
    vmov.i8 q1, #0
    mov r12, sp
    .rept 5
    vst1.64 {d0-d3}, [r12 :128]!
    .endr
    ldr sp, [sp, #EVENER_SP]
    vpop {d8-d15}
    pop {r4-r11, pc}
.endm

@ The upper nibbles of a for the lower ones of b, in every byte.
.macro evener_swap_nibbles a, b, t
    vmov \t, \a
    vsli.8 \a, \b, #4
    vsri.8 \b, \t, #4
.endm

@ The bits of a that are not in the mask for those of b that are, `by` places further down.
.macro evener_swap_bits a, b, by, mask, t, u
    vshl.u8 \t, \b, #\by
    vshr.u8 \u, \a, #\by
    vbif \a, \t, \mask
    vbit \b, \u, \mask
.endm

@ From blocks to bits and back: transposes 8 times 8 bits, for each place of the state.
.macro evener_slice a, b, c, d, e, f, g, h, t, u, mask
    evener_swap_nibbles \a, \e, \t
    evener_swap_nibbles \b, \f, \u
    evener_swap_nibbles \c, \g, \t
    evener_swap_nibbles \d, \h, \u
    vmov.i8 \mask, #0x33
    evener_swap_bits \a, \c, 2, \mask, \t, \u
    evener_swap_bits \b, \d, 2, \mask, \t, \u
    evener_swap_bits \e, \g, 2, \mask, \t, \u
    evener_swap_bits \f, \h, 2, \mask, \t, \u
    vmov.i8 \mask, #0x55
    evener_swap_bits \a, \b, 1, \mask, \t, \u
    evener_swap_bits \c, \d, 1, \mask, \t, \u
    evener_swap_bits \e, \f, 1, \mask, \t, \u
    evener_swap_bits \g, \h, 1, \mask, \t, \u
.endm

@ q0 to q7 from q8 to q15, by the table of places at r2.
.macro evener_move_bytes
    vldmia r2, {d14-d15}
    vtbl.8 d0, {d16-d17}, d14
    vtbl.8 d1, {d16-d17}, d15
    vtbl.8 d2, {d18-d19}, d14
    vtbl.8 d3, {d18-d19}, d15
    vtbl.8 d4, {d20-d21}, d14
    vtbl.8 d5, {d20-d21}, d15
    vtbl.8 d6, {d22-d23}, d14
    vtbl.8 d7, {d22-d23}, d15
    vtbl.8 d8, {d24-d25}, d14
    vtbl.8 d9, {d24-d25}, d15
    vtbl.8 d10, {d26-d27}, d14
    vtbl.8 d11, {d26-d27}, d15
    vtbl.8 d12, {d28-d29}, d14
    vtbl.8 d13, {d28-d29}, d15
    vtbl.8 d14, {d30-d31}, d14
    vtbl.8 d15, {d30-d31}, d15
.endm

@ q8 to q15: the sums of these and a key that is in q8 to q15.
.macro evener_add_key a, b, c, d, e, f, g, h
    veor q8, \a, q8
    veor q9, \b, q9
    veor q10, \c, q10
    veor q11, \d, q11
    veor q12, \e, q12
    veor q13, \f, q13
    veor q14, \g, q14
    veor q15, \h, q15
.endm

@ q8 to q15: MixColumns of a to h, which are q0 to q7 in some order. With the state's next row
@ beside each it is 2(row + next) + next + the two after that.
.macro evener_mix_columns a, b, c, d, e, f, g, h
    vext.8 q8, \a, \a, #4
    vext.8 q9, \b, \b, #4
    vext.8 q10, \c, \c, #4
    vext.8 q11, \d, \d, #4
    vext.8 q12, \e, \e, #4
    vext.8 q13, \f, \f, #4
    vext.8 q14, \g, \g, #4
    vext.8 q15, \h, \h, #4
    veor \a, \a, q8
    veor \b, \b, q9
    veor \c, \c, q10
    veor \d, \d, q11
    veor \e, \e, q12
    veor \f, \f, q13
    veor \g, \g, q14
    veor \h, \h, q15
    veor q8, q8, \h
    veor q9, q9, \a
    veor q9, q9, \h
    veor q10, q10, \b
    veor q11, q11, \c
    veor q11, q11, \h
    veor q12, q12, \d
    veor q12, q12, \h
    veor q13, q13, \e
    veor q14, q14, \f
    veor q15, q15, \g
    vext.8 \a, \a, \a, #8
    vext.8 \b, \b, \b, #8
    vext.8 \c, \c, \c, #8
    vext.8 \d, \d, \d, #8
    vext.8 \e, \e, \e, #8
    vext.8 \f, \f, \f, #8
    vext.8 \g, \g, \g, #8
    vext.8 \h, \h, \h, #8
    veor q8, q8, \a
    veor q9, q9, \b
    veor q10, q10, \c
    veor q11, q11, \d
    veor q12, q12, \e
    veor q13, q13, \f
    veor q14, q14, \g
    veor q15, q15, \h
.endm

@ InvMixColumns is MixColumns of each row with 4(row + the one after next) added.
.macro evener_prepare_inverse_mix a, b, c, d, e, f, g, h
    vext.8 q8, \a, \a, #8
    vext.8 q9, \b, \b, #8
    vext.8 q10, \c, \c, #8
    vext.8 q11, \d, \d, #8
    vext.8 q12, \e, \e, #8
    vext.8 q13, \f, \f, #8
    vext.8 q14, \g, \g, #8
    vext.8 q15, \h, \h, #8
    evener_add_key \a, \b, \c, \d, \e, \f, \g, \h
    veor \a, \a, q14
    veor \c, \c, q8
    veor \c, \c, q15
    veor \d, \d, q9
    veor \d, \d, q14
    veor \e, \e, q10
    veor \f, \f, q11
    veor \f, \f, q15
    veor \g, \g, q12
    veor \h, \h, q13
    veor q14, q14, q15
    veor \b, \b, q14
    veor \e, \e, q14
.endm

@ The addresses of what is kept.
.macro evener_set_places
    mov r3, sp
    add r4, sp, #16
    add r5, sp, #32
    add r6, sp, #48
    add r7, sp, #64
    add r8, sp, #80
    add r9, sp, #96
    add r10, sp, #112
    add r11, sp, #128
    add r12, sp, #144
.endm

@ ShiftRows: place by place, which byte comes there.
    .p2align 4
.Levener_shifts:
    .byte 0, 4, 8, 12, 5, 9, 13, 1, 10, 14, 2, 6, 15, 3, 7, 11
    .byte 0, 1, 2, 3, 5, 6, 7, 4, 10, 11, 8, 9, 15, 12, 13, 14
    .byte 0, 5, 10, 15, 1, 6, 11, 12, 2, 7, 8, 13, 3, 4, 9, 14

@ Encrypts the blocks in q0 to q7; the result is in q8 to q15. Uses all registers.
    .p2align 4
evener_encrypt_registers:
    ldr r0, [sp, #EVENER_KEYS]
    ldr r1, [sp, #EVENER_ROUNDS]
    adr r2, .Levener_shifts
    evener_set_places
    evener_slice q0, q1, q2, q3, q4, q5, q6, q7, q8, q9, q10
    vldmia r0!, {d16-d31}
    evener_add_key q0, q1, q2, q3, q4, q5, q6, q7
    evener_move_bytes
    add r2, r2, #16
1:  evener_sub_bytes
    subs r1, r1, #1
    beq 2f
    evener_mix_columns q4, q1, q6, q5, q2, q7, q3, q0
    vldmia r0!, {d0-d15}
    evener_add_key q0, q1, q2, q3, q4, q5, q6, q7
    cmp r1, #1
    addeq r2, r2, #16
    evener_move_bytes
    b 1b
2:  vldmia r0!, {d16-d31}
    evener_add_key q4, q1, q6, q5, q2, q7, q3, q0
    evener_slice q8, q9, q10, q11, q12, q13, q14, q15, q0, q1, q2
    bx lr

    .p2align 4
.Levener_inverse_shifts:
    .byte 0, 4, 8, 12, 13, 1, 5, 9, 10, 14, 2, 6, 7, 11, 15, 3
    .byte 0, 1, 2, 3, 7, 4, 5, 6, 10, 11, 8, 9, 13, 14, 15, 12
    .byte 0, 7, 10, 13, 1, 4, 11, 14, 2, 5, 8, 15, 3, 6, 9, 12

@ The same for decryption, with the keys from the last to the first.
    .p2align 4
evener_decrypt_registers:
    ldr r0, [sp, #EVENER_KEYS]
    ldr r1, [sp, #EVENER_ROUNDS]
    add r0, r0, r1, lsl #7
    add r0, r0, #128
    adr r2, .Levener_inverse_shifts
    evener_set_places
    evener_slice q0, q1, q2, q3, q4, q5, q6, q7, q8, q9, q10
    vldmdb r0!, {d16-d31}
    evener_add_key q0, q1, q2, q3, q4, q5, q6, q7
    evener_move_bytes
    add r2, r2, #16
1:  evener_inverse_sub_bytes
    vldmdb r0!, {d16-d31}
    subs r1, r1, #1
    beq 2f
    veor q1, q1, q8
    veor q7, q7, q9
    veor q4, q4, q10
    veor q2, q2, q11
    veor q0, q0, q12
    veor q3, q3, q13
    veor q6, q6, q14
    veor q5, q5, q15
    evener_prepare_inverse_mix q1, q7, q4, q2, q0, q3, q6, q5
    evener_mix_columns q1, q7, q4, q2, q0, q3, q6, q5
    cmp r1, #1
    addeq r2, r2, #16
    evener_move_bytes
    b 1b
2:  evener_add_key q1, q7, q4, q2, q0, q3, q6, q5
    evener_slice q8, q9, q10, q11, q12, q13, q14, q15, q0, q1, q2
    bx lr

@ Eight blocks, from r2 to r3.
.macro evener_blocks name, registers
    .p2align 4
    .global \name
    .hidden \name
    .type \name, %function
\name:
    evener_enter
    vld1.8 {d0-d3}, [r2]!
    vld1.8 {d4-d7}, [r2]!
    vld1.8 {d8-d11}, [r2]!
    vld1.8 {d12-d15}, [r2]
    bl \registers
    ldr r3, [sp, #EVENER_TO]
    vst1.8 {d16-d19}, [r3]!
    vst1.8 {d20-d23}, [r3]!
    vst1.8 {d24-d27}, [r3]!
    vst1.8 {d28-d31}, [r3]
    evener_leave
    .size \name, . - \name
.endm

@ evener_lanes_neon_encrypt(keys, rounds, from, to)
    evener_blocks evener_lanes_neon_encrypt, evener_encrypt_registers

@ evener_lanes_neon_decrypt(keys, rounds, from, to)
    evener_blocks evener_lanes_neon_decrypt, evener_decrypt_registers

@ evener_lanes_neon_chain(keys, rounds, chains, blocks): CBC encryption of so many blocks, one at
@ least, of each of eight messages. At `chains` are the addresses of their next input and output,
@ which it moves on, and then their last blocks of ciphertext.
.macro evener_next_plain address, register, last
    ldr r12, [r2, #\address]
    vld1.8 {\register}, [r12]!
    str r12, [r2, #\address]
    veor \register, \register, \last
.endm

.macro evener_next_sealed address, register
    ldr r12, [r2, #\address]
    vst1.8 {\register}, [r12]!
    str r12, [r2, #\address]
.endm

    .p2align 4
    .global evener_lanes_neon_chain
    .hidden evener_lanes_neon_chain
    .type evener_lanes_neon_chain, %function
evener_lanes_neon_chain:
    evener_enter
    add r12, r2, #64
    vldmia r12, {d16-d31}
1:  ldr r2, [sp, #EVENER_FROM]
    evener_next_plain 0, q0, q8
    evener_next_plain 4, q1, q9
    evener_next_plain 8, q2, q10
    evener_next_plain 12, q3, q11
    evener_next_plain 16, q4, q12
    evener_next_plain 20, q5, q13
    evener_next_plain 24, q6, q14
    evener_next_plain 28, q7, q15
    bl evener_encrypt_registers
    ldr r2, [sp, #EVENER_FROM]
    evener_next_sealed 32, q8
    evener_next_sealed 36, q9
    evener_next_sealed 40, q10
    evener_next_sealed 44, q11
    evener_next_sealed 48, q12
    evener_next_sealed 52, q13
    evener_next_sealed 56, q14
    evener_next_sealed 60, q15
    ldr r3, [sp, #EVENER_TO]
    subs r3, r3, #1
    str r3, [sp, #EVENER_TO]
    bne 1b
    add r12, r2, #64
    vstmia r12, {d16-d31}
    evener_leave
    .size evener_lanes_neon_chain, . - evener_lanes_neon_chain

@ evener_lanes_neon_add(to, one, other): the sum of eight blocks and eight others.
    .p2align 4
    .global evener_lanes_neon_add
    .hidden evener_lanes_neon_add
    .type evener_lanes_neon_add, %function
evener_lanes_neon_add:
    .rept 4
    vld1.8 {d0-d3}, [r1]!
    vld1.8 {d16-d19}, [r2]!
    veor q0, q0, q8
    veor q1, q1, q9
    vst1.8 {d0-d3}, [r0]!
    .endr
    bx lr
    .size evener_lanes_neon_add, . - evener_lanes_neon_add

@ evener_lanes_neon_slice(blocks): from blocks to bits, in place.
    .p2align 4
    .global evener_lanes_neon_slice
    .hidden evener_lanes_neon_slice
    .type evener_lanes_neon_slice, %function
evener_lanes_neon_slice:
    vpush {d8-d15}
    vldmia r0, {d0-d15}
    evener_slice q0, q1, q2, q3, q4, q5, q6, q7, q8, q9, q10
    vstmia r0, {d0-d15}
    vpop {d8-d15}
    bx lr
    .size evener_lanes_neon_slice, . - evener_lanes_neon_slice
