/* Texts in a GPU's memory: what is refused, which needs no GPU. */
#include <string.h>

#include "check.h"

void test_gpu(void)
{
    uint8_t bytes[16] = {7}, tag[16] = {0};
    evener_key *key;
    OK(evener_key_from_bytes(bytes, sizeof bytes, &key));
    evener_gpu *gpu = (evener_gpu *)bytes;
    EXPECT(EVENER_STATUS_ENGINE_UNAVAILABLE,
           evener_gpu_new("gpu:vulkan:0", "aes-128-gcm", key, &gpu));
    CHECK(gpu == NULL && strstr(evener_last_error(), "vulkan"));
    EXPECT(EVENER_STATUS_UNKNOWN_CIPHER, evener_gpu_new(NULL, "enigma", key, &gpu));
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT, evener_gpu_new(NULL, "aes-128-gcm", NULL, &gpu));
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT,
           evener_gpu_seal(NULL, 0, 0, 0, bytes, 12, NULL, 0, tag, sizeof tag));
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT,
           evener_gpu_unseal(NULL, 0, 0, 0, bytes, 12, NULL, 0, tag, sizeof tag));
    evener_gpu_free(NULL);
    evener_key_free(key);
}
