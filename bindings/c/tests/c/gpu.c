/* Texts in a GPU's memory: what is refused, which needs no GPU. On PoCL, which computes on the
 * processor's cores, the text that is sealed at first is compared with OpenSSL's; PoCL shares no memory
 * with other contexts, so no text of the caller's can be sealed there. */
#include <string.h>

#include "check.h"

static void seals_its_first_text(const char *cipher, size_t key_length)
{
    uint8_t bytes[32] = {1, 2, 3}, tag[16];
    evener_key *key;
    OK(evener_key_from_bytes(bytes, key_length, &key));
    evener_gpu *gpu;
    int status = evener_gpu_new("gpu:opencl:pocl", cipher, key, &gpu);
    if (status == EVENER_STATUS_ENGINE_UNAVAILABLE) {
        printf("skipped: %s in a GPU's memory: %s\n", cipher, evener_last_error());
    } else {
        EXPECT(EVENER_STATUS_OK, status);
        EXPECT(EVENER_STATUS_ENGINE_FAILED,
               evener_gpu_seal(gpu, 4096, 1, 0, bytes, 12, NULL, 0, tag, sizeof tag));
        CHECK(strstr(evener_last_error(), "shares no memory"));
        EXPECT(EVENER_STATUS_INVALID_ARGUMENT,
               evener_gpu_seal(gpu, 4096, 1, 0, bytes, 11, NULL, 0, tag, sizeof tag));
        evener_gpu_free(gpu);
    }
    evener_key_free(key);
}

void test_gpu(void)
{
    seals_its_first_text("aes-256-gcm", 32);
    seals_its_first_text("chacha20-poly1305", 32);
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
