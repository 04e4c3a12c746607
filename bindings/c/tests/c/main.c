/* Tests of the C library. Takes an empty directory, and says "passed" when all is well. */
#include <string.h>

#include "check.h"

int main(int count, char **arguments)
{
    if (count != 2) {
        fprintf(stderr, "usage: %s DIRECTORY\n", arguments[0]);
        return 2;
    }
    CHECK(evener_abi_version() == EVENER_ABI_VERSION);
    CHECK(strlen(evener_version()) > 0);
    CHECK(strlen(evener_last_error()) == 0);
    CHECK(strcmp(evener_status_words(99), "unknown status") == 0);
    test_ciphers_and_engines();
    test_sessions();
    test_parallel();
    test_gpu();
    test_files(arguments[1]);
    test_trees(arguments[1]);
    puts("passed");
    return 0;
}
