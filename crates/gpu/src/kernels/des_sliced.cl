// CBC decryption of 3DES, bitsliced: a thread does 32 blocks of a message side by side, word i of
// the state holding bit i of each (from the highest on). S-boxes are circuits, so there are no
// look-ups.
//
// The circuits were found for this file by a search from the tables of FIPS 46-3: each output is
// expanded by one variable after the other, in random order, and shares what others have. A step is
// a function of three words, which NVIDIA's processors do in one instruction.

// Declares `name`: of the words a, b, c the function with this table, which the expression is too.
#ifdef __NVPTX__
#define LOGIC(name, a, b, c, table, expression)       \
    uint name;                                        \
    __asm__("lop3.b32 %0, %1, %2, %3, " #table ";"    \
            : "=r"(name)                              \
            : "r"(a), "r"(b), "r"(c));
#else
#define LOGIC(name, a, b, c, table, expression) uint name = expression;
#endif

// All ones where a bit of a box's six key bits is set, else zero.
#define DES_KEY_BIT(six, bit) ((uint)((int)((six) << (31 - (bit))) >> 31))

// A box: six words of the state and the key's six bits in, and out to four words of the other half.
#define DES_CIRCUIT(name)                                                                         \
    static void name(uint x1, uint x2, uint x3, uint x4, uint x5, uint x6, uint six, uint *o1,    \
                     uint *o2, uint *o3, uint *o4) {                                              \
        x1 ^= DES_KEY_BIT(six, 5);                                                                \
        x2 ^= DES_KEY_BIT(six, 4);                                                                \
        x3 ^= DES_KEY_BIT(six, 3);                                                                \
        x4 ^= DES_KEY_BIT(six, 2);                                                                \
        x5 ^= DES_KEY_BIT(six, 1);                                                                \
        x6 ^= DES_KEY_BIT(six, 0);

DES_CIRCUIT(des_box_1)
    LOGIC(t1, x1, x2, x4, 0x6c, x2 ^ (x1 & x4))
    LOGIC(t2, x1, x2, x4, 0xb5, ~x4 ^ (x1 & (x2 | x4)))
    LOGIC(t3, x6, t1, t2, 0x6c, t1 ^ (x6 & t2))
    LOGIC(t4, x1, x2, x4, 0x67, (x2 ^ x4) | (~(x1 | x2)))
    LOGIC(t5, x6, t4, x6, 0x3c, x6 ^ t4)
    LOGIC(t6, x3, t3, t5, 0xac, t3 ^ (x3 & (t3 ^ t5)))
    LOGIC(t7, x3, x4, x6, 0xb7, ~(x4 & (x3 ^ x6)))
    LOGIC(t8, x2, x3, x6, 0xb6, (x2 & x6) | (x2 ^ (x3 ^ x6)))
    LOGIC(t9, x2, x6, x2, 0x3c, x2 ^ x6)
    LOGIC(t10, x4, t8, t9, 0xc6, t8 ^ (t9 & ~x4))
    LOGIC(t11, x1, t7, t10, 0xac, t7 ^ (x1 & (t7 ^ t10)))
    LOGIC(t12, x5, t6, t11, 0xc6, t6 ^ (t11 & ~x5))
    LOGIC(t13, x2, x4, x6, 0xcd, x4 | (~(x2 | x6)))
    LOGIC(t14, x2, x6, x2, 0xfc, x2 | x6)
    LOGIC(t15, x1, t13, t14, 0x6c, t13 ^ (x1 & t14))
    LOGIC(t16, x1, t4, t9, 0x38, (x1 ^ t4) & (x1 | t9))
    LOGIC(t17, x3, t15, t16, 0xac, t15 ^ (x3 & (t15 ^ t16)))
    LOGIC(t18, x1, x2, x6, 0x9a, x6 ^ (x1 & ~x2))
    LOGIC(t19, x1, x2, x6, 0x2f, ~x1 | (x6 & ~x2))
    LOGIC(t20, x3, t18, t19, 0xac, t18 ^ (x3 & (t18 ^ t19)))
    LOGIC(t21, x3, t9, t19, 0xc7, ~x3 ^ (t9 & (x3 | t19)))
    LOGIC(t22, x4, t20, t21, 0xac, t20 ^ (x4 & (t20 ^ t21)))
    LOGIC(t23, x5, t17, t22, 0x6c, t17 ^ (x5 & t22))
    LOGIC(t24, x2, x5, x6, 0x70, x2 & (~(x5 & x6)))
    LOGIC(t25, x2, x5, x6, 0xc6, x5 ^ (x6 & ~x2))
    LOGIC(t26, x4, t24, t25, 0xc6, t24 ^ (t25 & ~x4))
    LOGIC(t27, x2, x4, x5, 0x8b, (x2 | x4) ^ (~(x4 & x5)))
    LOGIC(t28, x6, t27, x6, 0xfc, x6 | t27)
    LOGIC(t29, x3, t26, t28, 0x6c, t26 ^ (x3 & t28))
    LOGIC(t30, x4, x6, x4, 0xfc, x4 | x6)
    LOGIC(t31, x2, x4, x6, 0x09, ~(x2 | (x4 ^ x6)))
    LOGIC(t32, x5, t30, t31, 0x6c, t30 ^ (x5 & t31))
    LOGIC(t33, x4, t9, t26, 0xb7, ~(t9 & (x4 ^ t26)))
    LOGIC(t34, x3, t32, t33, 0xac, t32 ^ (x3 & (t32 ^ t33)))
    LOGIC(t35, x1, t29, t34, 0xc6, t29 ^ (t34 & ~x1))
    LOGIC(t36, x3, x4, x6, 0x79, (x4 & x6) ^ (x3 | (~(x4 | x6))))
    LOGIC(t37, x3, x4, x3, 0x3f, ~(x3 & x4))
    LOGIC(t38, x1, t36, t37, 0x6c, t36 ^ (x1 & t37))
    LOGIC(t39, x1, x4, x6, 0xeb, x6 | (x1 ^ ~x4))
    LOGIC(t40, x1, x4, x6, 0x7f, ~(x1 & (x4 & x6)))
    LOGIC(t41, x3, t39, t40, 0x6c, t39 ^ (x3 & t40))
    LOGIC(t42, x5, t38, t41, 0x6c, t38 ^ (x5 & t41))
    LOGIC(t43, x1, t20, t38, 0x57, ~(t38 & (x1 | t20)))
    LOGIC(t44, x1, x3, t39, 0x66, x3 ^ t39)
    LOGIC(t45, x5, t43, t44, 0xac, t43 ^ (x5 & (t43 ^ t44)))
    LOGIC(t46, x2, t42, t45, 0xac, t42 ^ (x2 & (t42 ^ t45)))
    *o1 ^= t12; *o2 ^= t23; *o3 ^= t46; *o4 ^= t35;
}

DES_CIRCUIT(des_box_2)
    LOGIC(t1, x1, x4, x5, 0x69, ~x1 ^ (x4 ^ x5))
    LOGIC(t2, x1, x4, x5, 0xec, x4 | (x1 & x5))
    LOGIC(t3, x6, t2, x6, 0x0c, t2 & ~x6)
    LOGIC(t4, x2, t1, t3, 0x6c, t1 ^ (x2 & t3))
    LOGIC(t5, x4, x5, x6, 0x2a, x6 & (~(x4 & x5)))
    LOGIC(t6, x1, x5, x6, 0xbf, x6 | (~(x1 & x5)))
    LOGIC(t7, x2, t5, t6, 0x6c, t5 ^ (x2 & t6))
    LOGIC(t8, x3, t4, t7, 0xc6, t4 ^ (t7 & ~x3))
    LOGIC(t9, x4, x5, x6, 0x16, (x4 | x5) ^ (x6 | (x4 & x5)))
    LOGIC(t10, x4, x6, x4, 0x3c, x4 ^ x6)
    LOGIC(t11, x1, t9, t10, 0xac, t9 ^ (x1 & (t9 ^ t10)))
    LOGIC(t12, x1, x4, x5, 0x9f, ~(x1 & (x4 ^ x5)))
    LOGIC(t13, x1, x4, x5, 0xed, x4 | (x1 ^ ~x5))
    LOGIC(t14, x6, t12, t13, 0xd7, ~(t13 & (x6 ^ t12)))
    LOGIC(t15, x2, t11, t14, 0x6c, t11 ^ (x2 & t14))
    LOGIC(t16, x1, x5, x6, 0x89, (x5 ^ ~x6) & (x5 | ~x1))
    LOGIC(t17, x1, x5, x6, 0x64, (x1 | x5) & (x5 ^ x6))
    LOGIC(t18, x2, t16, t17, 0xec, t16 | (x2 & t17))
    LOGIC(t19, x3, t15, t18, 0xc6, t15 ^ (t18 & ~x3))
    LOGIC(t20, x1, x3, x5, 0x34, x3 ^ (x1 | (x3 & x5)))
    LOGIC(t21, x1, x3, x5, 0x62, (x1 | x5) & (x3 ^ x5))
    LOGIC(t22, x4, t20, t21, 0x6c, t20 ^ (x4 & t21))
    LOGIC(t23, x1, x4, x5, 0xfe, x1 | (x4 | x5))
    LOGIC(t24, x1, x4, x1, 0xcf, x4 | ~x1)
    LOGIC(t25, x3, t23, t24, 0xd7, ~(t24 & (x3 ^ t23)))
    LOGIC(t26, x2, t22, t25, 0xc6, t22 ^ (t25 & ~x2))
    LOGIC(t27, x2, x3, x5, 0xba, x5 | (x2 & ~x3))
    LOGIC(t28, x2, x3, x5, 0x46, x5 ^ (x3 | (x2 & x5)))
    LOGIC(t29, x2, x3, x5, 0x9c, x3 ^ (x2 & ~x5))
    LOGIC(t30, x4, t28, t29, 0xc6, t28 ^ (t29 & ~x4))
    LOGIC(t31, x1, t27, t30, 0xc6, t27 ^ (t30 & ~x1))
    LOGIC(t32, x6, t26, t31, 0xc6, t26 ^ (t31 & ~x6))
    LOGIC(t33, x1, x2, x3, 0xad, (x2 & x3) | (x1 ^ ~x3))
    LOGIC(t34, x5, t33, x5, 0x3c, x5 ^ t33)
    LOGIC(t35, x2, x3, x5, 0x7d, ~x5 | (x2 ^ x3))
    LOGIC(t36, x2, x3, x5, 0xb2, (x2 | x5) ^ (x3 & (x2 ^ x5)))
    LOGIC(t37, x1, t35, t36, 0xd7, ~(t36 & (x1 ^ t35)))
    LOGIC(t38, x6, t34, t37, 0x6c, t34 ^ (x6 & t37))
    LOGIC(t39, x2, x5, t6, 0xf8, x2 | (x5 & t6))
    LOGIC(t40, x4, t38, t39, 0x6c, t38 ^ (x4 & t39))
    *o1 ^= t40; *o2 ^= t8; *o3 ^= t32; *o4 ^= t19;
}

DES_CIRCUIT(des_box_3)
    LOGIC(t1, x2, x4, x6, 0xdf, x4 | (~(x2 & x6)))
    LOGIC(t2, x2, x4, x6, 0xe6, (x2 & x4) | (x4 ^ x6))
    LOGIC(t3, x1, t1, t2, 0xac, t1 ^ (x1 & (t1 ^ t2)))
    LOGIC(t4, x1, x2, x6, 0x59, x6 ^ (x1 | ~x2))
    LOGIC(t5, x1, x2, x6, 0x62, (x1 | x6) & (x2 ^ x6))
    LOGIC(t6, x4, t4, t5, 0xac, t4 ^ (x4 & (t4 ^ t5)))
    LOGIC(t7, x5, t3, t6, 0xac, t3 ^ (x5 & (t3 ^ t6)))
    LOGIC(t8, x1, x2, x4, 0xcb, (x2 & x4) | (x1 ^ ~x2))
    LOGIC(t9, x6, t8, x6, 0xfc, x6 | t8)
    LOGIC(t10, x1, x4, x6, 0xc1, (x1 ^ ~x4) & (x1 | ~x6))
    LOGIC(t11, x5, t9, t10, 0xc6, t9 ^ (t10 & ~x5))
    LOGIC(t12, x3, t7, t11, 0xc6, t7 ^ (t11 & ~x3))
    LOGIC(t13, x1, x2, x3, 0x23, ~x2 & (x3 | ~x1))
    LOGIC(t14, x1, x2, x3, 0xb5, ~x3 ^ (x1 & (x2 | x3)))
    LOGIC(t15, x5, t13, t14, 0x6c, t13 ^ (x5 & t14))
    LOGIC(t16, x1, x2, x5, 0xbf, x5 | (~(x1 & x2)))
    LOGIC(t17, x6, t15, t16, 0x6c, t15 ^ (x6 & t16))
    LOGIC(t18, x1, x5, x1, 0xf3, x1 | ~x5)
    LOGIC(t19, x1, x2, x3, 0x70, x1 & (~(x2 & x3)))
    LOGIC(t20, x6, t18, t19, 0x6c, t18 ^ (x6 & t19))
    LOGIC(t21, x4, t17, t20, 0xc6, t17 ^ (t20 & ~x4))
    LOGIC(t22, x2, x4, x6, 0xad, (x4 & x6) | (x2 ^ ~x6))
    LOGIC(t23, x2, x4, x6, 0x16, (x2 | x4) ^ (x6 | (x2 & x4)))
    LOGIC(t24, x5, t22, t23, 0xac, t22 ^ (x5 & (t22 ^ t23)))
    LOGIC(t25, x1, t24, x1, 0x3c, x1 ^ t24)
    LOGIC(t26, x2, x5, x6, 0xd3, ~x5 ^ (x2 & (x5 | x6)))
    LOGIC(t27, x4, t26, x2, 0xc6, t26 ^ (x2 & ~x4))
    LOGIC(t28, x4, x5, x6, 0xb3, ~x5 | (x4 & x6))
    LOGIC(t29, x1, t27, t28, 0xac, t27 ^ (x1 & (t27 ^ t28)))
    LOGIC(t30, x3, t25, t29, 0xc6, t25 ^ (t29 & ~x3))
    LOGIC(t31, x2, x6, t10, 0x69, ~x2 ^ (x6 ^ t10))
    LOGIC(t32, x1, x2, x4, 0xcd, x2 | (~(x1 | x4)))
    LOGIC(t33, x3, t31, t32, 0xc6, t31 ^ (t32 & ~x3))
    LOGIC(t34, x1, x2, x6, 0x86, (x2 ^ x6) ^ (x1 & (x2 | x6)))
    LOGIC(t35, x1, x2, x6, 0xfe, x1 | (x2 | x6))
    LOGIC(t36, x4, t34, t35, 0x82, t35 & (x4 ^ ~t34))
    LOGIC(t37, t5, t6, t32, 0x87, ~t5 ^ (t6 & t32))
    LOGIC(t38, x3, t36, t37, 0xc6, t36 ^ (t37 & ~x3))
    LOGIC(t39, x5, t33, t38, 0xac, t33 ^ (x5 & (t33 ^ t38)))
    *o1 ^= t39; *o2 ^= t30; *o3 ^= t12; *o4 ^= t21;
}

DES_CIRCUIT(des_box_4)
    LOGIC(t1, x1, x5, x1, 0x3c, x1 ^ x5)
    LOGIC(t2, x1, x2, x5, 0x9d, ~x5 ^ (x2 & (x1 | x5)))
    LOGIC(t3, x4, t1, t2, 0xc6, t1 ^ (t2 & ~x4))
    LOGIC(t4, x1, x2, x4, 0x73, ~x2 | (x1 & ~x4))
    LOGIC(t5, x5, t4, x1, 0xc6, t4 ^ (x1 & ~x5))
    LOGIC(t6, x3, t3, t5, 0x6c, t3 ^ (x3 & t5))
    LOGIC(t7, x2, x4, x2, 0xf3, x2 | ~x4)
    LOGIC(t8, x1, x2, x4, 0xeb, x4 | (x1 ^ ~x2))
    LOGIC(t9, x5, t7, t8, 0xd7, ~(t8 & (x5 ^ t7)))
    LOGIC(t10, x1, x2, x5, 0x7c, (x1 ^ x2) | (x1 & ~x5))
    LOGIC(t11, x1, x2, x5, 0xc6, x2 ^ (x5 & ~x1))
    LOGIC(t12, x4, t10, t11, 0x6c, t10 ^ (x4 & t11))
    LOGIC(t13, x3, t9, t12, 0x6c, t9 ^ (x3 & t12))
    LOGIC(t14, x6, t6, t13, 0x6c, t6 ^ (x6 & t13))
    LOGIC(t15, x6, t6, t13, 0x36, t6 ^ (x6 | t13))
    LOGIC(t16, x1, x2, x3, 0xec, x2 | (x1 & x3))
    LOGIC(t17, x1, x2, x3, 0xf7, x1 | (~(x2 & x3)))
    LOGIC(t18, x4, t16, t17, 0xd7, ~(t17 & (x4 ^ t16)))
    LOGIC(t19, x3, x4, x3, 0x3c, x3 ^ x4)
    LOGIC(t20, x1, t19, t7, 0xac, t19 ^ (x1 & (t19 ^ t7)))
    LOGIC(t21, x5, t18, t20, 0xc6, t18 ^ (t20 & ~x5))
    LOGIC(t22, x1, x2, x4, 0x39, x2 ^ (x1 | ~x4))
    LOGIC(t23, x1, x2, x4, 0x21, ~(x2 | (x1 ^ x4)))
    LOGIC(t24, x5, t22, t23, 0x6c, t22 ^ (x5 & t23))
    LOGIC(t25, x4, x5, t22, 0x79, (x5 & t22) ^ (x4 | (~(x5 | t22))))
    LOGIC(t26, x3, t24, t25, 0xac, t24 ^ (x3 & (t24 ^ t25)))
    LOGIC(t27, x6, t21, t26, 0xc6, t21 ^ (t26 & ~x6))
    LOGIC(t28, x6, t21, t26, 0x9c, t21 ^ (x6 & ~t26))
    *o1 ^= t27; *o2 ^= t28; *o3 ^= t15; *o4 ^= t14;
}

DES_CIRCUIT(des_box_5)
    LOGIC(t1, x4, x5, x6, 0x96, x4 ^ (x5 ^ x6))
    LOGIC(t2, x4, x5, x6, 0x2f, ~x4 | (x6 & ~x5))
    LOGIC(t3, x1, t1, t2, 0xc6, t1 ^ (t2 & ~x1))
    LOGIC(t4, x1, x4, x6, 0x5c, (x1 | x4) ^ (x1 & x6))
    LOGIC(t5, x1, x4, x6, 0x51, ~x6 & (x1 | ~x4))
    LOGIC(t6, x5, t4, t5, 0xc6, t4 ^ (t5 & ~x5))
    LOGIC(t7, x3, t3, t6, 0xc6, t3 ^ (t6 & ~x3))
    LOGIC(t8, x4, x6, x4, 0xfc, x4 | x6)
    LOGIC(t9, x3, x4, x6, 0x09, ~(x3 | (x4 ^ x6)))
    LOGIC(t10, x1, t8, t9, 0x6c, t8 ^ (x1 & t9))
    LOGIC(t11, x1, x3, x4, 0x19, x3 ^ (~x4 | (x1 & x3)))
    LOGIC(t12, x5, t10, t11, 0xac, t10 ^ (x5 & (t10 ^ t11)))
    LOGIC(t13, x2, t7, t12, 0x6c, t7 ^ (x2 & t12))
    LOGIC(t14, x2, x3, x6, 0x52, x6 ^ (x2 | (x3 & x6)))
    LOGIC(t15, x2, x3, x6, 0xbe, x6 | (x2 ^ x3))
    LOGIC(t16, x4, t14, t15, 0x6c, t14 ^ (x4 & t15))
    LOGIC(t17, x2, x4, x6, 0xcb, (x4 & x6) | (x2 ^ ~x4))
    LOGIC(t18, x3, t17, x6, 0x6c, t17 ^ (x3 & x6))
    LOGIC(t19, x5, t16, t18, 0xac, t16 ^ (x5 & (t16 ^ t18)))
    LOGIC(t20, x2, x5, x2, 0x3f, ~(x2 & x5))
    LOGIC(t21, x2, x5, x6, 0x41, ~(x6 | (x2 ^ x5)))
    LOGIC(t22, x3, t20, t21, 0xc6, t20 ^ (t21 & ~x3))
    LOGIC(t23, x2, x5, x6, 0xba, x6 | (x2 & ~x5))
    LOGIC(t24, x2, x5, x2, 0x3c, x2 ^ x5)
    LOGIC(t25, x3, t23, t24, 0x6c, t23 ^ (x3 & t24))
    LOGIC(t26, x4, t22, t25, 0xc6, t22 ^ (t25 & ~x4))
    LOGIC(t27, x1, t19, t26, 0x6c, t19 ^ (x1 & t26))
    LOGIC(t28, x2, x3, x5, 0x86, (x3 ^ x5) ^ (x2 & (x3 | x5)))
    LOGIC(t29, x4, t28, t23, 0xc6, t28 ^ (t23 & ~x4))
    LOGIC(t30, x2, x4, x5, 0xdb, (x2 ^ x5) | (x2 ^ ~x4))
    LOGIC(t31, x2, x5, x2, 0xfc, x2 | x5)
    LOGIC(t32, x3, t30, t31, 0xac, t30 ^ (x3 & (t30 ^ t31)))
    LOGIC(t33, x3, t30, t31, 0xb7, ~(t30 & (x3 ^ t31)))
    LOGIC(t34, x6, t32, t33, 0x6c, t32 ^ (x6 & t33))
    LOGIC(t35, x1, t29, t34, 0xc6, t29 ^ (t34 & ~x1))
    LOGIC(t36, x4, x5, x6, 0xfd, ~x6 | (x4 | x5))
    LOGIC(t37, x3, t1, t36, 0x6c, t1 ^ (x3 & t36))
    LOGIC(t38, x3, x4, x6, 0xec, x4 | (x3 & x6))
    LOGIC(t39, x2, t37, t38, 0x6c, t37 ^ (x2 & t38))
    LOGIC(t40, x2, x4, t9, 0xef, ~x2 | (x4 | t9))
    LOGIC(t41, x3, x4, x6, 0x2e, (x3 & x4) ^ (x4 | x6))
    LOGIC(t42, x5, t40, t41, 0x6c, t40 ^ (x5 & t41))
    LOGIC(t43, x1, t39, t42, 0x6c, t39 ^ (x1 & t42))
    *o1 ^= t27; *o2 ^= t43; *o3 ^= t35; *o4 ^= t13;
}

DES_CIRCUIT(des_box_6)
    LOGIC(t1, x3, x4, x5, 0x72, (x3 | x5) ^ (x4 & x5))
    LOGIC(t2, x6, t1, x6, 0xc3, x6 ^ ~t1)
    LOGIC(t3, x3, x4, x6, 0xfe, x3 | (x4 | x6))
    LOGIC(t4, x2, t2, t3, 0x6c, t2 ^ (x2 & t3))
    LOGIC(t5, x3, x4, x5, 0x97, (x3 & x4) ^ (~(x5 & (x3 | x4))))
    LOGIC(t6, x2, x3, x4, 0x65, x4 ^ (x3 | ~x2))
    LOGIC(t7, x2, x3, x4, 0x82, x4 & (x2 ^ ~x3))
    LOGIC(t8, x5, t6, t7, 0xc6, t6 ^ (t7 & ~x5))
    LOGIC(t9, x6, t5, t8, 0x6c, t5 ^ (x6 & t8))
    LOGIC(t10, x1, t4, t9, 0xc6, t4 ^ (t9 & ~x1))
    LOGIC(t11, x2, x3, x5, 0x97, (x2 & x3) ^ (~(x5 & (x2 | x3))))
    LOGIC(t12, x2, x3, x5, 0x7e, (x2 ^ x3) | (x2 ^ x5))
    LOGIC(t13, x1, t11, t12, 0x6c, t11 ^ (x1 & t12))
    LOGIC(t14, x1, x2, x5, 0xf7, x1 | (~(x2 & x5)))
    LOGIC(t15, x4, t13, t14, 0xc6, t13 ^ (t14 & ~x4))
    LOGIC(t16, x2, x4, x5, 0xd7, ~(x5 & (x2 ^ x4)))
    LOGIC(t17, x2, x3, x4, 0x5c, (x2 | x3) ^ (x2 & x4))
    LOGIC(t18, x5, x3, t17, 0x6c, x3 ^ (x5 & t17))
    LOGIC(t19, x1, t16, t18, 0xac, t16 ^ (x1 & (t16 ^ t18)))
    LOGIC(t20, x6, t15, t19, 0x6c, t15 ^ (x6 & t19))
    LOGIC(t21, x1, x4, x6, 0x96, x1 ^ (x4 ^ x6))
    LOGIC(t22, x3, x4, x6, 0xf1, x3 | (~(x4 | x6)))
    LOGIC(t23, x3, x4, x6, 0x8d, (x3 | x6) ^ (~(x4 & x6)))
    LOGIC(t24, x1, t22, t23, 0x6c, t22 ^ (x1 & t23))
    LOGIC(t25, x5, t21, t24, 0xc6, t21 ^ (t24 & ~x5))
    LOGIC(t26, x3, x4, x6, 0x8f, ~x3 | (x4 & x6))
    LOGIC(t27, x3, x4, x5, 0xd4, (x3 | x4) ^ (x5 & (x3 ^ x4)))
    LOGIC(t28, x6, t27, x6, 0xc0, x6 & t27)
    LOGIC(t29, x1, t26, t28, 0x6c, t26 ^ (x1 & t28))
    LOGIC(t30, x2, t25, t29, 0x6c, t25 ^ (x2 & t29))
    LOGIC(t31, x1, x2, x5, 0x7a, (x1 ^ x5) | (x1 & ~x2))
    LOGIC(t32, x1, x2, x5, 0x13, ~(x2 | (x1 & x5)))
    LOGIC(t33, x4, t31, t32, 0xc6, t31 ^ (t32 & ~x4))
    LOGIC(t34, x1, x2, x5, 0xe5, (x1 & x2) | (x1 ^ ~x5))
    LOGIC(t35, x1, x5, x1, 0x0c, x5 & ~x1)
    LOGIC(t36, x4, t34, t35, 0xec, t34 | (x4 & t35))
    LOGIC(t37, x3, t33, t36, 0x6c, t33 ^ (x3 & t36))
    LOGIC(t38, x2, x4, x5, 0x7f, ~(x2 & (x4 & x5)))
    LOGIC(t39, x2, t7, t27, 0x39, t7 ^ (x2 | ~t27))
    LOGIC(t40, x1, t38, t39, 0xac, t38 ^ (x1 & (t38 ^ t39)))
    LOGIC(t41, x6, t37, t40, 0x6c, t37 ^ (x6 & t40))
    *o1 ^= t30; *o2 ^= t41; *o3 ^= t20; *o4 ^= t10;
}

DES_CIRCUIT(des_box_7)
    LOGIC(t1, x1, x2, x6, 0xe9, (x1 & x2) | (~x1 ^ (x2 ^ x6)))
    LOGIC(t2, x1, x6, x1, 0x3c, x1 ^ x6)
    LOGIC(t3, x3, t1, t2, 0xac, t1 ^ (x3 & (t1 ^ t2)))
    LOGIC(t4, x1, x2, x6, 0x7f, ~(x1 & (x2 & x6)))
    LOGIC(t5, x5, t3, t4, 0xc6, t3 ^ (t4 & ~x5))
    LOGIC(t6, x1, x2, x3, 0xf6, x1 | (x2 ^ x3))
    LOGIC(t7, x6, x3, t6, 0xac, x3 ^ (x6 & (x3 ^ t6)))
    LOGIC(t8, x5, t7, t4, 0xac, t7 ^ (x5 & (t7 ^ t4)))
    LOGIC(t9, x4, t5, t8, 0x6c, t5 ^ (x4 & t8))
    LOGIC(t10, x1, x4, x5, 0xca, x5 ^ (x1 & (x4 ^ x5)))
    LOGIC(t11, x1, x4, x5, 0x7c, (x1 ^ x4) | (x1 & ~x5))
    LOGIC(t12, x2, t10, t11, 0x6c, t10 ^ (x2 & t11))
    LOGIC(t13, x1, x4, x5, 0xf4, x1 | (x4 & ~x5))
    LOGIC(t14, x1, x4, x5, 0xa3, (x1 & x5) ^ (~(x1 | x4)))
    LOGIC(t15, x2, t13, t14, 0xc6, t13 ^ (t14 & ~x2))
    LOGIC(t16, x3, t12, t15, 0x6c, t12 ^ (x3 & t15))
    LOGIC(t17, x2, x4, x5, 0xb8, x2 ^ (x4 & (x2 ^ x5)))
    LOGIC(t18, x3, t17, x3, 0x3f, ~(x3 & t17))
    LOGIC(t19, x3, x4, x5, 0xd2, x3 ^ (x5 & ~x4))
    LOGIC(t20, x1, t18, t19, 0xac, t18 ^ (x1 & (t18 ^ t19)))
    LOGIC(t21, x6, t16, t20, 0x6c, t16 ^ (x6 & t20))
    LOGIC(t22, x1, x2, x3, 0x9c, x2 ^ (x1 & ~x3))
    LOGIC(t23, x1, x3, x1, 0xf3, x1 | ~x3)
    LOGIC(t24, x1, x2, x3, 0x2f, ~x1 | (x3 & ~x2))
    LOGIC(t25, x5, t23, t24, 0xd7, ~(t24 & (x5 ^ t23)))
    LOGIC(t26, x6, t22, t25, 0xc6, t22 ^ (t25 & ~x6))
    LOGIC(t27, x3, x5, x6, 0x8f, ~x3 | (x5 & x6))
    LOGIC(t28, x3, x5, x6, 0x1b, (x3 & x6) ^ (x6 | ~x5))
    LOGIC(t29, x2, t27, t28, 0x6c, t27 ^ (x2 & t28))
    LOGIC(t30, x2, x3, x6, 0x9d, ~x6 ^ (x3 & (x2 | x6)))
    LOGIC(t31, x2, x3, x6, 0x6c, x3 ^ (x2 & x6))
    LOGIC(t32, x5, t30, t31, 0xac, t30 ^ (x5 & (t30 ^ t31)))
    LOGIC(t33, x1, t29, t32, 0xac, t29 ^ (x1 & (t29 ^ t32)))
    LOGIC(t34, x4, t26, t33, 0xac, t26 ^ (x4 & (t26 ^ t33)))
    LOGIC(t35, x2, x4, x6, 0xa4, (x2 | x4) & (x2 ^ ~x6))
    LOGIC(t36, x2, x4, x6, 0x78, x2 ^ (x4 & x6))
    LOGIC(t37, x3, t35, t36, 0xc6, t35 ^ (t36 & ~x3))
    LOGIC(t38, x2, x4, x6, 0x69, ~x2 ^ (x4 ^ x6))
    LOGIC(t39, x2, x4, x6, 0x3a, (x2 & x4) ^ (x2 | x6))
    LOGIC(t40, x3, t38, t39, 0xac, t38 ^ (x3 & (t38 ^ t39)))
    LOGIC(t41, x1, t37, t40, 0x6c, t37 ^ (x1 & t40))
    LOGIC(t42, x4, t2, t7, 0x7f, ~(x4 & (t2 & t7)))
    LOGIC(t43, x5, t41, t42, 0xc6, t41 ^ (t42 & ~x5))
    *o1 ^= t21; *o2 ^= t43; *o3 ^= t34; *o4 ^= t9;
}

DES_CIRCUIT(des_box_8)
    LOGIC(t1, x4, x5, x6, 0x7a, (x4 ^ x6) | (x4 & ~x5))
    LOGIC(t2, x4, x5, x6, 0xbd, (x4 ^ x5) | (x4 ^ ~x6))
    LOGIC(t3, x1, t1, t2, 0xd7, ~(t2 & (x1 ^ t1)))
    LOGIC(t4, x1, x5, x6, 0xbf, x6 | (~(x1 & x5)))
    LOGIC(t5, x3, t3, t4, 0x6c, t3 ^ (x3 & t4))
    LOGIC(t6, x1, x4, x6, 0x6e, (x4 ^ x6) | (x4 & ~x1))
    LOGIC(t7, x1, x4, x6, 0xca, x6 ^ (x1 & (x4 ^ x6)))
    LOGIC(t8, x3, t6, t7, 0xac, t6 ^ (x3 & (t6 ^ t7)))
    LOGIC(t9, x4, x6, t8, 0x87, ~x4 ^ (x6 & t8))
    LOGIC(t10, x5, t8, t9, 0x6c, t8 ^ (x5 & t9))
    LOGIC(t11, x2, t5, t10, 0xc6, t5 ^ (t10 & ~x2))
    LOGIC(t12, x4, x5, x6, 0x16, (x4 | x5) ^ (x6 | (x4 & x5)))
    LOGIC(t13, x4, x5, x6, 0xa7, ~x4 ^ (x6 & (x4 | x5)))
    LOGIC(t14, x3, t12, t13, 0xac, t12 ^ (x3 & (t12 ^ t13)))
    LOGIC(t15, x3, t12, t13, 0xf6, x3 | (t12 ^ t13))
    LOGIC(t16, x2, t14, t15, 0xc6, t14 ^ (t15 & ~x2))
    LOGIC(t17, x2, x3, x6, 0x76, (x3 ^ x6) | (x2 & ~x3))
    LOGIC(t18, x5, x6, t17, 0xac, x6 ^ (x5 & (x6 ^ t17)))
    LOGIC(t19, x2, x5, x6, 0x91, (x5 ^ ~x6) & (x2 | ~x5))
    LOGIC(t20, x4, t18, t19, 0xc6, t18 ^ (t19 & ~x4))
    LOGIC(t21, x1, t16, t20, 0xc6, t16 ^ (t20 & ~x1))
    LOGIC(t22, x1, x3, x6, 0x46, x6 ^ (x3 | (x1 & x6)))
    LOGIC(t23, x1, x3, x6, 0xa9, ~x6 ^ (x1 | x3))
    LOGIC(t24, x4, t22, t23, 0x2c, (x4 ^ t22) & (t22 | t23))
    LOGIC(t25, x1, x3, x6, 0xd3, ~x3 ^ (x1 & (x3 | x6)))
    LOGIC(t26, x5, t24, t25, 0xc6, t24 ^ (t25 & ~x5))
    LOGIC(t27, x1, x3, x6, 0xc6, x3 ^ (x6 & ~x1))
    LOGIC(t28, x5, t27, t25, 0x6c, t27 ^ (x5 & t25))
    LOGIC(t29, x1, x5, x6, 0xac, x5 ^ (x1 & (x5 ^ x6)))
    LOGIC(t30, x4, t28, t29, 0xc6, t28 ^ (t29 & ~x4))
    LOGIC(t31, x2, t26, t30, 0xac, t26 ^ (x2 & (t26 ^ t30)))
    LOGIC(t32, x2, x5, x6, 0x92, (x2 ^ x6) ^ (x5 & (x2 | x6)))
    LOGIC(t33, x2, x5, x6, 0x59, x6 ^ (x2 | ~x5))
    LOGIC(t34, x4, t32, t33, 0xc6, t32 ^ (t33 & ~x4))
    LOGIC(t35, x2, x4, x5, 0xea, x5 | (x2 & x4))
    LOGIC(t36, x2, x4, x5, 0x17, (x2 & x4) ^ (~(x5 & (x2 ^ x4))))
    LOGIC(t37, x6, t35, t36, 0x6c, t35 ^ (x6 & t36))
    LOGIC(t38, x1, t34, t37, 0x6c, t34 ^ (x1 & t37))
    LOGIC(t39, x4, x5, x6, 0xfd, ~x6 | (x4 | x5))
    LOGIC(t40, x4, x5, x6, 0x1b, (x4 & x6) ^ (x6 | ~x5))
    LOGIC(t41, x1, x6, t40, 0x6c, x6 ^ (x1 & t40))
    LOGIC(t42, x2, t39, t41, 0xc6, t39 ^ (t41 & ~x2))
    LOGIC(t43, x3, t38, t42, 0x6c, t38 ^ (x3 & t42))
    *o1 ^= t11; *o2 ^= t31; *o3 ^= t21; *o4 ^= t43;
}

// A function with arrays that has to be inlined, so that they become registers.
#define INLINE __attribute__((always_inline)) static void

INLINE des_sliced_round(uint *left, const uint *right, uint even, uint odd) {
    des_box_1(right[31], right[0], right[1], right[2], right[3], right[4], even >> 24,
              &left[8], &left[16], &left[22], &left[30]);
    des_box_2(right[3], right[4], right[5], right[6], right[7], right[8], odd >> 24,
              &left[12], &left[27], &left[1], &left[17]);
    des_box_3(right[7], right[8], right[9], right[10], right[11], right[12], even >> 16,
              &left[23], &left[15], &left[29], &left[5]);
    des_box_4(right[11], right[12], right[13], right[14], right[15], right[16], odd >> 16,
              &left[25], &left[19], &left[9], &left[0]);
    des_box_5(right[15], right[16], right[17], right[18], right[19], right[20], even >> 8,
              &left[7], &left[13], &left[24], &left[2]);
    des_box_6(right[19], right[20], right[21], right[22], right[23], right[24], odd >> 8,
              &left[3], &left[28], &left[10], &left[18]);
    des_box_7(right[23], right[24], right[25], right[26], right[27], right[28], even >> 0,
              &left[31], &left[11], &left[21], &left[6]);
    des_box_8(right[27], right[28], right[29], right[30], right[31], right[0], odd >> 0,
              &left[4], &left[26], &left[14], &left[20]);
}

// Makes bit i of word j bit j of word i, counted from the highest.
INLINE transpose(uint *words) {
#pragma unroll
    for (uint step = 16; step > 0; step /= 2) {
        uint mask = 0xffffffffu / ((1u << step) + 1u);
#pragma unroll
        for (uint i = 0; i < 32; i++)
            if ((i & step) == 0) {
                uint t = (words[i] ^ words[i + step] >> step) & mask;
                words[i] ^= t;
                words[i + step] ^= t << step;
            }
    }
}

// Word i of the state's halves is bit DES_IP(i) of the block and that before it, counted from the
// highest from 0 on.
#define DES_IP(i) (57 - 8 * ((i) % 8) + 2 * ((i) / 8))

KERNEL void des3_cbc_decrypt_sliced(__global const uchar *input, __global uchar *output,
                                    __global const uint *keys, uint rounds, uint messages,
                                    ulong units, uint each) {
    __global const Message *message = (__global const Message *)input;
    uint m = 0;
    FOR_UNITS(unit, units, each) {
        m = find_message(message, messages, unit, m);
        ulong offset = (unit - message[m].first) * 256;
        uint blocks = bytes_at(message[m].length, offset, 256) / 8;
        __global const uint2 *from = (__global const uint2 *)(input + message[m].input + offset);
        __global uint2 *to = (__global uint2 *)(output + message[m].output + offset);
        __global const uint *key = keys + message[m].key * DES_SLOT;
        uint bits[64], left[32], right[32];
#pragma unroll
        for (uint i = 0; i < 32; i++) {
            uint2 block = i < blocks ? from[i] : (uint2)(0, 0);
            bits[i] = swap_bytes(block.x);
            bits[32 + i] = swap_bytes(block.y);
        }
        transpose(bits);
        transpose(bits + 32);
#pragma unroll
        for (uint i = 0; i < 32; i++) {
            left[i] = bits[DES_IP(i)];
            right[i] = bits[DES_IP(i) - 1];
        }
#pragma nounroll
        for (uint pair = 0; pair < 24; pair++) {
            uint place = 4 * (23 - pair);
            des_sliced_round(left, right, key[place + 2], key[place + 3]);
            des_sliced_round(right, left, key[place], key[place + 1]);
            if (pair % 8 == 7) {
#pragma unroll
                for (uint i = 0; i < 32; i++) {
                    uint word = left[i];
                    left[i] = right[i];
                    right[i] = word;
                }
            }
        }
#pragma unroll
        for (uint i = 0; i < 32; i++) {
            bits[DES_IP(i)] = left[i];
            bits[DES_IP(i) - 1] = right[i];
        }
        transpose(bits);
        transpose(bits + 32);
        uint2 before = offset == 0 ? (uint2)(message[m].iv[0], message[m].iv[1]) : from[-1];
#pragma unroll
        for (uint i = 0; i < 32; i++)
            if (i < blocks) {
                to[i] = (uint2)(swap_bytes(bits[i]), swap_bytes(bits[32 + i])) ^ before;
                before = from[i];
            }
    }
}
