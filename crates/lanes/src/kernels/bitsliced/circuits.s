@ SubBytes and InvSubBytes as circuits of exclusive ors (+) and ands (·): Boyar and Peralta's of 113
@ gates, and for the inverse one of 127, both as the crate `aes` has them (soft/fixslice32.rs), with
@ their variables' names. u0 is the upper bit of a byte, u7 in q0 the lowest.
@
@ There are more variables than registers: some are kept in memory for a while. r3 to r12 hold the
@ addresses of 16 bytes each. The order of the gates and the registers were found by a search for the
@ fewest such instructions, 18 and 22.

@ SubBytes of q0 to q7, without its complements. The result is in q4, q1, q6, q5, q2, q7, q3, q0.
.macro evener_sub_bytes
    veor q15, q4, q2               @ y14 = u3 + u5
    veor q14, q6, q5               @ t0 = u1 + u2
    veor q13, q14, q0              @ y1 = t0 + u7
    veor q12, q13, q4              @ y4 = y1 + u3
    vand q11, q12, q0              @ t5 = y4 · u7
    veor q10, q13, q1              @ y5 = y1 + u6
    veor q9, q7, q1                @ y13 = u0 + u6
    veor q8, q7, q2                @ y8 = u0 + u5
    veor q5, q9, q15               @ y12 = y13 + y14
    veor q3, q3, q5                @ t1 = u4 + y12
    veor q6, q3, q6                @ y20 = t1 + u1
    veor q3, q3, q2                @ y15 = t1 + u5
    veor q2, q3, q0                @ y6 = y15 + u7
    veor q1, q10, q8               @ y3 = y5 + y8
    vst1.64 {d24-d25}, [r3 :128]   @ keep y4
    vand q12, q1, q2               @ t3 = y3 · y6
    veor q4, q7, q4                @ y9 = u0 + u3
    vst1.64 {d4-d5}, [r4 :128]     @ keep y6
    veor q2, q6, q4                @ y11 = y20 + y9
    vst1.64 {d2-d3}, [r5 :128]     @ keep y3
    vand q1, q5, q3                @ t2 = y12 · y15
    vst1.64 {d10-d11}, [r6 :128]   @ keep y12
    veor q5, q14, q2               @ y16 = t0 + y11
    veor q14, q3, q14              @ y10 = y15 + t0
    veor q11, q11, q1              @ t6 = t5 + t2
    veor q12, q12, q1              @ t4 = t3 + t2
    vand q1, q8, q14               @ t15 = y8 · y10
    veor q12, q12, q6              @ t17 = t4 + y20
    vand q6, q4, q2                @ t12 = y9 · y11
    veor q1, q1, q6                @ t16 = t15 + t12
    vst1.64 {d8-d9}, [r7 :128]     @ keep y9
    veor q4, q14, q2               @ y17 = y10 + y11
    vst1.64 {d6-d7}, [r8 :128]     @ keep y15
    vand q3, q15, q4               @ t13 = y14 · y17
    veor q6, q3, q6                @ t14 = t13 + t12
    vand q3, q10, q13              @ t8 = y5 · y1
    veor q12, q12, q6              @ t21 = t17 + t14
    vst1.64 {d8-d9}, [r9 :128]     @ keep y17
    veor q4, q0, q2                @ y7 = u7 + y11
    vst1.64 {d30-d31}, [r10 :128]  @ keep y14
    vand q15, q9, q5               @ t7 = y13 · y16
    veor q3, q3, q15               @ t9 = t8 + t7
    veor q6, q3, q6                @ t19 = t9 + t14
    veor q11, q11, q1              @ t18 = t6 + t16
    veor q3, q13, q7               @ y2 = y1 + u0
    vst1.64 {d4-d5}, [r11 :128]    @ keep y11
    vand q2, q3, q4                @ t10 = y2 · y7
    veor q7, q7, q5                @ y18 = u0 + y16
    veor q15, q2, q15              @ t11 = t10 + t7
    veor q2, q9, q5                @ y21 = y13 + y16
    veor q15, q15, q1              @ t20 = t11 + t16
    veor q15, q15, q7              @ t24 = t20 + y18
    veor q7, q14, q8               @ y19 = y10 + y8
    veor q6, q6, q2                @ t23 = t19 + y21
    veor q2, q6, q15               @ t30 = t23 + t24
    vand q1, q12, q6               @ t26 = t21 · t23
    veor q11, q11, q7              @ t22 = t18 + y19
    veor q7, q11, q1               @ t31 = t22 + t26
    veor q12, q12, q11             @ t25 = t21 + t22
    veor q1, q15, q1               @ t27 = t24 + t26
    vand q7, q7, q2                @ t32 = t31 · t30
    veor q7, q7, q15               @ t33 = t32 + t24
    vand q2, q12, q1               @ t28 = t25 · t27
    veor q11, q2, q11              @ t29 = t28 + t22
    veor q2, q1, q7                @ t35 = t27 + t33
    vand q15, q15, q2              @ t36 = t24 · t35
    veor q6, q6, q7                @ t34 = t23 + t33
    veor q2, q1, q15               @ t38 = t27 + t36
    vand q2, q11, q2               @ t39 = t29 · t38
    vand q4, q11, q4               @ z5 = t29 · y7
    veor q12, q12, q2              @ t40 = t25 + t39
    vand q10, q12, q10             @ z13 = t40 · y5
    veor q2, q11, q12              @ t43 = t29 + t40
    veor q15, q15, q6              @ t37 = t36 + t34
    vand q9, q2, q9                @ z12 = t43 · y13
    veor q6, q12, q15              @ t41 = t40 + t37
    veor q1, q11, q7               @ t42 = t29 + t33
    vand q13, q12, q13             @ z4 = t40 · y1
    vand q12, q7, q0               @ z2 = t33 · u7
    vld1.64 {d0-d1}, [r5 :128]     @ y3 again
    vand q0, q15, q0               @ z10 = t37 · y3
    vand q8, q6, q8                @ z17 = t41 · y8
    vand q5, q2, q5                @ z3 = t43 · y16
    vld1.64 {d4-d5}, [r4 :128]     @ y6 again
    vand q2, q15, q2               @ z1 = t37 · y6
    vand q14, q6, q14              @ z8 = t41 · y10
    veor q13, q5, q13              @ tc6 = z3 + z4
    veor q6, q1, q6                @ t45 = t42 + t41
    veor q5, q5, q4                @ tc12 = z3 + z5
    veor q15, q7, q15              @ t44 = t33 + t37
    vld1.64 {d8-d9}, [r3 :128]     @ y4 again
    vand q7, q7, q4                @ z11 = t33 · y4
    vld1.64 {d8-d9}, [r8 :128]     @ y15 again
    vand q4, q15, q4               @ z0 = t44 · y15
    veor q12, q4, q12              @ tc4 = z0 + z2
    vand q11, q11, q3              @ z14 = t29 · y2
    veor q5, q12, q5               @ tc14 = tc4 + tc12
    veor q12, q9, q12              @ tc7 = z12 + tc4
    veor q14, q14, q12             @ tc9 = z8 + tc7
    vld1.64 {d24-d25}, [r11 :128]  @ y11 again
    vand q12, q1, q12              @ z6 = t42 · y11
    veor q4, q2, q4                @ tc5 = z1 + z0
    vld1.64 {d6-d7}, [r6 :128]     @ y12 again
    vand q15, q15, q3              @ z9 = t44 · y12
    vld1.64 {d6-d7}, [r7 :128]     @ y9 again
    vand q3, q1, q3                @ z15 = t42 · y9
    vld1.64 {d4-d5}, [r10 :128]    @ y14 again
    vand q2, q6, q2                @ z16 = t45 · y14
    vld1.64 {d2-d3}, [r9 :128]     @ y17 again
    vand q6, q6, q1                @ z7 = t45 · y17
    veor q2, q3, q2                @ tc1 = z15 + z16
    veor q6, q6, q13               @ tc8 = z7 + tc6
    veor q12, q12, q6              @ tc16 = z6 + tc8
    veor q14, q6, q14              @ tc10 = tc8 + tc9
    veor q10, q10, q2              @ tc13 = z13 + tc1
    veor q6, q0, q2                @ tc2 = z10 + tc1
    veor q15, q15, q6              @ tc3 = z9 + tc2
    veor q13, q13, q4              @ tc11 = tc6 + tc5
    veor q10, q10, q5              @ tc18 = tc13 + tc14
    veor q0, q15, q12              @ s0 = tc3 + tc16
    veor q1, q14, q10              @ s6 = tc10 + tc18
    veor q2, q15, q13              @ s3 = tc3 + tc11
    veor q4, q9, q10               @ s7 = z12 + tc18
    veor q15, q6, q7               @ tc21 = tc2 + z11
    veor q14, q11, q14             @ tc17 = z14 + tc10
    veor q6, q15, q14              @ s5 = tc21 + tc17
    veor q15, q3, q12              @ tc20 = z15 + tc16
    veor q3, q2, q12               @ s1 = s3 + tc16
    veor q5, q5, q2                @ s4 = tc14 + s3
    veor q15, q14, q15             @ tc26 = tc17 + tc20
    veor q7, q15, q8               @ s2 = tc26 + z17
.endm

@ InvSubBytes of q0 to q7, with 0x63 added. The result is in q1, q7, q4, q2, q0, q3, q6, q5.
.macro evener_inverse_sub_bytes
    veor q15, q7, q6               @ t2 = u0 + u1
    veor q14, q7, q4               @ t23 = u0 + u3
    veor q13, q6, q1               @ r13 = u1 + u6
    veor q12, q6, q4               @ t22 = u1 + u3
    veor q11, q5, q2               @ r17 = u2 + u5
    veor q10, q1, q0               @ r5 = u6 + u7
    veor q9, q2, q1                @ r18 = u5 + u6
    veor q8, q12, q10              @ t19 = t22 + r5
    veor q6, q6, q14               @ t8 = u1 + t23
    veor q7, q7, q11               @ y5 = u0 + r17
    vand q2, q14, q6               @ m2 = t23 · t8
    veor q1, q15, q10              @ t13 = t2 + r5
    veor q11, q12, q11             @ t6 = t22 + r17
    vst1.64 {d28-d29}, [r3 :128]   @ keep t23
    vand q14, q8, q7               @ m4 = t19 · y5
    vst1.64 {d14-d15}, [r4 :128]   @ keep y5
    vand q7, q1, q11               @ m1 = t13 · t6
    veor q14, q14, q7              @ m5 = m4 + m1
    vst1.64 {d2-d3}, [r5 :128]     @ keep t13
    veor q1, q3, q6                @ t4 = u4 + t8
    vst1.64 {d22-d23}, [r6 :128]   @ keep t6
    veor q11, q5, q3               @ r19 = u2 + u4
    veor q4, q4, q3                @ t1 = u3 + u4
    veor q10, q4, q10              @ t3 = t1 + r5
    veor q3, q3, q0                @ t24 = u4 + u7
    vst1.64 {d12-d13}, [r7 :128]   @ keep t8
    veor q6, q15, q3               @ t10 = t2 + t24
    vst1.64 {d24-d25}, [r8 :128]   @ keep t22
    veor q12, q6, q9               @ t14 = t10 + r18
    veor q14, q14, q3              @ m17 = m5 + t24
    veor q3, q3, q13               @ t20 = t24 + r13
    veor q9, q4, q9                @ t27 = t1 + r18
    veor q12, q12, q7              @ m3 = t14 + m1
    veor q12, q12, q2              @ m16 = m3 + m2
    veor q13, q13, q11             @ t16 = r13 + r19
    veor q11, q6, q9               @ t15 = t10 + t27
    vand q7, q15, q6               @ m14 = t2 · t10
    vand q2, q10, q13              @ m6 = t3 · t16
    vst1.64 {d30-d31}, [r9 :128]   @ keep t2
    veor q15, q5, q8               @ t17 = u2 + t19
    vst1.64 {d12-d13}, [r10 :128]  @ keep t10
    vand q6, q4, q11               @ m11 = t1 · t15
    vst1.64 {d16-d17}, [r11 :128]  @ keep t19
    vand q8, q1, q9                @ m12 = t4 · t27
    vst1.64 {d2-d3}, [r12 :128]    @ keep t4
    vand q1, q3, q15               @ m9 = t20 · t17
    veor q8, q8, q6                @ m13 = m12 + m11
    veor q1, q1, q2                @ m10 = m9 + m6
    veor q12, q12, q8              @ m20 = m16 + m13
    veor q0, q0, q4                @ t9 = u7 + t1
    veor q7, q7, q6                @ m15 = m14 + m11
    veor q6, q10, q13              @ t26 = t3 + t16
    veor q5, q5, q4                @ t25 = u2 + t1
    veor q6, q6, q2                @ m8 = t26 + m6
    veor q2, q1, q7                @ m19 = m10 + m15
    veor q5, q2, q5                @ m23 = m19 + t25
    veor q14, q14, q7              @ m21 = m17 + m15
    vld1.64 {d14-d15}, [r8 :128]   @ t22 again
    vand q2, q7, q0                @ m7 = t22 · t9
    veor q6, q6, q2                @ m18 = m8 + m7
    veor q2, q12, q14              @ m27 = m20 + m21
    vand q1, q12, q5               @ m31 = m20 · m23
    vand q1, q2, q1                @ m32 = m27 · m31
    veor q8, q6, q8                @ m22 = m18 + m13
    vand q12, q8, q12              @ m25 = m22 · m20
    veor q6, q2, q12               @ m33 = m27 + m25
    veor q6, q1, q6                @ m38 = m32 + m33
    veor q1, q5, q12               @ m28 = m23 + m25
    vand q2, q1, q2                @ m29 = m28 · m27
    vand q1, q14, q8               @ m34 = m21 · m22
    veor q2, q14, q2               @ m37 = m21 + m29
    veor q14, q14, q12             @ m26 = m21 + m25
    vand q0, q6, q0                @ m50 = m38 · t9
    veor q8, q8, q5                @ m24 = m22 + m23
    vand q1, q8, q1                @ m35 = m24 · m34
    vand q14, q14, q8              @ m30 = m26 · m24
    veor q14, q5, q14              @ m39 = m23 + m30
    veor q12, q8, q12              @ m36 = m24 + m25
    vand q8, q6, q7                @ m59 = m38 · t22
    veor q7, q2, q14               @ m42 = m37 + m39
    veor q12, q1, q12              @ m40 = m35 + m36
    veor q5, q2, q6                @ m43 = m37 + m38
    vand q13, q5, q13              @ m49 = m43 · t16
    veor q1, q14, q12              @ m44 = m39 + m40
    vand q10, q5, q10              @ m58 = m43 · t3
    vld1.64 {d10-d11}, [r3 :128]   @ t23 again
    vand q5, q12, q5               @ m56 = m40 · t23
    vand q4, q7, q4                @ m61 = m42 · t1
    veor q6, q6, q12               @ m41 = m38 + m40
    vand q3, q2, q3                @ m60 = m37 · t20
    vand q15, q2, q15              @ m51 = m37 · t17
    vld1.64 {d4-d5}, [r4 :128]     @ y5 again
    vand q2, q14, q2               @ m48 = m39 · y5
    vand q11, q7, q11              @ m52 = m42 · t15
    veor q7, q7, q6                @ m45 = m42 + m41
    veor q11, q11, q4              @ p0 = m52 + m61
    veor q5, q2, q5                @ p4 = m48 + m56
    vst1.64 {d4-d5}, [r3 :128]     @ keep m48
    vld1.64 {d4-d5}, [r11 :128]    @ t19 again
    vand q14, q14, q2              @ m57 = m39 · t19
    vand q9, q7, q9                @ m53 = m45 · t27
    veor q9, q0, q9                @ p8 = m50 + m53
    veor q3, q13, q3               @ p6 = m49 + m60
    veor q2, q14, q5               @ p10 = m57 + p4
    veor q14, q14, q4              @ p16 = m57 + m61
    vld1.64 {d8-d9}, [r7 :128]     @ t8 again
    vand q12, q12, q4              @ m47 = m40 · t8
    veor q5, q5, q3                @ p20 = p4 + p6
    vld1.64 {d8-d9}, [r10 :128]    @ t10 again
    vand q4, q6, q4                @ m54 = m41 · t10
    veor q12, q12, q0              @ p3 = m47 + m50
    vld1.64 {d0-d1}, [r12 :128]    @ t4 again
    vand q7, q7, q0                @ m62 = m45 · t4
    veor q0, q10, q8               @ p1 = m58 + m59
    veor q3, q3, q2                @ p25 = p6 + p10
    veor q8, q4, q8                @ p15 = m54 + m59
    veor q4, q4, q7                @ p2 = m54 + m62
    veor q8, q8, q5                @ p29 = p15 + p20
    veor q7, q13, q7               @ p14 = m49 + m62
    veor q5, q11, q0               @ p7 = p0 + p1
    veor q13, q13, q15             @ p13 = m49 + m51
    veor q11, q11, q12             @ p11 = p0 + p3
    veor q10, q10, q4              @ p17 = m58 + p2
    veor q3, q11, q3               @ p28 = p11 + p25
    vld1.64 {d0-d1}, [r6 :128]     @ t6 again
    vand q0, q1, q0                @ m46 = m44 · t6
    veor q3, q10, q3               @ s2 = p17 + p28
    veor q10, q5, q9               @ p23 = p7 + p8
    vld1.64 {d18-d19}, [r3 :128]   @ m48 again
    veor q9, q0, q9                @ p12 = m46 + m48
    veor q15, q0, q15              @ p5 = m46 + m51
    vld1.64 {d0-d1}, [r9 :128]     @ t2 again
    vand q6, q6, q0                @ m63 = m41 · t2
    vld1.64 {d0-d1}, [r5 :128]     @ t13 again
    vand q1, q1, q0                @ m55 = m44 · t13
    veor q1, q1, q6                @ p9 = m55 + m63
    veor q6, q6, q15               @ p18 = m63 + p5
    veor q0, q4, q5                @ p22 = p2 + p7
    veor q11, q1, q11              @ p26 = p9 + p11
    veor q15, q15, q5              @ p24 = p5 + p7
    veor q6, q2, q6                @ p27 = p10 + p18
    veor q2, q10, q6               @ s4 = p23 + p27
    veor q12, q4, q12              @ p19 = p2 + p3
    veor q4, q12, q15              @ s5 = p19 + p24
    veor q5, q13, q0               @ s0 = p13 + p22
    veor q0, q9, q0                @ s3 = p12 + p22
    veor q1, q1, q14               @ s7 = p9 + p16
    veor q6, q11, q8               @ s1 = p26 + p29
    veor q7, q7, q10               @ s6 = p14 + p23
.endm
