/* An IV serves one message, whatever is set anew. */

#include "host.h"

#include <openssl/err.h>
#include <string.h>

void test_ivs(void)
{
    unsigned char key[16] = { 1 }, iv[12] = { 2 }, text[32] = { 3 }, whole[14], end[8] = { 0 };
    unsigned char record[13] = { [3] = 7, [12] = 40 };
    int count;
    EVP_CIPHER *cipher = fetch(128, OURS);
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();

    /* A key that is set while a message is going on, or the other direction, ends the message. */
    for (int direction = 0; direction < 2; direction++) {
        EVP_CIPHER_CTX_reset(context);
        EXPECT(EVP_CipherInit_ex(context, cipher, NULL, key, iv, 1));
        EXPECT(EVP_CipherUpdate(context, text, &count, text, 32));
        EXPECT(EVP_CipherInit_ex(context, NULL, NULL, direction ? NULL : key, NULL, !direction));
        EXPECT(!EVP_CipherUpdate(context, text, &count, text, 32));
        EXPECT(EVP_CipherInit_ex(context, NULL, NULL, NULL, iv, -1));
        EXPECT(EVP_CipherUpdate(context, text, &count, text, 32));
    }

    /* Generated IVs: all of one where no length is given, or its end. */
    EVP_CIPHER_CTX_reset(context);
    EXPECT(EVP_EncryptInit_ex(context, cipher, NULL, key, NULL));
    EXPECT(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_SET_IV_FIXED, -1, iv));
    for (int length = -1; length <= 0; length++) {
        memset(whole, 0xaa, sizeof whole);
        EXPECT(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_IV_GEN, length, whole));
        iv[11] = (unsigned char)(length + 1);
        EXPECT(memcmp(whole, iv, 12) == 0 && whole[12] == 0xaa);
    }
    EXPECT(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_IV_GEN, 8, end));
    EXPECT(memcmp(end, "\0\0\0\0\0\0\0\2", 8) == 0);

    /* What can't be done without a key changes nothing: the IV that was set serves. */
    EVP_CIPHER_CTX_reset(context);
    memset(text, 3, sizeof text);
    EXPECT(EVP_EncryptInit_ex(context, cipher, NULL, key, iv));
    EXPECT(EVP_EncryptUpdate(context, text, &count, text, 32));
    EVP_CIPHER_CTX_reset(context);
    EXPECT(EVP_DecryptInit_ex(context, cipher, NULL, NULL, NULL));
    EXPECT(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_SET_IV_FIXED, -1, iv));
    EXPECT(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_SET_IV_INV, 8, end) <= 0);
    EXPECT(EVP_DecryptInit_ex(context, NULL, NULL, key, NULL));
    EXPECT(EVP_DecryptUpdate(context, text, &count, text, 32));
    for (int byte = 0; byte < 32; byte++)
        EXPECT(text[byte] == 3);

    /* Additional data of a record of TLS are gone with the next call, and the IV is used. */
    EVP_CIPHER_CTX_reset(context);
    EXPECT(EVP_EncryptInit_ex(context, cipher, NULL, key, iv));
    EXPECT(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_TLS1_AAD, 13, record) == 16);
    EXPECT(!EVP_EncryptFinal_ex(context, text, &count));
    EXPECT(!EVP_EncryptUpdate(context, text, &count, text, 32));
    EXPECT(EVP_EncryptInit_ex(context, NULL, NULL, NULL, iv));
    EXPECT(EVP_EncryptUpdate(context, text, &count, text, 32) && count == 32);
    ERR_clear_error();
    EVP_CIPHER_CTX_free(context);
    EVP_CIPHER_free(cipher);
}
